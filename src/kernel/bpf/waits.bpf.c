// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Who waits, since when, for what, and for whom.
 *
 * 1. Motivation
 *
 * A launch or an fsync beside a large writer waits for writes that were nobody's hurry: for pages that are
 * already under writeback, for metadata buffers, for journal handles and commits, for a place in the drive's
 * queue. These programs report each uninterruptible sleep that is long enough, with all that is known of it.
 * They are an object of their own: they are useful without the rest of the product, they are attached only
 * while somebody asks, and the service's object, which is always loaded, must not grow by them.
 *
 * 2. Mechanism
 *
 * A task that goes to sleep uninterruptibly (sched_switch, TASK_UNINTERRUPTIBLE without TASK_NOLOAD) leaves its
 * time and its kernel stack in its task-local storage. When it runs again, a wait that was long enough goes
 * into the ring buffer. User space classifies the stack by the names of functions, each stack once. All other
 * tracepoints leave evidence on the way, which is looked at only for a wait that is reported:
 *
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
#include "bio_pages.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define TASK_UNINTERRUPTIBLE 0x2
#define TASK_NOLOAD 0x400
#define PF_KTHREAD 0x00200000

/* Low byte of cmd_flags: the operation. Above it, flags. The numbers are the same since 4.10. */
#define REQ_OP_MASK 0xff
#define REQ_OP_READ 0
#define REQ_OP_WRITE 1
#define REQ_SYNC (1U << 11)

/* Flags of contention_begin. */
#define LCB_F_SPIN (1U << 0)
#define LCB_F_PERCPU (1U << 3)
#define LCB_F_RT (1U << 4)
#define LCB_F_MUTEX (1U << 5)
/* Low bits of a mutex's and a semaphore's owner word; this one says that readers hold the semaphore. */
#define OWNER_BITS 7UL
#define READERS_OWN 1UL

/* Shorter waits are not reported; nanoseconds. */
const volatile __u64 least_ns = 1000000;
/* Only waits of this process and of those that it starts; 0: of all. */
const volatile __u32 only_pid = 0;
/* A drive is busy with a writer's writes as long as the last one was issued so long ago at most. */
const volatile __u64 busy_ns = 1000000000;

/* Reports that were lost. */
volatile __u64 lost = 0;
/* Transactions that are locked and wait for their handles. */
volatile __s64 locked_transactions = 0;

struct pf_wait_types {
	struct pf_wait wait;
};
struct pf_wait_types _types = {};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, PF_WAIT_RING);
} reports SEC(".maps");

/* What a task leaves for the report of its next wait. */
struct sleeper {
	/* 0: it does not sleep. */
	__u64 start_ns;
	__u64 stack[PF_WAIT_FRAMES];
	struct pf_wait_inode page;
	struct pf_wait_inode operation;
	struct pf_wait_inode bio;
	struct pf_wait_task lock_holder;
	__u32 stack_bytes;
	__u32 is_member;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct sleeper);
} sleepers SEC(".maps");

/* Who last made a clean page of a file dirty, by the address of its mapping. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, PF_WAIT_WRITERS);
	__type(key, __u64);
	__type(value, struct pf_wait_task);
} writers SEC(".maps");

/* Synchronous requests and writes under way, by the address of the request. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, PF_WAIT_REQUESTS);
	__type(key, __u64);
	__type(value, struct pf_wait_request);
} requests SEC(".maps");

/* The request of each thread that was inserted, issued or completed last. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, PF_WAIT_REQUESTS);
	__type(key, __u32);
	__type(value, struct pf_wait_request);
} own_requests SEC(".maps");

/*
 * Whose writes a drive is busy with: the majority by bytes since it was last idle. A writer's requests add to the
 * weight of the one who has it, or take from it, until another takes over.
 */
struct drive {
	struct pf_wait_task writer;
	__u64 weight;
	__u64 last_ns;
	/* Requests of known writers. */
	__s64 under_way;
};
#define MOST_WEIGHT (16U << 20)
/* In is_write: `drives` counts it as under way. */
#define IS_COUNTED 2U

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, PF_WAIT_DRIVES);
	__type(key, __u64);
	__type(value, struct drive);
} drives SEC(".maps");

struct journal {
	struct pf_wait_task last_holder;
	__u64 stopped_ns;
	__u32 is_locked;
	__u32 unused;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, PF_WAIT_DRIVES);
	__type(key, __u32);
	__type(value, struct journal);
} journals SEC(".maps");

/* ---- Tasks and inodes ---- */

