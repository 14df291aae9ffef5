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
#include "bio_pages.h"
#include "events.h"
#include "position.h"
#include "timeline.h"
#include "tree.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define REQ_OP_MASK 0xff
#define REQ_OP_READ 0

struct pf_types _types = {};
struct tl_types _tl_types = {};

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

/* ---- processor ---- */

SEC("tp_btf/sched_switch")
int BPF_PROG(switched, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	struct place *touched;

	if (!has_started())
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
	if (has_started() && is_tree(role_of(child)))
		emit_task(TL_FORK, child->pid);
	return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(task_execed, struct task_struct *task, int old_pid)
{
	struct tl_event e = { .kind = TL_EXEC, .by = TL_BY_TREE, .pid = task->pid, .was = old_pid };
	struct pf_member *m = member_of(task);

	if (!m || !is_tree(m->role))
		return 0;
	tree_exec(task, m, old_pid);
	if (has_started())
		emit(&e, BPF_RB_NO_WAKEUP);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(task_exited, struct task_struct *task)
{
	struct tl_event end = { .kind = TL_END };
	struct pf_member *m = member_of(task);

	if (!m || !is_tree(m->role))
		return 0;
	emit_task(TL_GONE, task->pid);
	if (tree_exit(task, m))
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
	struct inode *inode;
	__u64 index;

	inode = first_page_of(bio, &index);
	if (inode)
		place_of(inode, index, (bytes + page_bytes - 1) / page_bytes, place);
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
	making.by = by_role(role_of(bpf_get_current_task_btf()));
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
