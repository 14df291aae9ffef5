/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The filter: which pages were reported already, a bit for each, by whom and how.
 */
#ifndef PARALFETCH_SEEN_PAGES_BPF_H
#define PARALFETCH_SEEN_PAGES_BPF_H

#include "names.bpf.h"

/* What tells 64 pages of a file or a device from others, and which of them were reported, a bit each. */
struct seen {
	__u64 name;
	__u64 added;
	__u64 tree;
	__u64 other;
	__u64 newcomer;
	__u64 window;
};

#define SEEN_MOST (1 << 16)

/* In the order in which they came. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SEEN_MOST);
	__type(key, __u32);
	__type(value, struct seen);
} seen_pages SEC(".maps");

/* Entries of `seen_pages` that were given out. */
__u64 seen_count = 0;

/*
 * Where an entry is, counted from 1. A hash map would do, but it scatters its entries over memory: each
 * that is new is a miss of the caches and of the TLB, and a launch uses little but new pages. Here the
 * entries lie one behind the other, the places of a file's words are neighbours, and those of a usual
 * launch are few enough for a processor's cache.
 */
#define SEEN_NEAR (1 << 12)
#define SEEN_NEAR_PROBES 4

struct near_places {
	__u32 at[SEEN_NEAR];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct near_places);
} seen_near SEC(".maps");

/* For what finds no place there; each try is by other bits of the file's name. */
#define SEEN_FAR (1 << 17)
#define SEEN_FAR_PROBES 12
#define SEEN_FAR_BITS 4

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SEEN_FAR);
	__type(key, __u32);
	__type(value, __u32);
} seen_far SEC(".maps");

/* The entry of that name if it is the one at this place, or the place is free for it. */
static __always_inline struct seen *seen_at(__u32 *place, __u64 name)
{
	__u32 held = *place, entry;
	struct seen *seen;

	if (!held) {
		entry = __sync_fetch_and_add(&seen_count, 1);
		seen = bpf_map_lookup_elem(&seen_pages, &entry);
		if (!seen)
			return NULL;
		seen->name = name;
		held = __sync_val_compare_and_swap(place, 0, entry + 1);
		if (!held)
			return seen;
	}
	entry = held - 1;
	seen = bpf_map_lookup_elem(&seen_pages, &entry);
	return seen && seen->name == name ? seen : NULL;
}

/* The entry of the word-th 64 pages, a new one if they have none. NULL if there is no room for it. */
static __always_inline struct seen *find_seen(__u64 ino, __u32 dev, __u64 word)
{
	__u64 words[] = { ino, dev }, file = mix(0, words, 2, 2), name = mix(file, &word, 1, 1);
	struct near_places *near;
	__u32 i, slot = 0, *place;
	struct seen *seen;

	near = bpf_map_lookup_elem(&seen_near, &slot);
	for (i = 0; i < SEEN_NEAR_PROBES && near; i++) {
		seen = seen_at(&near->at[(file + word + i) % SEEN_NEAR], name);
		if (seen)
			return seen;
	}
	for (i = 0; i < SEEN_FAR_PROBES; i++) {
		slot = ((file >> i * SEEN_FAR_BITS) + word) % SEEN_FAR;
		place = bpf_map_lookup_elem(&seen_far, &slot);
		if (!place)
			return NULL;
		seen = seen_at(place, name);
		if (seen)
			return seen;
	}
	return NULL;
}

/* A single event marks at most this many words of the filter: 16 MiB of 4 KiB pages. */
#define MAX_WORDS 64

/* A range on its way through the filter. */
struct mark {
	__u64 ino;
	__u64 first;
	__u64 last;
	__u32 dev;
	__u8 kind;
	__u8 by;
	bool fresh;
};

/* Marks those pages of the range that are in its i-th word; notes if one of them is new. */
static long mark_word(__u64 i, struct mark *m)
{
	__u64 word = (m->first >> 6) + i, mask = ~0ULL, old, *bits;
	struct seen *seen;

	if (word == m->first >> 6)
		mask &= ~0ULL << (m->first & 63);
	if (word == m->last >> 6)
		mask &= ~0ULL >> (63 - (m->last & 63));

	seen = find_seen(m->ino, m->dev, word);
	if (!seen) {
		/* The filter is full: from here on each access is reported again. */
		m->fresh = true;
		return 0;
	}
	if (m->by == PF_TREE)
		bits = &seen->tree;
	else
		bits = m->by == PF_NEWCOMER ? &seen->newcomer : &seen->other;
	if (m->kind == PF_ADDED) {
		/* A fault is reported before the addition that it causes: both are wanted. */
		if (!touches_count)
			*bits |= mask;
		bits = &seen->added;
	}
	old = *bits;
	if (m->kind == PF_WINDOW && m->by == PF_TREE) {
		if (mask & ~(old | seen->window))
			m->fresh = true;
		old = seen->window;
		bits = &seen->window;
	} else if (mask & ~old) {
		m->fresh = true;
	}
	/* If another processor's bits are lost so, its pages are reported twice at worst. */
	if (mask & ~old)
		*bits |= mask;
	return 0;
}

/* True if any page of the range is new to the filter; marks all of it as seen. */
static __always_inline bool mark_new(struct pf_event *e)
{
	struct mark m = {
		.ino = e->ino,
		.first = e->start,
		.last = e->start + e->pages - 1,
		.dev = e->dev,
		.kind = e->kind,
		.by = e->by,
	};
	__u64 words = (m.last >> 6) - (m.first >> 6) + 1;

	if (words == 1) {
		mark_word(0, &m);
		return m.fresh;
	}
	if (words > MAX_WORDS)
		/* Too long to mark: report it, user space sorts it out. */
		return true;
	bpf_loop(words, mark_word, &m, 0);
	return m.fresh;
}

#endif
