/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Who writes to files, whose writes drives are busy with, and how far requests are.
 */
#ifndef PARALFETCH_WAIT_DRIVES_H
#define PARALFETCH_WAIT_DRIVES_H

#include "kernel.h"
#include "waits.h"
#include "wait_tasks.h"
#include "bio_pages.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

/* Low byte of cmd_flags: the operation. Above it, flags. The numbers are the same since 4.10. */
#define REQ_OP_MASK 0xff
#define REQ_OP_READ 0
#define REQ_OP_WRITE 1
#define REQ_SYNC (1U << 11)

/* A write that was issued longer ago than this counts as completed: its end was not seen. */
const volatile __u64 busy_ns = 1000000000;
/* So long after its last write was completed, a drive may still be programming what its buffer has taken. */
const volatile __u64 settling_ns = 50000000;

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
	/* When the last of them was completed. */
	__u64 idle_ns;
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
	struct sleeper *sleeper = sleeper_of_current();
	struct block_device *device;

	if (!sleeper)
		return 0;
	device = BPF_CORE_READ(bio, bi_bdev);
	sleeper->bio.dev = BPF_CORE_READ(device, bd_dev);
	/* In the place of an index: the sector of `dev`. The bio's own counts from the beginning of the drive already. */
	sleeper->bio.index = BPF_CORE_READ(bio, bi_iter.bi_sector) - BPF_CORE_READ(device, bd_start_sect);
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

/* Whether the drive was busy with writes at some time since then. */
static __always_inline bool was_written_since(const struct drive *drive, __u64 since_ns)
{
	if (drive->under_way > 0)
		return drive->last_ns + busy_ns > since_ns;
	return drive->idle_ns + settling_ns > since_ns;
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
		if (drive && __sync_fetch_and_add(&drive->under_way, -1) <= 1)
			drive->idle_ns = request.completed_ns;
	}
	if (is_synchronous(BPF_CORE_READ(rq, cmd_flags)))
		bpf_map_update_elem(&own_requests, &request.tid, &request, BPF_ANY);
	return 0;
}

#endif
