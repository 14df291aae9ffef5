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

struct page {
	unsigned long flags;
	/* The head page plus 1, if this is a later page of a large folio. */
	unsigned long compound_head;
};

struct bio_vec {
	struct page *bv_page;
	unsigned int bv_len;
	unsigned int bv_offset;
};

/* A bio that was split off another shares its vector, and begins in the middle of it. */
struct bvec_iter___at {
	unsigned int bi_idx;
	unsigned int bi_bvec_done;
};

struct bio___pages {
	struct bio_vec *bi_io_vec;
	struct bvec_iter___at bi_iter;
};

struct request___bio {
	struct bio *bio;
};

#pragma clang attribute pop

#endif
