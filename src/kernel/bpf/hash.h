/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The 64-bit hash that tables identify their entries by. Two entries with the same hash are taken for
 * the same: with 100,000 in a table, that happens to one pair in some billions of launches.
 */
#ifndef PARALFETCH_HASH_H
#define PARALFETCH_HASH_H

#include "kernel.h"
#include <bpf/bpf_helpers.h>

/* Mixes `count` 8-byte words into the hash; `most` bounds `count` for the verifier. */
static __always_inline __u64 mix(__u64 hash, const __u64 *words, __u32 count, __u32 most)
{
	__u32 i;

	for (i = 0; i < most && i < count; i++) {
		hash = (hash ^ words[i]) * 0x9e3779b97f4a7c15ULL;
		hash ^= hash >> 29;
	}
	return hash;
}

#endif