static __always_inline void name_task(struct pf_wait_task *to, struct task_struct *task)
{
	to->pid = BPF_CORE_READ(task, tgid);
	to->tid = BPF_CORE_READ(task, pid);
	to->uid = BPF_CORE_READ(task, cred, uid.val);
	to->flags = BPF_CORE_READ(task, flags);
	BPF_CORE_READ_INTO(&to->name, task, comm);
}

static __always_inline struct sleeper *sleeper_of_current(void)
{
	struct sleeper *sleeper = bpf_task_storage_get(&sleepers, bpf_get_current_task_btf(), NULL,
						       BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!sleeper)
		__sync_fetch_and_add(&lost, 1);
	return sleeper;
}

static __always_inline bool is_wanted(struct task_struct *task, struct sleeper *sleeper)
{
	return !only_pid || task->tgid == only_pid || (sleeper && sleeper->is_member);
}

static __always_inline void note_inode(struct pf_wait_inode *to, struct inode *inode)
{
	struct super_block *sb = BPF_CORE_READ(inode, i_sb);

	to->mapping = 0;
	to->index = 0;
	to->ino = BPF_CORE_READ(inode, i_ino);
	to->is_metadata = BPF_CORE_READ(sb, s_magic) == BDEVFS_MAGIC;
	if (to->is_metadata) {
		to->dev = BPF_CORE_READ(inode, i_rdev);
		to->disk = 0;
	} else {
		to->dev = BPF_CORE_READ(sb, s_dev);
		to->disk = (__u64)BPF_CORE_READ(sb, s_bdev, bd_disk);
	}
}

static __always_inline void note_operation(struct inode *inode)
{
	struct sleeper *sleeper = sleeper_of_current();

	if (sleeper && is_wanted(bpf_get_current_task_btf(), sleeper))
		note_inode(&sleeper->operation, inode);
}

static __always_inline void forget_operation(void)
{
	struct sleeper *sleeper = bpf_task_storage_get(&sleepers, bpf_get_current_task_btf(), NULL, 0);

	if (sleeper)
		sleeper->operation.dev = 0;
}

/* ---- Reports ---- */

/* Writes the report of a task that has slept for so long. */
static __always_inline void fill(struct pf_wait *wait, struct task_struct *task, struct sleeper *sleeper,
				 __u64 duration_ns)
{
	struct pf_wait_request *request;
	struct pf_wait_task *writer;
	struct journal *journal;
	struct drive *drive;
	__u64 disk;
	__u32 tid = task->pid;

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
	writer = bpf_map_lookup_elem(&writers, &wait->page.mapping);
	if (writer)
		wait->page_writer = *writer;

	disk = wait->request.disk ?: wait->page.disk ?: wait->operation.disk ?: wait->bio.disk;
	drive = bpf_map_lookup_elem(&drives, &disk);
	if (drive && drive->last_ns + busy_ns > sleeper->start_ns)
		wait->drive_writer = drive->writer;
	journal = bpf_map_lookup_elem(&journals, &wait->operation.dev);
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

	sleeper = bpf_task_storage_get(&sleepers, next, NULL, 0);
	if (sleeper && sleeper->start_ns) {
		duration_ns = bpf_ktime_get_ns() - sleeper->start_ns;
		if (duration_ns >= least_ns)
			report(next, sleeper, duration_ns);
		sleeper->start_ns = 0;
	}

	if (preempt || (state & (TASK_UNINTERRUPTIBLE | TASK_NOLOAD)) != TASK_UNINTERRUPTIBLE)
		return 0;
	sleeper = bpf_task_storage_get(&sleepers, prev, NULL, only_pid ? 0 : BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!is_wanted(prev, sleeper))
		return 0;
	if (!sleeper)
		sleeper = sleeper_of_current();
	if (!sleeper)
		return 0;
	bytes = bpf_get_stack(ctx, sleeper->stack, sizeof(sleeper->stack), 0);
	sleeper->stack_bytes = bytes > 0 ? bytes : 0;
	sleeper->start_ns = bpf_ktime_get_ns();
	return 0;
}

