/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Position: which pages the launch tree and the helper have reached, each reported once for each of
 * the two.
 */
#ifndef LAB_POSITION_H
#define LAB_POSITION_H

#include "kernel.h"
#include "events.h"
#include "folios.h"
#include "tree.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

/* 64 pages of a file or a device. */
struct seen_key {
	__u64 ino;
	__u64 word;
	__u32 dev;
	__u32 generation;
};

/* Which of the 64 were reported, a bit each. */
struct seen {
	__u64 tree;
	__u64 helper;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1 << 17);
	__type(key, struct seen_key);
	__type(value, struct seen);
} seen_pages SEC(".maps");

/* A single event marks at most this many words of the filter: 16 MiB of 4 KiB pages. */
#define MAX_WORDS 64

struct mark {
	const struct place *place;
	__u8 by;
	bool fresh;
};

/* Marks those pages of the range that are in its i-th word; notes if one of them is new. */
static long mark_word(__u64 i, struct mark *m)
{
	const struct place *place = m->place;
	__u64 first = place->start, last = first + place->pages - 1;
	__u64 word = (first >> 6) + i, mask = ~0ULL, *bits;
	struct seen_key key = {
		.ino = place->ino,
		.word = word,
		.dev = place->dev,
		.generation = place->generation,
	};
	struct seen none = {}, *seen;

	if (word == first >> 6)
		mask &= ~0ULL << (first & 63);
	if (word == last >> 6)
		mask &= ~0ULL >> (63 - (last & 63));
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
	bits = m->by == TL_BY_TREE ? &seen->tree : &seen->helper;
	if (mask & ~*bits) {
		__sync_fetch_and_or(bits, mask);
		m->fresh = true;
	}
	return 0;
}

static __always_inline bool mark_new(const struct place *place, __u8 by)
{
	struct mark m = { .place = place, .by = by };
	__u64 words;

	words = ((place->start + place->pages - 1) >> 6) - (place->start >> 6) + 1;
	/* Too long to mark: report it, user space sorts it out. */
	if (words > MAX_WORDS)
		return true;
	bpf_loop(words, mark_word, &m, 0);
	return m.fresh;
}

static __always_inline void report(__u8 kind, struct place *place)
{
	struct tl_event e = { .kind = kind };
	__u32 role = role_of(bpf_get_current_task_btf());
	struct place *touched;

	e.by = by_role(role);
	if (e.by == TL_BY_OTHER || (e.by == TL_BY_TREE && !has_started()))
		return;
	if (e.by == TL_BY_HELPER && kind == TL_TOUCHED)
		return;
	/* Our own last instructions before the execve are not part of the launch. */
	if (kind == TL_TOUCHED && role == PF_ROLE_STARTING)
		return;
	if (kind == TL_TOUCHED) {
		touched = bpf_task_storage_get(&touches, bpf_get_current_task_btf(), 0,
					       BPF_LOCAL_STORAGE_GET_F_CREATE);
		if (touched)
			*touched = *place;
	}
	if (!mark_new(place, e.by))
		return;
	set_place(&e, place);
	e.pid = bpf_get_current_pid_tgid();
	emit(&e, BPF_RB_NO_WAKEUP);
}

SEC("tp_btf/mm_filemap_add_to_page_cache")
int BPF_PROG(page_added, struct folio *folio)
{
	struct address_space *mapping = folio->mapping;
	struct place place;

	if (mapping && place_of(mapping->host, folio->index, folio_pages(folio), &place))
		report(TL_ADDED, &place);
	return 0;
}

SEC("tp_btf/mm_filemap_get_pages")
int BPF_PROG(pages_read, struct address_space *mapping, unsigned long index,
	     unsigned long last_index)
{
	struct inode *inode = mapping->host;
	struct place place;
	__u64 end;

	if (!inode || last_index < index)
		return 0;
	/* The range is what read(2) was asked for: cut it at the end of the file. */
	end = ((__u64)inode->i_size + page_bytes - 1) / page_bytes;
	if (last_index + 1 < end)
		end = last_index + 1;
	if (end > index && place_of(inode, index, end - index, &place))
		report(TL_TOUCHED, &place);
	return 0;
}

SEC("tp_btf/mm_filemap_fault")
int BPF_PROG(page_faulted, struct address_space *mapping, unsigned long index)
{
	struct place place;

	if (place_of(mapping->host, index, 1, &place))
		report(TL_TOUCHED, &place);
	return 0;
}

SEC("tp_btf/mm_filemap_map_pages")
int BPF_PROG(pages_mapped, struct address_space *mapping, unsigned long start, unsigned long end)
{
	struct place place;

	if (end >= start && place_of(mapping->host, start, end - start + 1, &place))
		report(TL_TOUCHED, &place);
	return 0;
}

SEC("tp_btf/block_touch_buffer")
int BPF_PROG(buffer_touched, struct buffer_head *bh)
{
	struct place place = {};
	__u64 byte;

	place.dev = BPF_CORE_READ(bh, b_bdev, bd_dev);
	if (place.dev != drive_dev)
		return 0;
	byte = BPF_CORE_READ(bh, b_blocknr) * BPF_CORE_READ(bh, b_size);
	place.start = byte / page_bytes;
	/* Blocks of a file system are no larger than a page. */
	place.pages = 1;
	report(TL_TOUCHED, &place);
	return 0;
}

#endif
