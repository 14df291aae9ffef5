/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Counting: what each launch under way costs.
 *
 * Read requests are seen where they are made (block_getrq), in the context of the task that needs the
 * data. Bios that join an existing request add their bytes to it. The tree's own requests are those that
 * the launch has to wait for; requests of prefetch threads are counted apart.
 */
#ifndef PARALFETCH_COUNT_H
#define PARALFETCH_COUNT_H

#include "kernel.h"
#include "intf.h"
#include "helpers.h"
#include "own_reads.h"
#include "tree.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

#define REQ_OP_MASK 0xff
#define REQ_OP_READ 0

/* The service's prefetch threads, by thread id: the launch that each works for. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PF_PREFETCH_THREADS);
	__type(key, __u32);
	__type(value, __u64);
} prefetchers SEC(".maps");

/*
 * The service's thread that makes the first requests of all launches, and the launch that it works for at
 * the moment; 0: none. A system call to enter itself above would delay its requests.
 */
volatile __u32 first_reader = 0;
volatile __u64 first_reader_launch = 0;

/* The launch that the current task reads for, and as what: enum pf_by. */
static __always_inline struct pf_launch *reader(__u32 *by)
{
	__u32 tid = (__u32)bpf_get_current_pid_tgid();
	struct pf_launch *launch;
	struct pf_member *m;
	__u64 *number;

	if (!live_launches)
		return NULL;
	*by = PF_PREFETCHER;
	m = noted_member_of(bpf_get_current_task_btf());
	if (m) {
		launch = launch_of(m);
		if (m->role == PF_ROLE_PREFETCHER)
			return launch;
		*by = PF_TREE;
		return is_tree(m->role) && launch->start_ns ? launch : NULL;
	}
	if (tid == first_reader)
		return find_launch(first_reader_launch);
	number = bpf_map_lookup_elem(&prefetchers, &tid);
	if (number)
		return find_launch(*number);
	*by = PF_HELPER;
	return helped_launch();
}

static __always_inline void count_read(struct bio *bio, __u64 requests)
{
	__u32 bytes = bio->bi_iter.bi_size, by = 0;
	struct pf_launch *launch = reader(&by);

	if (!launch)
		return;
	if (by != PF_PREFETCHER)
		note_own_read(launch, by, bio);
	/* The launch need not wait for what a helper reads. */
	if (by == PF_HELPER)
		return;
	if (by == PF_PREFETCHER) {
		if (!launch->first_prefetch_ns)
			launch->first_prefetch_ns = bpf_ktime_get_ns();
		__sync_fetch_and_add(&launch->prefetch_requests, requests);
		__sync_fetch_and_add(&launch->prefetch_bytes, bytes);
	} else {
		__sync_fetch_and_add(&launch->requests, requests);
		__sync_fetch_and_add(&launch->bytes, bytes);
	}
}

static __always_inline int count_bio(struct bio *bio, __u64 requests)
{
	if ((bio->bi_opf & REQ_OP_MASK) == REQ_OP_READ)
		count_read(bio, requests);
	return 0;
}

SEC("?tp_btf/block_getrq")
int BPF_PROG(request_made, struct bio *bio)
{
	return count_bio(bio, 1);
}

SEC("?tp_btf/block_bio_backmerge")
int BPF_PROG(bio_merged_behind, struct bio *bio)
{
	return count_bio(bio, 0);
}

SEC("?tp_btf/block_bio_frontmerge")
int BPF_PROG(bio_merged_before, struct bio *bio)
{
	return count_bio(bio, 0);
}

/* The programs from here on run all the time: they are attached only while a launch is under way. */
SEC("?tp_btf/sched_switch")
int BPF_PROG(task_switched, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	struct pf_member *m = member_of(prev);
	__u64 now;

	if (m && BPF_CORE_READ_BITFIELD(prev, in_iowait)) {
		m->waiting_since_ns = bpf_ktime_get_ns();
		__sync_fetch_and_add(&launch_of(m)->switches, 1);
	}
	m = member_of(next);
	if (m && m->waiting_since_ns) {
		now = bpf_ktime_get_ns();
		if (now > m->waiting_since_ns)
			__sync_fetch_and_add(&launch_of(m)->waiting_ns, now - m->waiting_since_ns);
		m->waiting_since_ns = 0;
	}
	return 0;
}

/*
 * Notes that the launch is complete if, with these pages of a file, it has used enough of its completion pages. No function
 * is called in the loops: Linux 6.1 takes one that ends with a call for endless.
 */
static __always_inline void look_for_completion(struct address_space *mapping, __u64 first, __u64 last)
{
	struct pf_launch *launch = tree_of(bpf_get_current_task_btf());
	__u32 i, dev, left, count = 0, used = 0;
	struct inode *inode;
	struct pf_page *page;

	if (!launch || !launch->completion_pages || launch->completed_ns)
		return;
	inode = mapping->host;
	if (!inode || !inode->i_sb)
		return;
#pragma unroll
	for (i = 0; i < PF_COMPLETION_PAGES; i++) {
		page = &launch->completion[i];
		if (i < launch->completion_pages && page->ino == inode->i_ino && page->index >= first &&
		    page->index <= last)
			used |= 1U << i;
	}
	if (!used)
		return;
	dev = dev_of_file(inode);
#pragma unroll
	for (i = 0; i < PF_COMPLETION_PAGES; i++) {
		if (launch->completion[i].dev != dev)
			used &= ~(1U << i);
	}
	used &= ~__sync_fetch_and_or(&launch->completion_used, used);
#pragma unroll
	for (i = 0; i < PF_COMPLETION_PAGES; i++)
		count += used >> i & 1;
	if (!count)
		return;
	left = __sync_fetch_and_add(&launch->completion_left, -count);
	if (left && left <= count) {
		launch->completed_requests = launch->requests;
		launch->completed_ns = bpf_ktime_get_ns();
	}
}

SEC("?tp_btf/mm_filemap_get_pages")
int BPF_PROG(completion_read, struct address_space *mapping, unsigned long index,
	     unsigned long last_index)
{
	look_for_completion(PLAIN(struct address_space, mapping), index, last_index);
	return 0;
}

SEC("?tp_btf/mm_filemap_fault")
int BPF_PROG(completion_faulted, struct address_space *mapping, unsigned long index)
{
	look_for_completion(PLAIN(struct address_space, mapping), index, index);
	return 0;
}

SEC("?tp_btf/mm_filemap_map_pages")
int BPF_PROG(completion_mapped, struct address_space *mapping, unsigned long start, unsigned long end)
{
	look_for_completion(PLAIN(struct address_space, mapping), start, end);
	return 0;
}

#endif
