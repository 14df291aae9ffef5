/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Who holds a transaction of a journal up. Why pointers are compared with null, the head of wait_files.h says.
 */
#ifndef PARALFETCH_WAIT_JOURNALS_H
#define PARALFETCH_WAIT_JOURNALS_H

#include "kernel.h"
#include "waits.h"
#include "wait_tasks.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

/* Transactions that are locked and wait for their handles. */
volatile __s64 locked_transactions = 0;

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

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct journal_s {
	struct block_device *j_fs_dev;
};
#pragma clang attribute pop

SEC("?tp_btf/jbd2_commit_locking")
int BPF_PROG(transaction_locked, struct journal_s *of, void *transaction)
{
	struct journal journal = {.is_locked = 1};
	__u32 dev;

	if (!of)
		return 0;
	dev = BPF_CORE_READ(of, j_fs_dev, bd_dev);
	bpf_map_update_elem(&journals, &dev, &journal, BPF_ANY);
	__sync_fetch_and_add(&locked_transactions, 1);
	return 0;
}

SEC("?tp_btf/jbd2_commit_flushing")
int BPF_PROG(transaction_unlocked, struct journal_s *of, void *transaction)
{
	struct journal *journal;
	__u32 dev;

	if (!of)
		return 0;
	dev = BPF_CORE_READ(of, j_fs_dev, bd_dev);
	journal = bpf_map_lookup_elem(&journals, &dev);
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

#endif
