// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Measuring: how many reads a launch makes, and who makes them.
 *
 * The launch tree's own requests are those that it has to wait for; the helper's are the prefetch
 * thread's.
 *
 * With a completion block set, its read is watched too: a launch that does not end by itself ends
 * when the drive has delivered that block (paper §5.1).
 */
#include "kernel.h"
#include "intf.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>
#include "requests.bpf.h"
#include "tree.bpf.h"
#include "wakeups.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

struct pf_types _types = {};

struct pf_reads tree_reads = {};
struct pf_reads helper_reads = {};

/* The completion block: kernel dev_t of its device, and its sectors; no device, no block. */
volatile __u32 completion_dev = 0;
volatile __u64 completion_sector = 0;
volatile __u64 completion_sectors = 0;
volatile __u64 completed_ns = 0;

static __always_inline void count_read(__u64 requests, __u32 bytes)
{
	struct pf_reads *reads;
	__u32 role = current_role();

	if (role == PF_ROLE_HELPER)
		reads = &helper_reads;
	else if (is_tree(role) && active_since_ns)
		reads = &tree_reads;
	else
		return;
	__sync_fetch_and_add(&reads->requests, requests);
	__sync_fetch_and_add(&reads->bytes, bytes);
}

SEC("tp_btf/block_rq_complete")
int BPF_PROG(request_done, struct request *rq, int error, unsigned int bytes)
{
	struct block_device *part;
	__u64 first, end;

	if (!completion_dev || !active_since_ns || completed_ns)
		return 0;
	if ((rq->cmd_flags & REQ_OP_MASK) != REQ_OP_READ)
		return 0;
	part = rq->part;
	if (!part || part->bd_dev != completion_dev)
		return 0;
	/* Requests count sectors from the start of the disk, file systems from their partition. */
	first = rq->__sector - part->bd_start_sect;
	end = first + (bytes >> 9);
	if (first >= completion_sector + completion_sectors || end <= completion_sector)
		return 0;
	completed_ns = bpf_ktime_get_ns();
	wake(PF_ADDED);
	return 0;
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(task_forked, struct task_struct *parent, struct task_struct *child)
{
	tree_fork(parent, child);
	return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(task_execed, struct task_struct *task)
{
	tree_exec(task);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(task_exited)
{
	if (tree_exit())
		wake(PF_EXIT);
	return 0;
}
