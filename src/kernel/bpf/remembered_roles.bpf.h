/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The roles of tasks that ran lately, for programs that run often: looking into a task's storage takes
 * several times as long.
 */
#ifndef PARALFETCH_REMEMBERED_ROLES_BPF_H
#define PARALFETCH_REMEMBERED_ROLES_BPF_H

#include "tree.bpf.h"

/* A word each: the pid, how many changes of roles there had been, and the role. */
#define ROLES_REMEMBERED 256
#define ROLE_BITS 3
#define ROLE_MASK ((1ULL << ROLE_BITS) - 1)

__u64 remembered_roles[ROLES_REMEMBERED] = {};

/* PF_EXITING of linux/sched.h. */
#define TASK_EXITING 0x4

/*
 * The role of the current task. Only once the launch has begun: roles that user space gives do not count
 * as changes, and it gives them before.
 */
static __always_inline __u32 remembered_role(void)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 pid = task->pid, role;
	volatile __u64 *place = &remembered_roles[pid % ROLES_REMEMBERED];
	/* Read before the role: if that changes meanwhile, the word is out of date from the start. */
	__u64 name = (__u64)pid << 32 | (__u32)role_changes << ROLE_BITS, word = *place;

	if ((word & ~ROLE_MASK) == name)
		return word & ROLE_MASK;
	role = role_of(task);
	/* Its pid may soon be that of another task, whose coming changes no role. */
	if (!(task->flags & TASK_EXITING))
		*place = name | role;
	return role;
}

#endif
