/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Helpers: tasks outside of a launch's tree that may work for it.
 */
#ifndef PARALFETCH_HELPERS_H
#define PARALFETCH_HELPERS_H

#include "kernel.h"
#include "intf.h"
#include "memory.h"
#include "tree.h"
#include <bpf/bpf_helpers.h>

#define PF_KTHREAD 0x00200000

/*
 * What a bus starts for the app, or a browser's zygote forks, is no child of the app, but younger than
 * the launch.
 */
static __always_inline bool is_younger_than(struct pf_launch *launch)
{
	struct task_struct *task = bpf_get_current_task_btf();

	if (task->flags & PF_KTHREAD)
		return false;
	return PLAIN(struct task_struct, task)->group_leader->start_time >= launch->start_ns;
}

/*
 * Uids of people: those below are root's and of system accounts, those between are dynamic ones of services
 * (systemd's UIDS-GIDS).
 */
#define FIRST_PERSON 1000
#define FIRST_DYNAMIC 61184
#define LAST_DYNAMIC 65519

/*
 * Whether the current task may be the app's helper: it is of the app's user or of the system. What another user
 * starts meanwhile must not get into this user's profile.
 */
static __always_inline bool may_help(struct pf_launch *launch)
{
	__u32 uid = bpf_get_current_uid_gid();

	return uid == launch->uid || uid < FIRST_PERSON || (uid >= FIRST_DYNAMIC && uid <= LAST_DYNAMIC);
}

/*
 * The launch that the current task, which is in no tree, may be a helper of. Of several launches under way, nobody can
 * tell which it works for.
 */
static __always_inline struct pf_launch *helped_launch(void)
{
	struct pf_launch *launch;

	if (live_launches - over_launches != 1)
		return NULL;
	launch = find_launch(last_launch);
	if (!launch || launch->is_over || !launch->start_ns)
		return NULL;
	return is_younger_than(launch) && may_help(launch) ? launch : NULL;
}

#endif
