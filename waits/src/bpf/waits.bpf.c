// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Who waits, since when, for what, and for whom.
 *
 * 1. Motivation
 *
 * A launch or an fsync beside a large writer waits for writes that were nobody's hurry: for pages that are
 * already under writeback, for metadata buffers, for journal handles and commits, for a place in the drive's
 * queue. These programs report each uninterruptible sleep that is long enough, with all that is known of it.
 * They are a tool beside the product, and attached only while somebody asks.
 *
 * 2. Mechanism
 *
 * A task that goes to sleep uninterruptibly (sched_switch, TASK_UNINTERRUPTIBLE without TASK_NOLOAD) leaves its
 * time and its kernel stack in its task-local storage. When it runs again, a wait that was long enough goes
 * into the ring buffer. User space classifies the stack by the names of functions, each stack once. All other
 * tracepoints leave evidence on the way, which is looked at only for a wait that is reported:
 *
 *   sched_process_fork               a new task is watched, too
 *   folio_wait_writeback             the page that the task is about to wait for
 *   contention_begin                 who holds the mutex or semaphore
 *   ext4_sync_file_*, ext4_truncate_*, ext4_journal_start_*   the file that the operation is about
 *   block_bio_queue                  the drive that the task is about to submit to
 *   block_rq_insert, _issue, _complete   how long the task's own request was in the scheduler and in the drive
 *   writeback_dirty_folio            who writes to a file; with block_rq_issue, whose writes a drive is busy with
 *   jbd2_commit_locking, _flushing, jbd2_handle_stats   who stopped the last handle of a transaction that was
 *                                    locked
 *
 * 3. Limits
 *
 *   - The wait ends when the task runs again, not when it was woken: on a busy machine it includes the wait for
 *     a processor.
 *   - The holder of a semaphore that readers hold is not known.
 *   - Of many requests of one task at once, the one that was completed last counts.
 *   - Reports that find no room in the ring buffer, and tasks that find no memory for storage, are counted in
 *     `lost`.
 */
#include "kernel.h"
#include "waits.h"
#include "wait_tasks.h"
#include "wait_files.h"
#include "wait_drives.h"
#include "wait_journals.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define TASK_UNINTERRUPTIBLE 0x2
#define TASK_NOLOAD 0x400

/* Shorter waits are not reported; nanoseconds. */
const volatile __u64 least_ns = 1000000;
/* Only waits of this process and of those that it starts; 0: of all. */
const volatile __u32 only_pid = 0;

/* For the skeleton. */
struct pf_wait_types {
	struct pf_wait wait;
};
struct pf_wait_types _types = {};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, PF_WAIT_RING);
} reports SEC(".maps");

/* Writes the report of a task that has slept for so long. */
static __always_inline void fill(struct pf_wait *wait, struct task_struct *task, struct sleeper *sleeper,
				 __u64 duration_ns)
{
	struct pf_wait_request *request;
	struct pf_wait_task *writer;
	struct journal *journal;
	struct drive *drive;
	/* Keys: older kernels do not take them from the ring buffer's memory. */
	__u64 mapping = sleeper->page.mapping, disk;
	__u32 dev = sleeper->operation.dev, tid = task->pid;

	__builtin_memset(wait, 0, sizeof(*wait));
	wait->start_ns = sleeper->start_ns;
	wait->duration_ns = duration_ns;
	__builtin_memcpy(wait->stack, sleeper->stack, sizeof(wait->stack));
	wait->stack_bytes = sleeper->stack_bytes;
	wait->is_iowait = BPF_CORE_READ_BITFIELD(task, in_iowait);
	name_task(&wait->task, task);
	wait->page = sleeper->page;
	wait->operation = sleeper->operation;
	wait->bio = sleeper->bio;
	wait->lock_holder = sleeper->lock_holder;

	request = bpf_map_lookup_elem(&own_requests, &tid);
	/* One that was completed before the wait began was not what it was for. */
	if (request && (!request->completed_ns || request->completed_ns >= sleeper->start_ns))
		wait->request = *request;
	writer = bpf_map_lookup_elem(&writers, &mapping);
	if (writer)
		wait->page_writer = *writer;

	disk = wait->request.disk ?: wait->page.disk ?: wait->operation.disk ?: wait->bio.disk;
	drive = bpf_map_lookup_elem(&drives, &disk);
	if (drive && was_written_since(drive, sleeper->start_ns))
		wait->drive_writer = drive->writer;
	journal = bpf_map_lookup_elem(&journals, &dev);
	if (journal && journal->stopped_ns >= sleeper->start_ns)
		wait->handle_holder = journal->last_holder;
}

