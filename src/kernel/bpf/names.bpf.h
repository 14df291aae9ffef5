/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Names of 64 bits for what is kept in tables. Two things are taken for the same if they have the same
 * name: of 100,000 in a table, that may happen to one pair in some billions of launches.
 */
#ifndef PARALFETCH_NAMES_BPF_H
#define PARALFETCH_NAMES_BPF_H

/* Mixes so many 8-byte words into the name; `most` is what the verifier has to know of `count`. */
static __always_inline __u64 mix(__u64 name, const __u64 *words, __u32 count, __u32 most)
{
	__u32 i;

	for (i = 0; i < most && i < count; i++) {
		name = (name ^ words[i]) * 0x9e3779b97f4a7c15ULL;
		name ^= name >> 29;
	}
	return name;
}

#endif
