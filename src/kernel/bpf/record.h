/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Recording: which pages a launch needs.
 *
 * These programs cost something at each page that any task uses: they are attached while a launch is
 * recorded. Each event is looked at for each recorder that is on, since a page that one task adds to a
 * cache is an addition for all launches under way, by someone else for most of them.
 */
#ifndef PARALFETCH_RECORD_H
#define PARALFETCH_RECORD_H

#include "kernel.h"
#include "intf.h"
#include "folios.h"
#include "helpers.h"
#include "log.h"
#include "memory.h"
#include "recorders.h"
#include "seen_pages.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

/* Pages that were used or added, on their way to the recorders. */
struct page_use {
	struct pf_event event;
	struct inode *inode;	/* of a file; NULL for metadata */
	__u32 by;		/* who_is() */
	bool is_new;		/* some recorder did not know all of the pages */
};

/* Bits of each recorder in the answer of who_is(). */
#define BY_BITS 4
#define BY_MASK ((1U << BY_BITS) - 1)

/*
 * The session bus, portals, dconf and gvfs run as the app's user, often since before the launch. Which of the things that
 * such a process does are for the app cannot be seen; what it brings into the caches in launch after launch
 * probably is. Root's processes work for everybody.
 */
static __always_inline bool is_of_user(struct pf_launch *launch)
{
	return launch->uid && (__u32)bpf_get_current_uid_gid() == launch->uid &&
	       !(bpf_get_current_task_btf()->flags & PF_KTHREAD);
}

/* The role of a task and the slot of its launch, as a word. */
#define ROLE_BITS 3

static __always_inline __u32 role_word(const struct pf_member *m)
{
	return m ? m->launch % PF_LAUNCHES << ROLE_BITS | (m->role & ((1U << ROLE_BITS) - 1)) : 0;
}

/*
 * Who the current task, with this word, is for the launch of that recorder: enum pf_by; 0: nothing is
 * recorded for it.
 */
static __always_inline __u32 who_for(__u32 recorder, __u32 word)
{
	struct pf_recorder *r = recorder_at(recorder);
	struct pf_launch *launch = find_launch(r->launch);
	__u32 role = word & ((1U << ROLE_BITS) - 1);

	if (!launch || !launch->start_ns)
		return 0;
	if (role != PF_ROLE_NONE && word >> ROLE_BITS == r->launch % PF_LAUNCHES)
		return is_tree(role) ? PF_TREE : PF_PREFETCHER;
	if (role == PF_ROLE_NONE && r->cgroup && bpf_get_current_cgroup_id() == r->cgroup)
		return PF_TREE;
	if (is_younger_than(launch) && may_help(launch))
		return PF_HELPER;
	return is_of_user(launch) ? PF_DAEMON : PF_OTHER;
}

/*
 * The same for all recorders, BY_BITS for each, the first one lowest. A global function: the verifier looks
 * at it once, and not at what follows for each of its answers.
 */
__noinline __u32 who_is(__u32 word)
{
	__u32 by = 0, on = recorders_on(), i;

	for (i = 0; i < PF_RECORDERS; i++) {
		if (i >= on)
			break;
		by |= who_for(i, word) << i * BY_BITS;
	}
	return by;
}

/*
 * The bits of those for whom the task is of the tree or a helper. Of other tasks only what they bring into
 * the caches is recorded. PF_TREE and PF_HELPER are the values with only one of the bits 0 and 2 set, and
 * bit 1 clear. (PF_DAEMON has bit 1: its uses of cached pages would be those of everything that the user runs.)
 */
static __always_inline __u32 only_users(__u32 by)
{
	__u32 ones = by & 0x11111111, twos = by >> 1 & 0x11111111, fours = by >> 2 & 0x11111111;
	__u32 users = (ones | fours) & ~twos;

	return by & users * BY_MASK;
}

/* For which launches the current task's uses of cached pages are recorded. */
static __always_inline __u32 who_uses(void)
{
	return recorders_on() ? only_users(who_is(role_word(member_of(bpf_get_current_task_btf())))) : 0;
}

/* The same for uses by mapping, which the copy of a parent process makes, too. */
static __always_inline __u32 who_maps(void)
{
	struct pf_member *m;

	if (!recorders_on())
		return 0;
	m = member_of(bpf_get_current_task_btf());
	return m && is_copy_of_parent(m->role) ? 0 : only_users(who_is(role_word(m)));
}

/* Writes the use to one recorder's log, unless all of its pages are known there. */
static __noinline int record_one(__u32 recorder, struct page_use *use)
{
	__u8 by = use->by >> (recorder & (PF_RECORDERS - 1)) * BY_BITS & BY_MASK;
	struct pf_recorder *r = recorder_at(recorder);
	struct pf_event *e;
	void *log;

	if (!by || is_full(recorder) || !mark_new(recorder, &use->event, by))
		return 0;
	use->is_new = true;
	if (!has_room(recorder, by == PF_TREE ? &r->tree_events : &r->other_events))
		return 0;
	log = log_of(recorder);
	/* The recorder was switched off a moment ago. */
	if (!log)
		return 0;
	e = bpf_ringbuf_reserve(log, sizeof(*e), 0);
	if (!e) {
		__sync_fetch_and_add(&r->lost_events, 1);
		return 0;
	}
	*e = use->event;
	e->time_ns = bpf_ktime_get_ns();
	e->by = by;
	/* Only now: unlike the rest, the kernel does not use it when it maps a page. */
	if (use->inode)
		e->generation = use->inode->i_generation;
	bpf_ringbuf_submit(e, wakeup_of(log));
	return 0;
}

