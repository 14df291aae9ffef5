/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What each user may cause: reports of execve, which fill a ring and slots that all users share, and announcements, which
 * wait in one socket. Each user has a token bucket for each of them.
 */
#ifndef PARALFETCH_USERS_H
#define PARALFETCH_USERS_H

#include "kernel.h"
#include "intf.h"
#include "namespaces.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

/* By user, the CLOCK_MONOTONIC time in nanoseconds at which the token bucket is full again. */
struct buckets {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, PF_BOUND_USERS);
	__type(key, __u32);
	__type(value, __u64);
};

struct buckets exec_rates SEC(".maps");
struct buckets announcement_rates SEC(".maps");

/* Executions of watched names past what their user may cause reports of, and the user of the last one. */
__u64 excess_execs = 0;
__u32 excess_user = 0;

/* User namespaces that lie in each other, at most (create_user_ns). */
#define USER_NAMESPACES 33

/*
 * The user whose launch the current task makes: by its real user id, in the initial user namespace. In a user
 * namespace of his own a user may have thousands of ids: there it is the one who has made the outermost of them.
 * Those that root makes are services and containers, where the ids themselves count.
 */
static __noinline __u32 user_of(struct task_struct *task)
{
	struct user_namespace *ns = BPF_CORE_READ(task, cred, user_ns);
	__u32 owner = 0;
	int i, level;

	for (i = 0; i < USER_NAMESPACES; i++) {
		level = BPF_CORE_READ(ns, level);
		if (level <= 1)
			break;
		ns = BPF_CORE_READ(ns, parent);
	}
	if (level == 1)
		owner = BPF_CORE_READ(ns, owner.val);
	return owner ? owner : BPF_CORE_READ(task, cred, uid.val);
}

/*
 * Takes a token of this user, who has so many at once and so many a second, unless none is left. Two processors may take the
 * last one at once; the next one comes later then.
 */
static __always_inline bool take_token(void *buckets, __u32 uid, __u64 burst, __u64 per_second)
{
	__u64 interval_ns = 1000000000ULL / per_second, now = bpf_ktime_get_ns(), *full_at;

	full_at = bpf_map_lookup_elem(buckets, &uid);
	if (!full_at) {
		bpf_map_update_elem(buckets, &uid, &now, BPF_NOEXIST);
		full_at = bpf_map_lookup_elem(buckets, &uid);
	}
	if (!full_at)
		return false;
	if (*full_at < now)
		*full_at = now;
	if (*full_at > now + (burst - 1) * interval_ns)
		return false;
	__sync_fetch_and_add(full_at, interval_ns);
	return true;
}

/* Root is not bounded, except in containers (pid namespaces below user space's own). */
static __always_inline bool is_bound(struct task_struct *task, __u32 uid)
{
	return uid || BPF_CORE_READ(task, nsproxy, pid_ns_for_children, ns.inum) != own_pid_ns;
}

/* Whether the current task may have an execution of a watched name reported. */
static __noinline bool may_report(struct task_struct *task)
{
	__u32 uid = user_of(task);

	if (!is_bound(task, uid) || take_token(&exec_rates, uid, PF_EXEC_BURST, PF_EXECS_PER_SECOND))
		return true;
	__sync_fetch_and_add(&excess_execs, 1);
	excess_user = uid;
	return false;
}

/*
 * The filter of the socket for announcements, which the sender of a datagram runs (unix_dgram_sendmsg): returns how much of it
 * is kept, in bytes. A user's datagrams beyond his bound never take a place that others wait for. Before Linux 6.14, one that
 * waits for a place is asked for again each time that there may be one.
 */
SEC("?socket")
int announcement_sent(void *datagram)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	__u32 uid = user_of(task);

	if (is_bound(task, uid) &&
	    !take_token(&announcement_rates, uid, PF_ANNOUNCEMENT_BURST, PF_ANNOUNCEMENTS_PER_SECOND))
		return 0;
	return PF_ANNOUNCEMENT_MAX;
}

#endif
