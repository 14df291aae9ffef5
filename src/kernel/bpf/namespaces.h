/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Which mount a directory was reached through, and the process through which user space can open the mount
 * namespace of a path.
 */
#ifndef PARALFETCH_NAMESPACES_H
#define PARALFETCH_NAMESPACES_H

#include "kernel.h"
#include "memory.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

/* Numbers of user space's own namespaces, set before the programs are loaded. */
const volatile __u32 own_mount_ns = 0;
const volatile __u32 own_pid_ns = 0;

/* Levels of pid namespaces that the kernel allows below the first (MAX_PID_NS_LEVEL). */
#define PID_NS_LEVELS 32

/* A mount namespace that a launch has used. */
struct used_mount_ns {
	__u64 launch;
	__u32 number;
	__u32 pad;
};

/* Mount namespaces other than ours that paths have been reported from. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 256);
	__type(key, struct used_mount_ns);
	__type(value, __u8);
} used_mount_ns SEC(".maps");

/* The number that /proc/PID/mountinfo gives the mount. */
static __always_inline __u32 mount_number(struct vfsmount *mnt)
{
	__u64 mount = (__u64)mnt - bpf_core_field_offset(struct mount, mnt);

	return LOOK(struct mount, mount, mnt_id);
}

/* The process's number in user space's pid namespace, or 0: each pid namespace has numbers of its own. */
static __always_inline __u32 own_number_of(struct task_struct *task)
{
	struct pid *pid = BPF_CORE_READ(task, group_leader, thread_pid);
	__u64 numbers = (__u64)pid + bpf_core_field_offset(struct pid, numbers);
	__u32 level = BPF_CORE_READ(pid, level);
	struct upid *number;
	__u32 i;

	for (i = 0; i <= PID_NS_LEVELS && i <= level; i++) {
		number = (struct upid *)(numbers + i * bpf_core_type_size(struct upid));
		if (BPF_CORE_READ(number, ns, ns.inum) == own_pid_ns)
			return BPF_CORE_READ(number, nr);
	}
	return 0;
}

/* Whether it is the first time that the launch uses this mount namespace; notes that it has. */
static __always_inline bool is_first_of_mount_ns(__u64 launch, __u32 mount_ns)
{
	struct used_mount_ns key = { .launch = launch, .number = mount_ns };
	__u8 one = 1;

	return !bpf_map_update_elem(&used_mount_ns, &key, &one, BPF_NOEXIST);
}

#endif
