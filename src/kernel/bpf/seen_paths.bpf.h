/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The filter: which paths were reported already, by their names (names.bpf.h).
 */
#ifndef PARALFETCH_SEEN_PATHS_BPF_H
#define PARALFETCH_SEEN_PATHS_BPF_H

/* Names of paths that were reported: a line of the processor's cache. */
struct path_names {
	__u64 at[8];
};

/*
 * Few enough for a processor's cache to hold, and for the kernel to take them from memory that it maps by
 * large pages: a miss of the caches or of the TLB takes longer than all else that a path costs.
 */
#define NEAR_PATH_LINES 480

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, NEAR_PATH_LINES);
	__type(key, __u32);
	__type(value, struct path_names);
} near_paths SEC(".maps");

/* For what finds no room there. */
#define FAR_PATH_LINES (1 << 13)

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, FAR_PATH_LINES);
	__type(key, __u32);
	__type(value, struct path_names);
} far_paths SEC(".maps");

enum note { NOTED, KNOWN, NO_ROOM };

/* Notes the name in the line, if it is not known there and there is room. */
static __always_inline enum note note_path(struct path_names *line, __u64 name)
{
	__u64 held;
	__u32 i;

	for (i = 0; i < 8; i++) {
		held = line->at[i];
		if (!held)
			held = __sync_val_compare_and_swap(&line->at[i], 0, name);
		if (!held)
			return NOTED;
		if (held == name)
			return KNOWN;
	}
	return NO_ROOM;
}

/* Whether it is the first time that this path is reported; notes that it is. */
static __always_inline bool is_new_path(__u64 name)
{
	__u32 near = (name >> 32) * NEAR_PATH_LINES >> 32, far = name % FAR_PATH_LINES;
	struct path_names *line = bpf_map_lookup_elem(&near_paths, &near);
	enum note note = line ? note_path(line, name) : NO_ROOM;

	if (note == NO_ROOM) {
		line = bpf_map_lookup_elem(&far_paths, &far);
		/* Where this is full, too, the path is reported each time from now on. */
		note = line ? note_path(line, name) : NO_ROOM;
	}
	return note != KNOWN;
}

#endif
