/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The launch tree: which tasks belong to which launch.
 *
 * A launch has a number and a slot. It begins with one task: the kernel sees it execute a watched
 * program (launch.h), or user space marks a task. From then on membership spreads by fork and clone and
 * nothing else: whatever a member creates is a member, so shell wrappers are one launch with what they
 * execute.
 *
 * User space may mark a launcher before it starts the app itself: then a child process of the launcher
 * is the app, and a thread of the launcher's own process is a prefetcher. The app's first process is a
 * copy of its parent until its execve. What the kernel reads for that execve belongs to the launch, and so
 * do its own faults on the new program; the page faults of the copy's last instructions do not.
 *
 * Membership is in task-local storage: it costs no look-up table, follows a task through exec and pid
 * changes, and is freed with the task. A member names its launch by number, and the slot says which
 * number it serves: the tasks of a launch that has ended are no members any more, without anyone having
 * to find them.
 *
 * A login is a launch, too: of the processes that user space finds in the user's cgroup and marks, and of what grows
 * from them. An app that one of them executes is a launch of its own, and its tasks leave the login.
 *
 * A launch that is over may keep its slot for a while: what its tasks read later is noted. For all else they
 * are no members, so that what they execute may be a launch again.
 */
#ifndef PARALFETCH_TREE_H
#define PARALFETCH_TREE_H

#include "kernel.h"
#include "intf.h"
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct pf_member);
} members SEC(".maps");

/*
 * Ids of the threads of launches, with the numbers of their launches, for user space to look at their states.
 * The threads of an app that goes on after its launch make room when others need it.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, __u64);
} launch_threads SEC(".maps");

/*
 * In memory that user space maps: to write one word of a slot by updating a map element, user space
 * would have to write back all others as they were. `start_ns` of a launch that user space starts is
 * written by the child itself, as its last act before execve.
 */
struct pf_launch launches[PF_LAUNCHES] = {};
/* Number of the launch that began last. */
__u64 last_launch = 0;
/* Slots that are taken: without any, nothing has to be looked up for a fork, an exit or a request. */
volatile __s64 live_launches = 0;
/* Those of them whose launch is over. */
volatile __s64 over_launches = 0;
/* Tasks that should be in a tree and could not be marked because memory was short. */
__u64 lost_tasks = 0;

static __always_inline bool is_tree(__u32 role)
{
	return role == PF_ROLE_STARTING || role == PF_ROLE_TREE;
}

/* The slot of a launch that has one. */
static __always_inline struct pf_launch *find_launch(__u64 number)
{
	struct pf_launch *launch = &launches[number % PF_LAUNCHES];

	return number && launch->number == number ? launch : NULL;
}

static __always_inline struct pf_launch *launch_of(const struct pf_member *m)
{
	return &launches[m->launch % PF_LAUNCHES];
}

/* What the task is in a launch that has a slot, under way or over. */
static __always_inline struct pf_member *noted_member_of(struct task_struct *task)
{
	struct pf_member *m;

	if (!live_launches)
		return NULL;
	m = bpf_task_storage_get(&members, task, 0, 0);
	return m && find_launch(m->launch) ? m : NULL;
}

/* What the task is in a launch under way. */
static __always_inline struct pf_member *member_of(struct task_struct *task)
{
	struct pf_member *m = noted_member_of(task);

	return m && !launch_of(m)->is_over ? m : NULL;
}

/* Whether the member of a launch under way is one of a login's. */
static __always_inline bool is_of_session(const struct pf_member *m)
{
	return launch_of(m)->is_session;
}

/* The launch whose tree the task is in. */
static __always_inline struct pf_launch *tree_of(struct task_struct *task)
{
	struct pf_member *m = member_of(task);

	return m && is_tree(m->role) ? launch_of(m) : NULL;
}

/* PF_FORKNOEXEC of linux/sched.h: a forked task has it until execve has replaced its memory. */
#define TASK_FORKED_NOT_EXECED 0x40

/*
 * Whether the memory of the current task, which has that role, is still a copy of its parent's. It is the app's
 * some time before sched_process_exec: the kernel has mapped the program by then, and written zeros to
 * the last page of its data, which the program then never faults on.
 */
static __always_inline bool is_copy_of_parent(__u32 role)
{
	return role == PF_ROLE_STARTING &&
	       bpf_get_current_task_btf()->flags & TASK_FORKED_NOT_EXECED;
}

static __always_inline void list_thread(struct task_struct *task, const struct pf_member *m)
{
	__u32 id = task->pid;
	__u64 number = m->launch;

	bpf_map_update_elem(&launch_threads, &id, &number, BPF_ANY);
}

static __always_inline void tree_fork(struct task_struct *parent, struct task_struct *child)
{
	struct pf_member *m = noted_member_of(parent), *new;
	__u32 role;

	if (!m)
		return;
	role = m->role;
	if (role == PF_ROLE_LAUNCHER || role == PF_ROLE_PREFETCHER)
		role = parent->tgid == child->tgid ? PF_ROLE_PREFETCHER : PF_ROLE_STARTING;
	new = bpf_task_storage_get(&members, child, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!new) {
		/* The descendants of this task would be missing from the tree. */
		if (is_tree(role)) {
			__sync_fetch_and_add(&lost_tasks, 1);
			__sync_fetch_and_add(&launch_of(m)->lost_tasks, 1);
		}
		return;
	}
	new->launch = m->launch;
	new->role = role;
	if (!is_tree(role))
		return;
	__sync_fetch_and_add(&launch_of(m)->tasks, 1);
	list_thread(child, new);
}

/* A task of a tree has executed a program; `old_pid` is the id that it had before. */
static __always_inline void tree_exec(struct task_struct *task, struct pf_member *m, __u32 old_pid)
{
	/*
	 * A thread that executes takes over the id of its process. Its old id is free then, and may soon be
	 * that of a task outside the launch.
	 */
	if (old_pid != (__u32)task->pid)
		bpf_map_delete_elem(&launch_threads, &old_pid);
	list_thread(task, m);
	if (m->role == PF_ROLE_STARTING) {
		m->role = PF_ROLE_TREE;
		launch_of(m)->uid = bpf_get_current_uid_gid();
	}
}

/* The launch that the exiting task was the last of; NULL if it was not. */
static __always_inline struct pf_launch *tree_exit(struct task_struct *task, struct pf_member *m)
{
	struct pf_launch *launch = launch_of(m);
	__u32 id = task->pid;

	if (!is_tree(m->role))
		return NULL;
	bpf_map_delete_elem(&launch_threads, &id);
	return __sync_fetch_and_add(&launch->tasks, -1) == 1 ? launch : NULL;
}

#endif
