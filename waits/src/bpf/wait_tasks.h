/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What tasks leave for the report of their next wait.
 */
#ifndef PARALFETCH_WAIT_TASKS_H
#define PARALFETCH_WAIT_TASKS_H

#include "kernel.h"
#include "waits.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

#define PF_KTHREAD 0x00200000

/* Reports that were lost. */
volatile __u64 lost = 0;

/* What a task leaves for the report of its next wait. A task whose waits are not wanted has none. */
struct sleeper {
	/* 0: it does not sleep. */
	__u64 start_ns;
	__u64 stack[PF_WAIT_FRAMES];
	struct pf_wait_inode page;
	struct pf_wait_inode operation;
	struct pf_wait_inode bio;
	struct pf_wait_task lock_holder;
	__u32 stack_bytes;
	__u32 unused;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct sleeper);
} sleepers SEC(".maps");

static __always_inline void name_task(struct pf_wait_task *to, struct task_struct *task)
{
	to->pid = BPF_CORE_READ(task, tgid);
	to->tid = BPF_CORE_READ(task, pid);
	to->uid = BPF_CORE_READ(task, cred, uid.val);
	to->flags = BPF_CORE_READ(task, flags);
	BPF_CORE_READ_INTO(&to->name, task, comm);
}

/* NULL if the task's waits are not wanted. */
static __always_inline struct sleeper *sleeper_of(struct task_struct *task)
{
	return bpf_task_storage_get(&sleepers, task, NULL, 0);
}

static __always_inline struct sleeper *sleeper_of_current(void)
{
	return sleeper_of(bpf_get_current_task_btf());
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

#endif
