/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The filter: which pages were reported already, a bit for each, by whom and how.
 */
#ifndef PARALFETCH_SEEN_BPF_H
#define PARALFETCH_SEEN_BPF_H

/* 64 pages of a file or a device. */
struct seen_key {
	__u64 ino;
	__u64 word;
	__u32 dev;
	__u32 pad;
};

/* Which of the 64 were reported, a bit each. */
struct seen {
	__u64 added;
	__u64 tree;
	__u64 other;
	__u64 newcomer;
	__u64 window;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1 << 16);
	__type(key, struct seen_key);
	__type(value, struct seen);
} seen_pages SEC(".maps");

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
	struct seen_key key = { .ino = m->ino, .word = word, .dev = m->dev };
	struct seen none = {}, *seen;

	if (word == m->first >> 6)
		mask &= ~0ULL << (m->first & 63);
	if (word == m->last >> 6)
		mask &= ~0ULL >> (63 - (m->last & 63));

	seen = bpf_map_lookup_elem(&seen_pages, &key);
	if (!seen) {
		bpf_map_update_elem(&seen_pages, &key, &none, BPF_NOEXIST);
		seen = bpf_map_lookup_elem(&seen_pages, &key);
	}
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
			__sync_fetch_and_or(bits, mask);
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
	if (mask & ~old)
		__sync_fetch_and_or(bits, mask);
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

/* Whether these pages of one word of the filter were in windows of the tree before. */
static __always_inline bool were_mapped(const struct pf_event *e, __u64 word, __u64 mask)
{
	struct seen_key key = { .ino = e->ino, .word = word, .dev = e->dev };
	struct seen *seen = bpf_map_lookup_elem(&seen_pages, &key);

	return seen && !(mask & ~seen->window);
}

#endif
