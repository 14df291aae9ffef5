/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What a task is about to wait for: pages, the file of an operation, locks.
 *
 * Where ext4 and jbd2 are modules, as in distributions' kernels, the verifier takes each pointer that their tracepoints
 * pass for one that may be null (btf_ctx_access; seen with Debian's 6.12.118), and wants to see that it is not.
 */
#ifndef PARALFETCH_WAIT_FILES_H
#define PARALFETCH_WAIT_FILES_H

#include "kernel.h"
#include "waits.h"
#include "wait_tasks.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

static __always_inline void note_operation(struct inode *inode)
{
	struct sleeper *sleeper = sleeper_of_current();

	if (sleeper && inode)
		note_inode(&sleeper->operation, inode);
}

static __always_inline void forget_operation(void)
{
	struct sleeper *sleeper = sleeper_of_current();

	if (sleeper)
		sleeper->operation.dev = 0;
}

SEC("?tp_btf/folio_wait_writeback")
int BPF_PROG(writeback_waited, struct folio *folio, struct address_space *mapping)
{
	struct sleeper *sleeper;
	struct inode *inode;

	if (!mapping)
		return 0;
	sleeper = sleeper_of_current();
	if (!sleeper)
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
	if (file)
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

	if (!sleeper || !sb)
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

/* Flags of contention_begin. */
#define LCB_F_SPIN (1U << 0)
#define LCB_F_READ (1U << 1)
#define LCB_F_WRITE (1U << 2)
#define LCB_F_RT (1U << 3)
#define LCB_F_PERCPU (1U << 4)
#define LCB_F_MUTEX (1U << 5)
/* Low bits of a mutex's and a semaphore's owner word; this one says that readers hold the semaphore. */
#define OWNER_BITS 7UL
#define READERS_OWN 1UL

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

	if (flags & LCB_F_SPIN)
		return 0;
	sleeper = sleeper_of_current();
	if (!sleeper)
		return 0;
	__builtin_memset(&sleeper->lock_holder, 0, sizeof(sleeper->lock_holder));
	/* A counting semaphore has no flags and no owner. */
	if ((flags & (LCB_F_RT | LCB_F_PERCPU)) || !(flags & (LCB_F_MUTEX | LCB_F_READ | LCB_F_WRITE)))
		return 0;
	if (flags & LCB_F_MUTEX)
		owner = BPF_CORE_READ((struct mutex *)lock, owner.counter);
	else
		owner = BPF_CORE_READ((struct rw_semaphore *)lock, owner.counter);
	if (!(flags & LCB_F_MUTEX) && (owner & READERS_OWN))
		return 0;
	if (owner & ~OWNER_BITS)
		name_task(&sleeper->lock_holder, (struct task_struct *)(owner & ~OWNER_BITS));
	return 0;
}

#endif
