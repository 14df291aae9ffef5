/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The recorders: which launches are recorded, and the tables of each.
 *
 * With its log, a recorder takes 12 MiB of kernel memory. So its tables are maps of their own, which user
 * space makes when a launch is to be recorded, and maps of maps lead to them; a recorder that is off has
 * none.
 */
#ifndef PARALFETCH_RECORDERS_H
#define PARALFETCH_RECORDERS_H

#include "kernel.h"
#include "intf.h"
#include "tree.h"
#include "log.h"
#include <bpf/bpf_helpers.h>

struct pf_recorder recorders[PF_RECORDERS] = {};

/* Index of the last recorder that user space has switched on, plus 1; 0: none is. */
volatile __u32 recording = 0;
/* Index plus 1 of the recorder that waits, with its tables, for a launch that is to be recorded; 0: none does. */
volatile __u32 ready_recorder = 0;
/* Index plus 1 of the last recorder that a launch has claimed since, until user space counts it in `recording`. */
volatile __u32 claimed_recorder = 0;

/* A table of one element for each recorder. */
#define RECORDER_TABLE(table, content)                                                                 \
	struct table##_table {                                                                         \
		__uint(type, BPF_MAP_TYPE_ARRAY);                                                      \
		__uint(max_entries, 1);                                                                \
		__uint(key_size, sizeof(__u32));                                                       \
		__uint(value_size, sizeof(content));                                                   \
	};                                                                                             \
	struct {                                                                                       \
		__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);                                              \
		__uint(max_entries, PF_RECORDERS);                                                     \
		__type(key, __u32);                                                                    \
		__array(values, struct table##_table);                                                 \
	} table SEC(".maps")

/* The recorder's element of that table; NULL if the recorder is off. */
static __always_inline void *recorder_table(void *table, __u32 recorder)
{
	void *own = bpf_map_lookup_elem(table, &recorder);
	__u32 zero = 0;

	return own ? bpf_map_lookup_elem(own, &zero) : NULL;
}

static __always_inline struct pf_recorder *recorder_at(__u32 recorder)
{
	return &recorders[recorder & (PF_RECORDERS - 1)];
}

/* Index of the last recorder that is on, plus 1; 0: nothing is recorded. */
static __always_inline __u32 recorders_on(void)
{
	__u32 on = recording, claimed = claimed_recorder;

	return on > claimed ? on : claimed;
}

/*
 * Switches the recorder that waits on for this launch, so that its first page is seen and nobody has to wait for user
 * space.
 */
static __always_inline void claim_recorder(struct pf_launch *launch)
{
	__u32 ready = ready_recorder;

	if (!ready || __sync_val_compare_and_swap(&ready_recorder, ready, 0) != ready)
		return;
	/* A full barrier: set_recording() in user space sees it, or is seen by what follows. */
	__sync_lock_test_and_set(&recorder_at(ready - 1)->launch, launch->number);
	launch->recorder = ready;
	if (claimed_recorder < ready)
		claimed_recorder = ready;
}

static __always_inline bool is_full(__u32 recorder)
{
	return recorder_at(recorder)->flags & PF_RECORD_FULL;
}

/*
 * Counts a page event that is about to be recorded. False if there are too many: user space is woken once, to give the
 * recording up, and nothing is recorded any more.
 */
static __always_inline bool has_room(__u32 recorder, __u64 *count)
{
	struct pf_recorder *r = recorder_at(recorder);

	if (__sync_fetch_and_add(count, 1) < PF_MOST_EVENTS || !(r->flags & PF_RECORD_BOUNDED))
		return true;
	if (!(r->flags & PF_RECORD_FULL)) {
		r->flags |= PF_RECORD_FULL;
		wake_reader(recorder, PF_FULL);
	}
	return false;
}

/*
 * Index plus 1 of the recorder whose launch has the current task's cgroup to itself; 0: there is none. A
 * global function: the verifier looks at it once.
 */
__noinline __u32 recorder_of_cgroup(void)
{
	struct pf_launch *launch;
	__u32 i;

	for (i = 0; i < PF_RECORDERS; i++) {
		if (!recorders[i].cgroup || recorders[i].cgroup != bpf_get_current_cgroup_id())
			continue;
		launch = find_launch(recorders[i].launch);
		if (launch && launch->start_ns)
			return i + 1;
	}
	return 0;
}

/*
 * Index plus 1 of the recorder for paths and metadata blocks that the current task uses: those of tasks
 * that run the app, and not of the copy of another program that is about to execute it. 0: there is none.
 */
static __always_inline __u32 recorder_of_task(void)
{
	struct pf_launch *launch;
	struct pf_member *m;

	if (!recorders_on())
		return 0;
	m = member_of(bpf_get_current_task_btf());
	if (!m)
		return recorder_of_cgroup();
	launch = launch_of(m);
	return m->role == PF_ROLE_TREE && launch->start_ns ? launch->recorder : 0;
}

#endif
