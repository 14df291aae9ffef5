/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What the read requests of a launch tree and its helpers are for.
 *
 * A prefetched launch makes few requests of its own. Whether the profile lacks their pages, or the app came
 * before the prefetch thread, decides whether it is worth learning again, and pages that launch after launch
 * lacks join the profile; only user space can tell. The first PF_OWN_READS bios of each launch are noted: those
 * that make a request, and those that join one. The programs for that run at requests alone, which are rare then.
 * When a launch is over, user space has the tree's reads noted anew.
 */
#ifndef PARALFETCH_OWN_READS_H
#define PARALFETCH_OWN_READS_H

#include "kernel.h"
#include "intf.h"
#include "bio_pages.h"
#include "memory.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

/* Of the slot of each launch. Those of a slot's earlier launch are overwritten. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PF_LAUNCHES);
	__type(key, __u32);
	__type(value, struct pf_own_reads);
} own_reads SEC(".maps");

/* Notes a bio of the launch's tree, or of a helper. */
static __always_inline void note_own_read(struct pf_launch *launch, __u32 by, struct bio *bio)
{
	__u32 slot = launch->number % PF_LAUNCHES, index;
	struct pf_own_reads *reads;
	struct pf_own_read *read;
	struct super_block *sb;
	struct inode *inode;
	__u64 start;

	if (launch->noted_reads >= PF_OWN_READS)
		return;
	reads = bpf_map_lookup_elem(&own_reads, &slot);
	if (!reads)
		return;
	index = __sync_fetch_and_add(&launch->noted_reads, 1);
	if (index >= PF_OWN_READS)
		return;
	read = &reads->at[index & (PF_OWN_READS - 1)];
	read->pages = 0;
	read->time_ns = bpf_ktime_get_ns();
	read->by = by;
	inode = first_page_of(bio, &start);
	if (!inode)
		return;
	sb = BPF_CORE_READ(inode, i_sb);
	if (BPF_CORE_READ(sb, s_magic) == BDEVFS_MAGIC) {
		read->dev = BPF_CORE_READ(inode, i_rdev);
		read->ino = 0;
		read->generation = 0;
	} else {
		read->dev = dev_of_file(inode);
		read->ino = BPF_CORE_READ(inode, i_ino);
		read->generation = BPF_CORE_READ(inode, i_generation);
		/* Without a number: what EROFS keeps of compressed blocks. */
		if (!read->ino)
			return;
	}
	if (!read->dev)
		return;
	read->start = start;
	read->pages = (bio->bi_iter.bi_size + page_bytes - 1) / page_bytes;
}

#endif