SEC("?tp_btf/sched_process_fork")
int BPF_PROG(task_forked, struct task_struct *parent, struct task_struct *child)
{
	struct sleeper *sleeper = bpf_task_storage_get(&sleepers, parent, NULL, 0);

	if (!is_wanted(parent, sleeper))
		return 0;
	sleeper = bpf_task_storage_get(&sleepers, child, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (sleeper)
		sleeper->is_member = 1;
	else
		__sync_fetch_and_add(&lost, 1);
	return 0;
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

/* The reports of all waits that are under way and long enough, one after the other. */
SEC("?iter/task")
int waits_under_way(struct bpf_iter__task *context)
{
	struct task_struct *task = context->task;
	struct sleeper *sleeper;
	__u64 start_ns, now;

	if (!task)
		return 0;
	sleeper = bpf_task_storage_get(&sleepers, task, NULL, 0);
	if (!sleeper)
		return 0;
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

/* ---- Pages, files and locks ---- */

SEC("?tp_btf/folio_wait_writeback")
int BPF_PROG(writeback_waited, struct folio *folio, struct address_space *mapping)
{
	struct sleeper *sleeper;
	struct inode *inode;

	if (!mapping)
		return 0;
	sleeper = sleeper_of_current();
	if (!sleeper || !is_wanted(bpf_get_current_task_btf(), sleeper))
		return 0;
	inode = BPF_CORE_READ(mapping, host);
	note_inode(&sleeper->page, inode);
	sleeper->page.index = BPF_CORE_READ(folio, index);
	sleeper->page.mapping = (__u64)mapping;
	return 0;
}

SEC("?tp_btf/ext4_sync_file_enter")
int BPF_PROG(sync_entered, struct file *file, int datasync)
{
	note_operation(BPF_CORE_READ(file, f_inode));
	return 0;
}

SEC("?tp_btf/ext4_sync_file_exit")
int BPF_PROG(sync_left, struct inode *inode, int result)
{
	forget_operation();
	return 0;
}

SEC("?tp_btf/ext4_truncate_enter")
int BPF_PROG(truncate_entered, struct inode *inode)
{
	note_operation(inode);
	return 0;
}

SEC("?tp_btf/ext4_truncate_exit")
int BPF_PROG(truncate_left, struct inode *inode)
{
	forget_operation();
	return 0;
}

SEC("?tp_btf/ext4_journal_start_inode")
int BPF_PROG(handle_wanted_for_inode, struct inode *inode)
{
	note_operation(inode);
	return 0;
}

static __always_inline void note_file_system(struct super_block *sb)
{
	struct sleeper *sleeper = sleeper_of_current();

	if (!sleeper || !is_wanted(bpf_get_current_task_btf(), sleeper))
		return;
	__builtin_memset(&sleeper->operation, 0, sizeof(sleeper->operation));
	sleeper->operation.dev = BPF_CORE_READ(sb, s_dev);
	sleeper->operation.disk = (__u64)BPF_CORE_READ(sb, s_bdev, bd_disk);
}

SEC("?tp_btf/ext4_journal_start_sb")
int BPF_PROG(handle_wanted, struct super_block *sb)
{
	note_file_system(sb);
	return 0;
}

/* Up to 6.2, for inodes too. */
SEC("?tp_btf/ext4_journal_start")
int BPF_PROG(handle_wanted_before, struct super_block *sb)
{
	note_file_system(sb);
	return 0;
}

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct atomic_long___owner {
	__s64 counter;
};
struct mutex {
	struct atomic_long___owner owner;
};
struct rw_semaphore {
	struct atomic_long___owner owner;
};
#pragma clang attribute pop

SEC("?tp_btf/contention_begin")
int BPF_PROG(lock_contended, void *lock, unsigned int flags)
{
	struct sleeper *sleeper;
	unsigned long owner;

	if (flags & (LCB_F_SPIN | LCB_F_PERCPU | LCB_F_RT))
		return 0;
	sleeper = sleeper_of_current();
	if (!sleeper || !is_wanted(bpf_get_current_task_btf(), sleeper))
		return 0;
	if (flags & LCB_F_MUTEX)
		owner = BPF_CORE_READ((struct mutex *)lock, owner.counter);
	else
		owner = BPF_CORE_READ((struct rw_semaphore *)lock, owner.counter);
	__builtin_memset(&sleeper->lock_holder, 0, sizeof(sleeper->lock_holder));
	if (!(flags & LCB_F_MUTEX) && (owner & READERS_OWN))
		return 0;
	if (owner & ~OWNER_BITS)
		name_task(&sleeper->lock_holder, (struct task_struct *)(owner & ~OWNER_BITS));
	return 0;
}

/* ---- Writers and drives ---- */

/* The writer that a processor saw last: of most pages it is the same. */
struct last_writer {
	__u64 mapping;
	__u64 task;
};
struct last_writer last_writers[PF_WAIT_PROCESSORS] = {};

SEC("?tp_btf/writeback_dirty_folio")
int BPF_PROG(page_dirtied, struct folio *folio, struct address_space *mapping)
{
	__u64 key = (__u64)mapping, task = (__u64)bpf_get_current_task_btf();
	__u32 processor = bpf_get_smp_processor_id() % PF_WAIT_PROCESSORS;
	struct last_writer *last = &last_writers[processor];
	struct pf_wait_task writer;

	if (!mapping || (last->mapping == key && last->task == task))
		return 0;
	last->mapping = key;
	last->task = task;
	name_task(&writer, bpf_get_current_task_btf());
	bpf_map_update_elem(&writers, &key, &writer, BPF_ANY);
	return 0;
}

SEC("?tp_btf/block_bio_queue")
int BPF_PROG(bio_queued, struct bio *bio)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct sleeper *sleeper = sleeper_of_current();
	struct block_device *device;

	if (!sleeper || !is_wanted(task, sleeper))
		return 0;
	device = BPF_CORE_READ(bio, bi_bdev);
	sleeper->bio.dev = BPF_CORE_READ(device, bd_dev);
	/* In the place of an index: the sector. */
	sleeper->bio.index = BPF_CORE_READ(bio, bi_iter.bi_sector);
	sleeper->bio.disk = (__u64)BPF_CORE_READ(device, bd_disk);
	return 0;
}

static __always_inline struct address_space *first_mapping(struct bio *bio, __u64 *index)
{
	/* A flush and a discard have no pages. */
	if (!bio || !BPF_CORE_READ(bio, bi_io_vec))
		return NULL;
	return first_mapping_of(bio, index);
}

static __always_inline void note_request(struct pf_wait_request *to, struct request *rq, __u32 flags)
{
	struct bio *bio = BPF_CORE_READ(rq, bio);
	struct block_device *device = BPF_CORE_READ(bio, bi_bdev);
	struct address_space *mapping;
	struct inode *inode;

	__builtin_memset(to, 0, sizeof(*to));
	to->dev = BPF_CORE_READ(device, bd_dev);
	to->tid = BPF_CORE_READ(bpf_get_current_task_btf(), pid);
	to->sector = BPF_CORE_READ(rq, __sector) - BPF_CORE_READ(device, bd_start_sect);
	to->disk = (__u64)BPF_CORE_READ(device, bd_disk);
	to->bytes = BPF_CORE_READ(rq, __data_len);
	to->is_write = (flags & REQ_OP_MASK) == REQ_OP_WRITE;
	mapping = first_mapping(bio, &to->index);
	to->mapping = (__u64)mapping;
	if (mapping) {
		inode = BPF_CORE_READ(mapping, host);
		if (BPF_CORE_READ(inode, i_sb, s_magic) != BDEVFS_MAGIC)
			to->ino = BPF_CORE_READ(inode, i_ino);
	}
}

/* Whether somebody may wait for this very request. */
static __always_inline bool is_synchronous(__u32 flags)
{
	__u32 operation = flags & REQ_OP_MASK;

	return operation == REQ_OP_READ || (operation == REQ_OP_WRITE && (flags & REQ_SYNC));
}

SEC("?tp_btf/block_rq_insert")
int BPF_PROG(request_inserted, struct request *rq)
{
	__u32 flags = BPF_CORE_READ(rq, cmd_flags);
	struct pf_wait_request request;
	__u64 key = (__u64)rq;

	if (!is_synchronous(flags))
		return 0;
	note_request(&request, rq, flags);
	request.inserted_ns = bpf_ktime_get_ns();
	bpf_map_update_elem(&requests, &key, &request, BPF_ANY);
	bpf_map_update_elem(&own_requests, &request.tid, &request, BPF_ANY);
	return 0;
}

/* A write goes to the drive. Returns whether it is counted as under way. */
static __always_inline bool note_drive_write(struct request *rq, __u64 disk)
{
	struct bio *bio = BPF_CORE_READ(rq, bio);
	__u32 bytes = BPF_CORE_READ(rq, __data_len);
	__u64 mapping, index, now = bpf_ktime_get_ns();
	struct pf_wait_task *writer, current;
	struct drive *drive, fresh;
	bool was_idle;

	mapping = (__u64)first_mapping(bio, &index);
	writer = bpf_map_lookup_elem(&writers, &mapping);
	if (!writer && !mapping) {
		/* Direct I/O is submitted by the writer itself. */
		name_task(&current, bpf_get_current_task_btf());
		writer = &current;
	}
	if (!writer || (writer->flags & PF_KTHREAD))
		return false;
	drive = bpf_map_lookup_elem(&drives, &disk);
	if (!drive) {
		__builtin_memset(&fresh, 0, sizeof(fresh));
		fresh.writer = *writer;
		fresh.weight = bytes;
		fresh.last_ns = now;
		fresh.under_way = 1;
		return !bpf_map_update_elem(&drives, &disk, &fresh, BPF_NOEXIST);
	}
	was_idle = __sync_fetch_and_add(&drive->under_way, 1) <= 0;
	/* An entry of `requests` may have made room for another, and its end was not seen. */
	if (now > drive->last_ns + busy_ns) {
		drive->under_way = 1;
		was_idle = true;
	}
	drive->last_ns = now;
	if (!was_idle && drive->writer.tid == writer->tid) {
		drive->weight += bytes;
		if (drive->weight > MOST_WEIGHT)
			drive->weight = MOST_WEIGHT;
	} else if (!was_idle && drive->weight > bytes) {
		drive->weight -= bytes;
	} else {
		drive->writer = *writer;
		drive->weight = bytes;
	}
	return true;
}

SEC("?tp_btf/block_rq_issue")
int BPF_PROG(request_issued, struct request *rq)
{
	__u32 flags = BPF_CORE_READ(rq, cmd_flags);
	bool is_write = (flags & REQ_OP_MASK) == REQ_OP_WRITE;
	struct pf_wait_request *known, request;
	__u64 key = (__u64)rq;

	if (!is_write && !is_synchronous(flags))
		return 0;
	known = bpf_map_lookup_elem(&requests, &key);
	if (known && known->issued_ns)
		/* It was put back into the queue meanwhile. */
		return 0;
	if (known)
		request = *known;
	else
		note_request(&request, rq, flags);
	request.issued_ns = bpf_ktime_get_ns();
	if (!known)
		request.inserted_ns = request.issued_ns;
	/* It may have grown. */
	request.bytes = BPF_CORE_READ(rq, __data_len);
	if (is_write && note_drive_write(rq, request.disk))
		request.is_write |= IS_COUNTED;
	bpf_map_update_elem(&requests, &key, &request, BPF_ANY);
	if (is_synchronous(flags))
		bpf_map_update_elem(&own_requests, &request.tid, &request, BPF_ANY);
	return 0;
}

SEC("?tp_btf/block_rq_complete")
int BPF_PROG(request_completed, struct request *rq)
{
	struct pf_wait_request *known, request;
	struct drive *drive;
	__u64 key = (__u64)rq;

	known = bpf_map_lookup_elem(&requests, &key);
	if (!known)
		return 0;
	request = *known;
	request.completed_ns = bpf_ktime_get_ns();
	bpf_map_delete_elem(&requests, &key);
	if (request.is_write & IS_COUNTED) {
		drive = bpf_map_lookup_elem(&drives, &request.disk);
		if (drive)
			__sync_fetch_and_add(&drive->under_way, -1);
	}
	if (is_synchronous(BPF_CORE_READ(rq, cmd_flags)))
		bpf_map_update_elem(&own_requests, &request.tid, &request, BPF_ANY);
	return 0;
}

/* ---- Journals ---- */

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct journal_s {
	struct block_device *j_fs_dev;
};
#pragma clang attribute pop

SEC("?tp_btf/jbd2_commit_locking")
int BPF_PROG(transaction_locked, struct journal_s *of, void *transaction)
{
	__u32 dev = BPF_CORE_READ(of, j_fs_dev, bd_dev);
	struct journal journal = {.is_locked = 1};

	bpf_map_update_elem(&journals, &dev, &journal, BPF_ANY);
	__sync_fetch_and_add(&locked_transactions, 1);
	return 0;
}

SEC("?tp_btf/jbd2_commit_flushing")
int BPF_PROG(transaction_unlocked, struct journal_s *of, void *transaction)
{
	__u32 dev = BPF_CORE_READ(of, j_fs_dev, bd_dev);
	struct journal *journal = bpf_map_lookup_elem(&journals, &dev);

	if (!journal || !journal->is_locked)
		return 0;
	journal->is_locked = 0;
	__sync_fetch_and_add(&locked_transactions, -1);
	return 0;
}

SEC("?tp_btf/jbd2_handle_stats")
int BPF_PROG(handle_stopped, __u32 dev)
{
	struct journal *journal;

	if (locked_transactions <= 0)
		return 0;
	journal = bpf_map_lookup_elem(&journals, &dev);
	if (!journal || !journal->is_locked)
		return 0;
	name_task(&journal->last_holder, bpf_get_current_task_btf());
	journal->stopped_ns = bpf_ktime_get_ns();
	return 0;
}
