/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The log: where events wait for user space.
 *
 * The kernel's own ring buffer takes a lock and a helper's call for each record, which for a page that is
 * used costs as much as the rest. This one is memory that both sides map: a record is claimed by one
 * compare-and-swap in the processor's own part, written in place, and then published by its header.
 *
 * A part is a ring of 2^n bytes; a record that begins in it ends in it, too, for some room follows that
 * the ring does not count. The header of what was claimed and is not yet written is 0: user space clears
 * what it has read before it gives it back.
 */
#ifndef PARALFETCH_LOG_BPF_H
#define PARALFETCH_LOG_BPF_H

#include "wakeups.bpf.h"

/*
 * The log has 2^n parts, at most PF_LOG_PARTS; set before the programs are loaded. Processors may share
 * one.
 */
const volatile __u32 log_parts_log2 = 0;

struct log {
	struct pf_log_ends ends[PF_LOG_PARTS];
	__u8 parts[PF_LOG_BYTES + PF_LOG_PARTS * PF_LOG_RECORD];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct log);
} event_log SEC(".maps");

/* Events that found no room in the log. */
__u64 lost_events = 0;

/* Others may take the place while we look: more often than that, and it counts as no room. */
#define LOG_TRIES 8

/* A record to be written. */
struct record {
	__u64 bytes;
	__u8 data[];
};

static __always_inline void lose_event(void)
{
	__sync_fetch_and_add(&lost_events, 1);
}

/* Room for a record of so many bytes, to be written and then published; NULL, and lost, if there is none. */
static __always_inline struct record *claim(__u32 bytes)
{
	__u32 parts_log2 = log_parts_log2, part_log2 = PF_LOG_BYTES_LOG2 - parts_log2, zero = 0, i;
	__u64 part = bpf_get_smp_processor_id() & ((1U << parts_log2) - 1);
	__u64 part_bytes = 1ULL << part_log2, head, end;
	struct log *log = bpf_map_lookup_elem(&event_log, &zero);
	volatile struct pf_log_ends *ends;

	if (!log)
		return NULL;
	ends = &log->ends[part & (PF_LOG_PARTS - 1)];
	for (i = 0; i < LOG_TRIES; i++) {
		head = ends->head;
		end = head + sizeof(struct record) + ((bytes + 7) & ~7U);
		if (__builtin_expect(end - ends->tail > part_bytes, 0))
			break;
		if (__sync_val_compare_and_swap(&ends->head, head, end) != head)
			continue;
		/* User space comes by at its own pace; who is faster than that calls it. */
		if (__builtin_expect((head ^ end) & (part_bytes / 2), 0))
			wake(PF_HALF);
		/* Shifted: older verifiers know nothing of a product whose second factor varies. */
		return (struct record *)&log->parts[(part << part_log2) + part * PF_LOG_RECORD +
						    (head & (part_bytes - 1))];
	}
	lose_event();
	return NULL;
}

/* The record is written: from now on user space sees it. */
static __always_inline void publish(struct record *record, __u32 bytes)
{
#if defined(__TARGET_ARCH_x86)
	/* This processor shows its stores in their order. */
	barrier();
	*(volatile __u64 *)&record->bytes = bytes;
#else
	__sync_lock_test_and_set(&record->bytes, bytes);
#endif
}

#endif
