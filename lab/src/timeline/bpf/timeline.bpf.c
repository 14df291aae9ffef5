// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * The timeline: everything that happens in one launch.
 *
 * Processor: each time a task of the launch tree gets or gives up a processor (sched_switch), with
 * the kernel's own mark of waiting for I/O (in_iowait).
 *
 * Drive: each request of the measured device, issued and completed. Who wants it is known where the
 * request is made (block_io_start), in the context of the task that wants it; it may be issued later
 * by a kernel worker. It is kept under the request's address. Requests come from a fixed pool for
 * each queue, so the table cannot grow without bound, and a request that was merged away is
 * overwritten at the next use of its address. What a request is for is known at its issue, when it
 * grows no more: the first page of its first bio belongs to a folio of the file, or of the block
 * device for metadata.
 *
 * Position: pages that the tree or the helper adds to a cache, and pages that the tree uses, each
 * once for each of them. A filter holds a bit a page, 64 pages an entry.
 *
 * What the tree does counts from its execve; what the helper and the drive do, from the attaching:
 * a prefetcher may well begin before the app.
 */
#include "kernel.h"
#include "kernel_more.h"
#include "intf.h"
#include "timeline.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>
#include "tree.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define BDEVFS_MAGIC 0x62646576
#define REQ_OP_MASK 0xff
#define REQ_OP_READ 0

/* Kernel dev_t of the measured device, and bytes in a page; set before the programs are loaded. */
const volatile __u32 drive_dev = 0;
const volatile __u32 page_bytes = 4096;

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 64 << 20);
} events SEC(".maps");

/* Events that found no room in the ring buffer, or whose tables had none. */
__u64 lost_events = 0;

struct pf_types _types = {};
struct tl_types _tl_types = {};

/* Pages of a file, or of a device's metadata. */
struct place {
	__u64 ino;
	__u64 start;
	__u32 pages;
	__u32 dev;
	__u32 generation;
	__u32 pad;
};

/* Who made a request, between its making and its completion. */
struct making {
	__u32 pid;
	__u32 by;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1 << 16);
	__type(key, __u64);
	__type(value, struct making);
} makings SEC(".maps");

/* What a task of the tree touched since it last waited. */
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct place);
} touches SEC(".maps");

