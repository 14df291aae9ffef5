/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The filter of pages: which pages were reported already, a bit for each, by whom and how.
 *
 * A word of the filter is 64 pages of a file or a device. A hash map would do, but it scatters its
 * entries over memory: each that is new is a miss of the caches and of the TLB, and a launch uses little
 * but new pages. Here the words lie one behind the other, in the order in which they came; the places
 * that say where a file's words are, are neighbours; and those of a usual launch are few enough for a
 * processor's cache, and for the kernel to take them from memory that it maps by large pages.
 */
#ifndef PARALFETCH_SEEN_PAGES_H
#define PARALFETCH_SEEN_PAGES_H

#include "kernel.h"
#include "intf.h"
#include "hash.h"
#include "recorders.h"
#include <bpf/bpf_helpers.h>

RECORDER_TABLE(near_pages, struct pf_near_pages);
/* For words that find no place there, and for all words themselves. */
RECORDER_TABLE(far_tables, struct pf_far_tables);

#define NEAR_PROBES 4
#define FAR_PROBES 12
/* Each further try is by other bits of the file's hash. */
#define FAR_PROBE_BITS 4

/* The word of that name if it is at this place, or the place is free for it. */
static __always_inline struct pf_page_word *word_at_place(__u32 recorder, struct pf_far_tables *tables,
							  __u32 *place, __u64 name)
{
	__u32 held = *place;
	struct pf_page_word *word;
	__u64 entry;

	if (!held) {
		entry = __sync_fetch_and_add(&recorder_at(recorder)->page_words, 1);
		if (entry >= PF_PAGE_WORDS)
			return NULL;
		word = &tables->words[entry & (PF_PAGE_WORDS - 1)];
		word->name = name;
		held = __sync_val_compare_and_swap(place, 0, entry + 1);
		if (!held)
			return word;
	}
	word = &tables->words[(held - 1) & (PF_PAGE_WORDS - 1)];
	return word->name == name ? word : NULL;
}

/* The index-th word of the file, a new one if there is none yet. NULL if there is no room for it. */
static __always_inline struct pf_page_word *find_word(__u32 recorder, __u64 ino, __u32 dev, __u64 index)
{
	__u64 id[] = { ino, dev }, file = mix(0, id, 2, 2), name = mix(file, &index, 1, 1);
	struct pf_near_pages *near = recorder_table(&near_pages, recorder);
	struct pf_far_tables *far = recorder_table(&far_tables, recorder);
	struct pf_page_word *word;
	__u32 i;

	if (!near || !far)
		return NULL;
	for (i = 0; i < NEAR_PROBES; i++) {
		word = word_at_place(recorder, far, &near->places[(file + index + i) % PF_NEAR_PLACES],
				     name);
		if (word)
			return word;
	}
	for (i = 0; i < FAR_PROBES; i++) {
		__u64 at = ((file >> i * FAR_PROBE_BITS) + index) % PF_FAR_PLACES;

		word = word_at_place(recorder, far, &far->places[at], name);
		if (word)
			return word;
	}
	return NULL;
}

/* A single event marks at most this many words of the filter: 16 MiB of 4 KiB pages. */
#define MAX_WORDS 64

/* A range on its way through the filter. */
struct mark {
	__u32 recorder;
	bool touches;
	__u64 ino;
	__u64 first;
	__u64 last;
	__u32 dev;
	__u8 kind;
	__u8 by;
	bool fresh;
};

/*
 * Marks those pages of the range that are in its i-th word; notes if one of them is new. A global function: the
 * verifier looks at its many ways once in each program, and not for each of its callers.
 */
__noinline int mark_word(__u64 i, struct mark *m)
{
	__u64 word, mask = ~0ULL, old, *bits;
	struct pf_page_word *seen;

	/* The verifier takes a pointer that a global function is given for one that may be NULL. */
	if (!m)
		return 0;
	word = (m->first >> 6) + i;
	if (word == m->first >> 6)
		mask &= ~0ULL << (m->first & 63);
	if (word == m->last >> 6)
		mask &= ~0ULL >> (63 - (m->last & 63));

	seen = find_word(m->recorder, m->ino, m->dev, word);
	if (!seen) {
		/* The filter is full: from here on each access is reported again. */
		m->fresh = true;
		return 0;
	}
	if (m->by == PF_TREE)
		bits = &seen->tree;
	else
		bits = m->by == PF_HELPER ? &seen->helper : &seen->other;
	if (m->kind == PF_ADDED) {
		/* A fault is reported before the addition that it causes: both are wanted. */
		if (!m->touches)
			*bits |= mask;
		bits = &seen->added;
	}
	old = *bits;
	if (m->kind == PF_FAULT_AROUND && m->by == PF_TREE) {
		if (mask & ~(old | seen->fault_around))
			m->fresh = true;
		old = seen->fault_around;
		bits = &seen->fault_around;
	} else if (mask & ~old) {
		m->fresh = true;
	}
	/* If another processor's bits are lost so, its pages are reported twice at worst. */
	if (mask & ~old)
		*bits |= mask;
	return 0;
}

static long mark_each(__u64 i, struct mark *m)
{
	mark_word(i, m);
	return 0;
}

/* True if any page of the range is new to the recorder's filter; marks all of it as reported. */
static __always_inline bool mark_new(__u32 recorder, const struct pf_event *e, __u8 by)
{
	struct mark m = {
		.recorder = recorder,
		.touches = recorder_at(recorder)->flags & PF_RECORD_TOUCHES,
		.ino = e->ino,
		.first = e->start,
		.last = e->start + e->pages - 1,
		.dev = e->dev,
		.kind = e->kind,
		.by = by,
	};
	__u64 words = (m.last >> 6) - (m.first >> 6) + 1;

	if (words == 1) {
		mark_word(0, &m);
		return m.fresh;
	}
	if (words > MAX_WORDS)
		/* Too long to mark: user space drops what it knows already. */
		return true;
	bpf_loop(words, mark_each, &m, 0);
	return m.fresh;
}

#endif
