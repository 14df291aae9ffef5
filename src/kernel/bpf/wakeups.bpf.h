/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What user space is woken for.
 */
#ifndef PARALFETCH_WAKEUPS_BPF_H
#define PARALFETCH_WAKEUPS_BPF_H

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 64 << 10);
} wakeups SEC(".maps");

/* Wakes user space, to say this. A function of its own: what runs for each event shall be short. */
static __noinline void wake(__u8 kind)
{
	struct pf_event *slot = bpf_ringbuf_reserve(&wakeups, sizeof(*slot), 0);

	/* Far more find room than a launch can have before user space comes by. */
	if (!slot)
		return;
	__builtin_memset(slot, 0, sizeof(*slot));
	slot->time_ns = bpf_ktime_get_ns();
	slot->kind = kind;
	bpf_ringbuf_submit(slot, BPF_RB_FORCE_WAKEUP);
}

#endif
