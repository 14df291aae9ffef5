/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The logs: where the events of each recorder wait for user space, in a ring buffer of its own.
 *
 * User space empties them at its own pace: to wake it for each event would disturb the launch. It is
 * woken when a log is half full, and for the few events that it must hear of at once.
 */
#ifndef PARALFETCH_LOG_H
#define PARALFETCH_LOG_H

#include "kernel.h"
#include "intf.h"
#include <bpf/bpf_helpers.h>

struct recorder_log {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, PF_LOG_BYTES);
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, PF_RECORDERS);
	__type(key, __u32);
	__array(values, struct recorder_log);
} logs SEC(".maps");

static __always_inline void *log_of(__u32 recorder)
{
	return bpf_map_lookup_elem(&logs, &recorder);
}

/* How to submit the next event to the log. */
static __always_inline __u64 wakeup_of(void *log)
{
	return bpf_ringbuf_query(log, BPF_RB_AVAIL_DATA) > PF_LOG_BYTES / 2 ? BPF_RB_FORCE_WAKEUP :
									    BPF_RB_NO_WAKEUP;
}

/* Wakes the reader of the recorder's log with an event of this kind. */
static __noinline int wake_reader(__u32 recorder, __u8 kind)
{
	void *log = log_of(recorder);
	struct pf_event *event;

	if (!log)
		return 0;
	event = bpf_ringbuf_reserve(log, sizeof(*event), 0);
	if (!event)
		return 0;
	__builtin_memset(event, 0, sizeof(*event));
	event->time_ns = bpf_ktime_get_ns();
	event->kind = kind;
	bpf_ringbuf_submit(event, BPF_RB_FORCE_WAKEUP);
	return 0;
}

#endif