/* A task's own wait has ended. */
static __always_inline void report(struct task_struct *task, struct sleeper *sleeper, __u64 duration_ns)
{
	struct pf_wait *wait = bpf_ringbuf_reserve(&reports, sizeof(*wait), 0);

	if (!wait) {
		__sync_fetch_and_add(&lost, 1);
		return;
	}
	fill(wait, task, sleeper, duration_ns);
	bpf_ringbuf_submit(wait, 0);
}

SEC("?tp_btf/sched_switch")
int BPF_PROG(task_switched, bool preempt, struct task_struct *prev, struct task_struct *next, unsigned int state)
{
	struct sleeper *sleeper;
	__u64 duration_ns;
	long bytes;

	sleeper = sleeper_of(next);
	if (sleeper && sleeper->start_ns) {
		duration_ns = bpf_ktime_get_ns() - sleeper->start_ns;
		if (duration_ns >= least_ns)
			report(next, sleeper, duration_ns);
		sleeper->start_ns = 0;
		/* It was waited for. */
		sleeper->page.dev = 0;
		sleeper->page.mapping = 0;
		sleeper->page.disk = 0;
	}

	if (preempt || (state & (TASK_UNINTERRUPTIBLE | TASK_NOLOAD)) != TASK_UNINTERRUPTIBLE)
		return 0;
	sleeper = sleeper_of(prev);
	if (!sleeper)
		return 0;
	bytes = bpf_get_stack(ctx, sleeper->stack, sizeof(sleeper->stack), 0);
	sleeper->stack_bytes = bytes > 0 ? bytes : 0;
	sleeper->start_ns = bpf_ktime_get_ns();
	return 0;
}

/*
 * Gives a task its storage. Not in sched_switch: memory must not be allocated under the lock of a run queue, since that
 * may wake a task.
 */
static __always_inline struct sleeper *list(struct task_struct *task)
{
	struct sleeper *sleeper = bpf_task_storage_get(&sleepers, task, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!sleeper)
		__sync_fetch_and_add(&lost, 1);
	return sleeper;
}

SEC("?tp_btf/sched_process_fork")
int BPF_PROG(task_forked, struct task_struct *parent, struct task_struct *child)
{
	if (!only_pid || sleeper_of(parent))
		list(child);
	return 0;
}

/* Generations between a task and the process that is watched, for tasks that there were before the programs. */
#define PF_GENERATIONS 16

/* Whether a task is of the process that is watched, or descends from it, as far as its ancestors live. */
static __always_inline bool is_watched(struct task_struct *task)
{
	int generation;

	if (!only_pid)
		return true;
	for (generation = 0; generation < PF_GENERATIONS && task; generation++) {
		if (task->tgid == only_pid)
			return true;
		if (task->tgid <= 1)
			return false;
		task = task->real_parent;
	}
	return false;
}

struct seq_file;

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct bpf_iter_meta {
	struct seq_file *seq;
};

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};
#pragma clang attribute pop

/* A report is too large for the stack of a program. Readers of the iterator come one at a time. */
struct pf_wait under_way = {};

/*
 * The reports of all waits that are under way and long enough, one after the other. The first time, tasks that there
 * were before the programs get their storage.
 */
SEC("?iter/task")
int waits_under_way(struct bpf_iter__task *context)
{
	struct task_struct *task = context->task;
	struct sleeper *sleeper;
	__u64 start_ns, now;

	if (!task)
		return 0;
	sleeper = sleeper_of(task);
	if (!sleeper) {
		if (is_watched(task))
			list(task);
		return 0;
	}
	start_ns = sleeper->start_ns;
	now = bpf_ktime_get_ns();
	if (!start_ns || now < start_ns + least_ns)
		return 0;
	fill(&under_way, task, sleeper, now - start_ns);
	/* It ran again meanwhile: the ring buffer has it. */
	if (sleeper->start_ns != start_ns)
		return 0;
	bpf_seq_write(context->meta->seq, &under_way, sizeof(under_way));
	return 0;
}
