/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Kernel types that only the timeline looks into, beside those of the product's kernel.h. As there,
 * offsets come from the running kernel's BTF. Three underscores: further fields of a struct that
 * kernel.h has already.
 */
#ifndef LAB_KERNEL_MORE_H
#define LAB_KERNEL_MORE_H

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct task_struct___wait {
	unsigned int in_iowait : 1;
};

struct request___bio {
	struct bio *bio;
};

#pragma clang attribute pop

#endif
