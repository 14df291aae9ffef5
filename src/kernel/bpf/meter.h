/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The completion block: a launch that does not end by itself is over when the drive has delivered that
 * block (paper §5.1). User space is woken for it.
 */
#ifndef PARALFETCH_METER_H
#define PARALFETCH_METER_H

#include "kernel.h"
#include "intf.h"
#include "count.h"
#include "tree.h"
#include "launch.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

struct pf_completion_block completion_block = {};

SEC("?tp_btf/block_rq_complete")
int BPF_PROG(request_done, struct request *rq, int error, unsigned int bytes)
{
	struct pf_completion_block *block = &completion_block;
	struct pf_launch_event *event;
	struct pf_launch *launch;
	struct block_device *part;
	__u64 first, end;

	if (!block->dev)
		return 0;
	launch = find_launch(block->launch);
	if (!launch || !launch->start_ns || launch->completed_ns)
		return 0;
	if ((rq->cmd_flags & REQ_OP_MASK) != REQ_OP_READ)
		return 0;
	part = rq->part;
	if (!part || part->bd_dev != block->dev)
		return 0;
	/* Requests count sectors from the start of the disk, file systems from their partition. */
	first = rq->__sector - part->bd_start_sect;
	end = first + (bytes >> 9);
	if (first >= block->sector + block->sectors || end <= block->sector)
		return 0;
	launch->completed_ns = bpf_ktime_get_ns();
	event = bpf_ringbuf_reserve(&launch_events, sizeof(*event), 0);
	if (!event)
		return 0;
	__builtin_memset(event, 0, sizeof(*event));
	event->time_ns = launch->completed_ns;
	event->launch = block->launch;
	event->kind = PF_LAUNCH_COMPLETED;
	bpf_ringbuf_submit(event, BPF_RB_FORCE_WAKEUP);
	return 0;
}

#endif
