/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The filter of paths: which paths were reported already, by their hashes (hash.h).
 *
 * The near table is small enough for a processor's cache to hold, and for the kernel to take it from
 * memory that it maps by large pages: a miss of the caches or of the TLB takes longer than all else that
 * a path costs.
 */
#ifndef PARALFETCH_SEEN_PATHS_H
#define PARALFETCH_SEEN_PATHS_H

#include "kernel.h"
#include "intf.h"
#include "recorders.h"
#include "seen_pages.h"

RECORDER_TABLE(near_paths, struct pf_near_paths);

enum note { NOTED, KNOWN, NO_ROOM };

/* Notes the hash in the line, if it is not known there and there is room. */
static __always_inline enum note note_path(struct pf_path_line *line, __u64 hash)
{
	__u64 held;
	__u32 i;

	for (i = 0; i < 8; i++) {
		held = line->at[i];
		if (!held)
			held = __sync_val_compare_and_swap(&line->at[i], 0, hash);
		if (!held)
			return NOTED;
		if (held == hash)
			return KNOWN;
	}
	return NO_ROOM;
}

/* Whether it is the first time that this path is reported; notes that it is. */
static __always_inline bool is_new_path(__u32 recorder, __u64 hash)
{
	struct pf_near_paths *near = recorder_table(&near_paths, recorder);
	__u64 line = (hash >> 32) * PF_NEAR_PATH_LINES >> 32;
	enum note note = NO_ROOM;
	struct pf_far_tables *far;

	if (near && line < PF_NEAR_PATH_LINES)
		note = note_path(&near->lines[line], hash);
	if (note == NO_ROOM) {
		far = recorder_table(&far_tables, recorder);
		/* Where this is full, too, the path is reported each time from now on. */
		note = far ? note_path(&far->lines[hash % PF_FAR_PATH_LINES], hash) : NO_ROOM;
	}
	return note != KNOWN;
}

#endif