static __always_inline __u8 by_role(__u32 role)
{
	if (is_tree(role))
		return TL_BY_TREE;
	return role == PF_ROLE_HELPER ? TL_BY_HELPER : TL_BY_OTHER;
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

/* ---- processor ---- */

SEC("tp_btf/sched_switch")
int BPF_PROG(switched, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	struct place *touched;

	if (!active_since_ns)
		return 0;
	if (is_tree(role_of(prev))) {
		struct tl_event e = { .kind = TL_OUT, .by = TL_BY_TREE, .pid = prev->pid };

		e.io_wait = BPF_CORE_READ_BITFIELD_PROBED((struct task_struct___wait *)prev,
							  in_iowait);
		if (e.io_wait) {
			touched = bpf_task_storage_get(&touches, prev, 0, 0);
			if (touched) {
				set_place(&e, touched);
				touched->pages = 0;
			}
		}
		emit(&e, BPF_RB_NO_WAKEUP);
	}
	if (is_tree(role_of(next)))
		emit_task(TL_IN, next->pid);
	return 0;
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(task_forked, struct task_struct *parent, struct task_struct *child)
{
	tree_fork(parent, child);
	if (active_since_ns && is_tree(role_of(child)))
		emit_task(TL_FORK, child->pid);
	return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(task_execed, struct task_struct *task, int old_pid)
{
	struct tl_event e = { .kind = TL_EXEC, .by = TL_BY_TREE, .pid = task->pid, .was = old_pid };

	tree_exec(task);
	if (active_since_ns && is_tree(role_of(task)))
		emit(&e, BPF_RB_NO_WAKEUP);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(task_exited, struct task_struct *task)
{
	struct tl_event end = { .kind = TL_END };

	if (is_tree(current_role()))
		emit_task(TL_GONE, task->pid);
	if (tree_exit())
		emit(&end, BPF_RB_FORCE_WAKEUP);
	return 0;
}

/* ---- drive ---- */

/*
 * The pages that a request with this first bio begins with; what follows is assumed to go on from
 * there.
 */
static __always_inline void place_of_bio(struct bio *bio, __u32 bytes, struct place *place)
{
	struct bio___pages *pages = (void *)bio;
	struct bio_vec *vec = BPF_CORE_READ(pages, bi_io_vec) + BPF_CORE_READ(pages, bi_iter.bi_idx);
	struct page *page = BPF_CORE_READ(vec, bv_page);
	__u64 head = BPF_CORE_READ(page, compound_head), index;
	struct address_space *mapping;

	index = (BPF_CORE_READ(vec, bv_offset) + BPF_CORE_READ(pages, bi_iter.bi_bvec_done)) /
		page_bytes;
	if (head & 1) {
		head -= 1;
		index += ((__u64)page - head) / bpf_core_type_size(struct page);
	} else {
		head = (__u64)page;
	}
	mapping = BPF_CORE_READ((struct folio *)head, mapping);
	index += BPF_CORE_READ((struct folio *)head, index);
	/* The low bits mark anonymous memory: direct I/O. */
	if (!mapping || ((__u64)mapping & 3))
		return;
	place_of(BPF_CORE_READ(mapping, host), index, (bytes + page_bytes - 1) / page_bytes, place);
}

SEC("tp_btf/block_io_start")
int BPF_PROG(request_made, struct request *rq)
{
	struct bio *bio = BPF_CORE_READ((struct request___bio *)rq, bio);
	struct making making = {};
	__u64 key = (__u64)rq;

	if (!bio || BPF_CORE_READ(bio, bi_bdev, bd_dev) != drive_dev)
		return 0;
	making.pid = bpf_get_current_pid_tgid();
	making.by = by_role(current_role());
	if (bpf_map_update_elem(&makings, &key, &making, BPF_ANY))
		__sync_fetch_and_add(&lost_events, 1);
	return 0;
}

static __always_inline bool on_drive(struct request *rq)
{
	struct block_device *part = rq->part;

	return part && part->bd_dev == drive_dev;
}

/*
 * Completions come before issues in this file, since programs are attached in its order: a request
 * that is seen to be issued must not be completed unseen.
 */
SEC("tp_btf/block_rq_complete")
int BPF_PROG(request_done, struct request *rq, int error, unsigned int bytes)
{
	struct tl_event e = { .kind = TL_DONE, .by = TL_BY_OTHER };

	/* A part of it: the rest is still in flight. */
	if (!on_drive(rq) || bytes < rq->__data_len)
		return 0;
	e.request = (__u64)rq;
	emit(&e, BPF_RB_NO_WAKEUP);
	bpf_map_delete_elem(&makings, &e.request);
	return 0;
}

SEC("tp_btf/block_rq_issue")
int BPF_PROG(request_issued, struct request *rq)
{
	struct tl_event e = { .kind = TL_ISSUE, .by = TL_BY_OTHER };
	struct bio *bio = BPF_CORE_READ((struct request___bio *)rq, bio);
	struct place place = {};
	__u64 key = (__u64)rq;
	struct making *making;

	if (!on_drive(rq))
		return 0;
	making = bpf_map_lookup_elem(&makings, &key);
	if (making) {
		e.pid = making->pid;
		e.by = making->by;
	}
	e.request = key;
	e.sector = rq->__sector - rq->part->bd_start_sect;
	e.bytes = rq->__data_len;
	e.write = (rq->cmd_flags & REQ_OP_MASK) != REQ_OP_READ;
	/* A flush has no bio. */
	if (bio) {
		place_of_bio(bio, e.bytes, &place);
		set_place(&e, &place);
	}
	emit(&e, BPF_RB_NO_WAKEUP);
	return 0;
}

#include "position.bpf.h"
