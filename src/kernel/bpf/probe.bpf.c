// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Does nothing, on whatever kernel function it is attached to: whether the kernel allows that is the
 * answer. User space names the function.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

SEC("fentry")
int probe(void *context)
{
	return 0;
}
