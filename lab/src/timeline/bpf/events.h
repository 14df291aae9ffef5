/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The timeline's events: who they are about, which pages, and how they get to user space.
 */
#ifndef LAB_EVENTS_H
#define LAB_EVENTS_H

#include "kernel.h"
#include "intf.h"
#include "memory.h"
#include "timeline.h"
#include "tree.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

/* Number of the only launch, and with it of its slot. */
#define LAUNCH 1

/* Kernel dev_t of the measured device, set before the programs are loaded. */
const volatile __u32 drive_dev = 0;

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 64 << 20);
} events SEC(".maps");

/* Events that found no room in the ring buffer, or whose tables had none. */
__u64 lost_events = 0;

/* Pages of a file, or of a device's metadata. */
struct place {
	__u64 ino;
	__u64 start;
	__u32 pages;
	__u32 dev;
	__u32 generation;
	__u32 pad;
};

/* What a task of the tree touched since it last waited. */
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct place);
} touches SEC(".maps");

/* The role of a task in the launch; PF_ROLE_NONE if it has none. */
static __always_inline __u32 role_of(struct task_struct *task)
{
	struct pf_member *m = member_of(task);

	return m ? m->role : PF_ROLE_NONE;
}

/* Whether the app's execve has been called: before, nothing that the tree does counts. */
static __always_inline bool has_started(void)
{
	return launches[LAUNCH].start_ns;
}

static __always_inline __u8 by_role(__u32 role)
{
	if (is_tree(role))
		return TL_BY_TREE;
	return role == PF_ROLE_PREFETCHER ? TL_BY_HELPER : TL_BY_OTHER;
}

/* User space empties the buffer at its own pace; only the end of the tree wakes it. */
static __always_inline void emit(struct tl_event *e, __u64 flags)
{
	struct tl_event *slot = bpf_ringbuf_reserve(&events, sizeof(*slot), 0);

	if (!slot) {
		__sync_fetch_and_add(&lost_events, 1);
		return;
	}
	e->time_ns = bpf_ktime_get_ns();
	*slot = *e;
	bpf_ringbuf_submit(slot, flags);
}

static __always_inline void emit_task(__u8 kind, int pid)
{
	struct tl_event e = { .kind = kind, .by = TL_BY_TREE, .pid = pid };

	emit(&e, BPF_RB_NO_WAKEUP);
}

static __always_inline void set_place(struct tl_event *e, const struct place *place)
{
	e->ino = place->ino;
	e->start = place->start;
	e->pages = place->pages;
	e->dev = place->dev;
	e->generation = place->generation;
}

/* False if the inode cannot be looked into. */
static __always_inline bool place_of(struct inode *inode, __u64 start, __u64 pages,
				     struct place *place)
{
	struct super_block *sb = BPF_CORE_READ(inode, i_sb);

	if (!inode || !sb || !pages)
		return false;
	__builtin_memset(place, 0, sizeof(*place));
	if (BPF_CORE_READ(sb, s_magic) == BDEVFS_MAGIC) {
		place->dev = BPF_CORE_READ(inode, i_rdev);
	} else {
		place->dev = BPF_CORE_READ(sb, s_dev);
		place->ino = BPF_CORE_READ(inode, i_ino);
		place->generation = BPF_CORE_READ(inode, i_generation);
	}
	place->start = start;
	place->pages = pages;
	return true;
}

#endif