static long record_each(__u32 recorder, struct page_use *use)
{
	record_one(recorder, use);
	return 0;
}

/* Writes the use to the logs of all recorders. False if they know all of its pages. */
static __always_inline bool record_use(struct page_use *use)
{
	if (recorders_on() == 1)
		record_one(0, use);
	else
		bpf_loop(PF_RECORDERS, record_each, use, 0);
	return use->is_new;
}

/*
 * Records pages of the file, or of the device whose metadata the inode's pages are. False if all of them
 * were known.
 */
static __always_inline bool record_pages(struct inode *inode, __u64 start, __u64 pages, __u8 kind,
					 __u32 by)
{
	struct page_use use = { .event = { .start = start, .pages = pages, .kind = kind }, .by = by };
	struct super_block *sb;

	if (!pages || !inode || !by)
		return false;
	sb = inode->i_sb;
	if (!sb)
		return false;
	if (sb->s_magic == BDEVFS_MAGIC) {
		use.event.dev = inode->i_rdev;
	} else {
		use.event.dev = dev_of_inode(inode, sb);
		use.event.ino = inode->i_ino;
		use.inode = inode;
		/* Without a number: what EROFS keeps of compressed blocks. */
		if (!use.event.dev || !use.event.ino)
			return false;
	}
	return record_use(&use);
}

SEC("?tp_btf/mm_filemap_add_to_page_cache")
int BPF_PROG(page_added, struct folio *folio)
{
	struct address_space *mapping = PLAIN(struct folio, folio)->mapping;

	if (recorders_on() && mapping)
		record_pages(mapping->host, folio->index, folio_pages(folio), PF_ADDED,
			     who_is(role_word(member_of(bpf_get_current_task_btf()))));
	return 0;
}

static __always_inline void pages_used(struct address_space *mapping, __u64 index, __u64 last_index)
{
	struct inode *inode = mapping->host;
	__u32 by;
	__u64 end;

	if (!recorders_on() || !inode || last_index < index)
		return;
	by = who_uses();
	if (!by)
		return;
	/* The range is what read(2) was asked for: cut it at the end of the file. */
	end = ((__u64)inode->i_size + page_bytes - 1) / page_bytes;
	if (last_index + 1 < end)
		end = last_index + 1;
	if (end > index)
		record_pages(inode, index, end - index, PF_READ, by);
}

/*
 * A large folio is mapped as a whole, also where it reaches past the window (filemap_map_folio_range
 * since 6.18, finish_fault since 6.10): pages of it that are touched later make no fault.
 */
static __always_inline void window_mapped(struct address_space *mapping, __u64 start, __u64 end)
{
	struct span first = {}, last = {};
	struct leaf leaf = {};
	__u32 by = who_maps();

	if (!by || end < start)
		return;
	if (cached_folio_near(mapping, start, &first, &leaf)) {
		if (first.start < start)
			start = first.start;
	} else {
		first = (struct span){};
	}
	if (first.start + first.pages > end)
		end = first.start + first.pages - 1;
	else if (cached_folio_near(mapping, end, &last, &leaf) && last.start + last.pages - 1 > end)
		end = last.start + last.pages - 1;
	record_pages(mapping->host, start, end - start + 1, PF_FAULT_AROUND, by);
}

static __always_inline void page_touched(struct address_space *mapping, __u64 index)
{
	struct span folio = {};
	__u32 by = who_maps();

	if (!by)
		return;
	if (record_pages(mapping->host, index, 1, PF_FAULT, by) &&
	    cached_folio(mapping, index, &folio) && folio.pages > 1)
		record_pages(mapping->host, folio.start, folio.pages, PF_FAULT_AROUND, by);
}

SEC("?tp_btf/mm_filemap_get_pages")
int BPF_PROG(pages_read, struct address_space *mapping, unsigned long index,
	     unsigned long last_index)
{
	pages_used(PLAIN(struct address_space, mapping), index, last_index);
	return 0;
}

SEC("?tp_btf/mm_filemap_fault")
int BPF_PROG(page_faulted, struct address_space *mapping, unsigned long index)
{
	page_touched(PLAIN(struct address_space, mapping), index);
	return 0;
}

SEC("?tp_btf/mm_filemap_map_pages")
int BPF_PROG(pages_mapped, struct address_space *mapping, unsigned long start, unsigned long end)
{
	window_mapped(PLAIN(struct address_space, mapping), start, end);
	return 0;
}

/*
 * A block of metadata that was found in the buffer cache. Metadata that the kernel keeps in a form of its
 * own (dentries, inodes, extents) is not looked up there: paths and dependencies stand for it.
 */
SEC("?tp_btf/block_touch_buffer")
int BPF_PROG(block_touched, struct buffer_head *bh)
{
	__u32 recorder = recorder_of_task();
	struct page_use use = { .event = { .kind = PF_READ } };
	__u64 start, end;

	if (!recorder)
		return 0;
	start = bh->b_blocknr * bh->b_size;
	end = start + bh->b_size;
	use.event.dev = PLAIN(struct buffer_head, bh)->b_bdev->bd_dev;
	use.event.start = start / page_bytes;
	use.event.pages = (end + page_bytes - 1) / page_bytes - use.event.start;
	use.by = PF_TREE << ((recorder - 1) & (PF_RECORDERS - 1)) * BY_BITS;
	record_one(recorder - 1, &use);
	return 0;
}

#endif
