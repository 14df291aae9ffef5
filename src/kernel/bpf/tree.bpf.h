/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The launch tree: who belongs to the launch.
 *
 * User space marks one thread, the launcher, before it starts the app. From then on membership
 * spreads by fork and clone and nothing else: a child process of the launcher is the app, a thread
 * of the launcher's own process is a helper (the prefetch thread), and whatever a member creates is
 * a member. Later execs change nothing, so shell wrappers are in the tree by themselves.
 *
 * The app's first process is a copy of ours until its execve. What the kernel reads for that execve
 * belongs to the launch, and so do its own faults on the new program; the page faults of our own last
 * instructions do not.
 *
 * Membership is in task-local storage: it costs no look-up table, follows a task through exec and
 * pid changes, and goes with the task.
 */
#ifndef PARALFETCH_TREE_BPF_H
#define PARALFETCH_TREE_BPF_H

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, __u32);
} roles SEC(".maps");

/* Ids of the tree's threads that are alive, for user space to look at them; not all of very many. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u32);
	__type(value, __u8);
} tree_threads SEC(".maps");

/*
 * CLOCK_MONOTONIC time of the app's execve, written by the child itself through the shared mapping
 * of this section, as its last act before execve: nothing before it is part of the launch.
 */
volatile __u64 active_since_ns = 0;

/* Roles that were given, changed, or ended with their tasks. */
volatile __u64 role_changes = 0;

/* Tasks of the tree that are alive. */
__s64 live_tasks = 0;

/* Tasks that should be in the tree and could not be marked, for want of memory. */
__u64 lost_tasks = 0;

static __always_inline bool is_tree(__u32 role)
{
	return role == PF_ROLE_STARTING || role == PF_ROLE_TREE;
}

static __always_inline __u32 role_of(struct task_struct *task)
{
	__u32 *role = bpf_task_storage_get(&roles, task, 0, 0);

	return role ? *role : PF_ROLE_NONE;
}

static __always_inline __u32 current_role(void)
{
	return role_of(bpf_get_current_task_btf());
}

/* PF_FORKNOEXEC of linux/sched.h: a forked task has it until execve has replaced its memory. */
#define TASK_FORKED_NOT_EXECED 0x40

/*
 * Whether the memory of the current task, which has that role, is still a copy of ours. It is the app's
 * some time before sched_process_exec: the kernel has mapped the program by then, and written zeros to the
 * last page of its data, which the program then never faults on.
 */
static __always_inline bool is_copy_of_ours(__u32 role)
{
	return role == PF_ROLE_STARTING &&
	       bpf_get_current_task_btf()->flags & TASK_FORKED_NOT_EXECED;
}

static __always_inline void note_thread(struct task_struct *task)
{
	__u32 id = task->pid;
	__u8 alive = 1;

	bpf_map_update_elem(&tree_threads, &id, &alive, BPF_ANY);
}

static __always_inline void tree_fork(struct task_struct *parent, struct task_struct *child)
{
	__u32 role = role_of(parent);
	__u32 *slot;

	if (role == PF_ROLE_NONE)
		return;
	if (role == PF_ROLE_LAUNCHER || role == PF_ROLE_HELPER)
		role = parent->tgid == child->tgid ? PF_ROLE_HELPER : PF_ROLE_STARTING;

	slot = bpf_task_storage_get(&roles, child, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!slot) {
		/* What grows from this task would be missing from the tree. */
		if (is_tree(role))
			__sync_fetch_and_add(&lost_tasks, 1);
		return;
	}
	*slot = role;
	__sync_fetch_and_add(&role_changes, 1);
	if (is_tree(role)) {
		__sync_fetch_and_add(&live_tasks, 1);
		note_thread(child);
	}
}

static __always_inline void tree_exec(struct task_struct *task)
{
	__u32 *role = bpf_task_storage_get(&roles, task, 0, 0);

	if (!role || !is_tree(*role))
		return;
	/* A thread that executes takes over the id of its process. */
	note_thread(task);
	if (*role == PF_ROLE_STARTING) {
		*role = PF_ROLE_TREE;
		__sync_fetch_and_add(&role_changes, 1);
	}
}

/* Returns true when the exiting task was the last of the tree. */
static __always_inline bool tree_exit(void)
{
	__u32 id = (__u32)bpf_get_current_pid_tgid();

	if (!is_tree(current_role()))
		return false;
	bpf_map_delete_elem(&tree_threads, &id);
	__sync_fetch_and_add(&role_changes, 1);
	return __sync_fetch_and_add(&live_tasks, -1) == 1;
}

#endif
