// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Launches, seen in the kernel, and what they cost.
 *
 * Every program that is executed comes by here, so that what is done for those that are nobody's
 * business is one look-up by the last component of the path, and no wake-up. Of the others user space
 * hears at once: when execve is called (the earliest point, before the program's own path has been
 * read from the drive), and again when it has succeeded.
 *
 * A launch is a tree of tasks: it begins with the task that executes the app and grows by fork and
 * clone. A program that a task of it executes is part of it, whatever its name: wrappers are one launch
 * with what they execute. User space ends a launch, or its last task does.
 *
 * Where many launches pass, numbers tell them apart, and slots hold what is counted: a slot belongs to
 * the launch whose number stands in it, so that tasks of an old one count nothing any more.
 */
#include "kernel.h"
#include "watch.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>
#include "requests.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 256 << 10);
} events SEC(".maps");

/* The names that are watched: enum pf_name_kind. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct pf_name);
	__type(value, __u8);
} names SEC(".maps");

/* Arguments of launchers that stand for an app. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct pf_argument);
	__type(value, __u8);
} arguments SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct pf_member);
} members SEC(".maps");

/* Our prefetch threads, by thread id: the launch that each works for. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PF_LAUNCHES);
	__type(key, __u32);
	__type(value, __u64);
} helpers SEC(".maps");

/* What running processes are, each at the remainder of its process id: only those of late, it is no
 * loss to forget one. An LRU map costs each execve a microsecond. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PF_PROGRAMS);
	__type(key, __u32);
	__type(value, struct pf_program);
} programs SEC(".maps");

struct scratch {
	struct pf_watch_event event;
	struct pf_name name;
	struct pf_argument argument;
	struct pf_counts counts;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct scratch);
} scratch_area SEC(".maps");

/* The thread that makes the first requests of all launches, and the launch of the moment; 0: none. It
 * has no time for a system call to enter itself above. */
volatile __u32 first_reader = 0;
volatile __u64 first_reader_launch = 0;
/* Processes that read less, in bytes, until they exit are not told of; 0: none are. */
volatile __u64 large_bytes = 0;
/* What is counted, each launch at the remainder of its number. In memory that user space maps: to write
 * one word of it by a map's update, it would have to write back all others as they were. */
struct pf_counts counts[PF_LAUNCHES] = {};
/* A bit for the end of each watched name (see `may_be_watched`). */
volatile __u64 name_tails[PF_TAIL_WORDS] = {};
/* Number of the launch that began last. */
__u64 last_launch = 0;
/* Slots that are taken: with none, nothing has to be looked up for a fork, an exit or a request. */
volatile __s64 live_launches = 0;
/* Events that found no room in the ring buffer, and launches for which there was no slot. */
__u64 lost_events = 0;
__u64 lost_launches = 0;

struct pf_watch_types _types = {};

static __always_inline struct scratch *get_scratch(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&scratch_area, &zero);
}

/* The slot of a launch that has not ended. */
static __always_inline struct pf_counts *counts_of(__u64 launch)
{
	struct pf_counts *c = &counts[launch % PF_LAUNCHES];

	return launch && c->launch == launch ? c : NULL;
}

static __always_inline struct pf_member *member_of(struct task_struct *task)
{
	return bpf_task_storage_get(&members, task, 0, 0);
}

/* What the task's launch counts, if it belongs to one that has not ended. */
static __always_inline struct pf_counts *task_counts(struct task_struct *task)
{
	struct pf_member *m;

	if (!live_launches)
		return NULL;
	m = member_of(task);
	return m ? counts_of(m->launch) : NULL;
}

/* Whether the last component of `event.path`, of so many bytes with its final zero, may be a watched
 * name. Most are not, and this costs them less than to look for the component and its name: the path's
 * last four bytes, without what is before the last slash, stand for one bit in 65,536. */
static __always_inline bool may_be_watched(struct scratch *s, long size)
{
	const unsigned char *end;
	__u32 tail, bit;

	/* Of a shorter path, no slash need be among them. */
	if (size < 5)
		return true;
	end = (const unsigned char *)s->event.path + ((size - 5) & (PF_EXEC_PATH_MAX - 1));
	tail = end[3];
	if (end[2] == '/')
		tail |= (__u32)'/' << 8;
	else if (end[1] == '/')
		tail |= (__u32)end[2] << 8 | (__u32)'/' << 16;
	else
		tail |= (__u32)end[2] << 8 | (__u32)end[1] << 16 | (__u32)end[0] << 24;
	bit = tail * PF_TAIL_FACTOR >> 16;
	return name_tails[bit / 64 % PF_TAIL_WORDS] >> bit % 64 & 1;
}

/* A walk along `event.path`: where its last component begins. */
struct walk {
	struct scratch *s;
	__u32 last;
};

static long pass_byte(__u32 i, void *context)
{
	struct walk *walk = context;
	char c = walk->s->event.path[i & (PF_EXEC_PATH_MAX - 1)];

	if (c == '/')
		walk->last = i + 1;
	return !c;
}

/* Puts the last component of `event.path` into `name`. */
static __always_inline void take_name(struct scratch *s)
{
	struct walk walk = { .s = s };

	/* A call for each byte: the verifier would follow each way through a loop. */
	bpf_loop(PF_EXEC_PATH_MAX - 1, pass_byte, &walk, 0);
	__builtin_memset(&s->name, 0, sizeof(s->name));
	bpf_probe_read_kernel_str(s->name.text, sizeof(s->name.text),
				  s->event.path + (walk.last & (PF_EXEC_PATH_MAX - 1)));
}

static __always_inline void send(struct scratch *s, struct task_struct *task, __u32 kind,
				 __u64 launch)
{
	struct inode *root = BPF_CORE_READ(task, fs, root.dentry, d_inode);

	s->event.time_ns = bpf_ktime_get_ns();
	s->event.launch = launch;
	s->event.kind = kind;
	s->event.pid = task->tgid;
	s->event.root_ino = BPF_CORE_READ(root, i_ino);
	s->event.root_dev = BPF_CORE_READ(root, i_sb, s_dev);
	s->event.mount_ns = BPF_CORE_READ(task, nsproxy, mnt_ns, ns.inum);
	if (bpf_ringbuf_output(&events, &s->event, sizeof(s->event), BPF_RB_FORCE_WAKEUP))
		__sync_fetch_and_add(&lost_events, 1);
}

/* Begins a launch with this task; 0 if it cannot be. */
static __always_inline __u64 begin(struct scratch *s, struct task_struct *task)
{
	struct pf_member *m;
	struct pf_counts *c = NULL;
	__u64 launch = 0;
	int i;

	/* The slot of a number may still be a longer launch's: then it is the next number's turn. */
	for (i = 0; i < PF_LAUNCHES; i++) {
		launch = __sync_fetch_and_add(&last_launch, 1) + 1;
		c = &counts[launch % PF_LAUNCHES];
		if (!__sync_val_compare_and_swap(&c->launch, 0, launch))
			break;
		c = NULL;
	}
	if (!c)
		goto lost;
	m = bpf_task_storage_get(&members, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!m) {
		c->launch = 0;
		goto lost;
	}
	__builtin_memset(&s->counts, 0, sizeof(s->counts));
	s->counts.launch = launch;
	s->counts.start_ns = bpf_ktime_get_ns();
	s->counts.tasks = 1;
	*c = s->counts;
	__sync_fetch_and_add(&live_launches, 1);
	m->launch = launch;
	m->waiting_since_ns = 0;
	m->called = 0;
	return launch;
lost:
	__sync_fetch_and_add(&lost_launches, 1);
	return 0;
}

/* execve was called with the path in `event.path`. */
static __always_inline void called(struct scratch *s)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct pf_member *m;
	__u64 launch;
	__u8 *kind;

	take_name(s);
	kind = bpf_map_lookup_elem(&names, &s->name);
	if (!kind || *kind != PF_NAME_APP)
		return;
	m = member_of(task);
	if (m && counts_of(m->launch)) {
		/* Another place of PATH is tried; else it is part of a launch under way. */
		if (m->called && m->called < PF_CALLS) {
			m->called++;
			send(s, task, PF_WATCH_ENTERED, m->launch);
		}
		return;
	}
	launch = begin(s, task);
	m = launch ? member_of(task) : NULL;
	if (!m)
		return;
	m->called = 1;
	send(s, task, PF_WATCH_ENTERED, launch);
}

struct enter_args {
	__u64 common;
	__s64 number;
	__u64 args[6];
};

static __always_inline int entered(__u64 path)
{
	struct scratch *s = get_scratch();
	long size;

	if (!s)
		return 0;
	size = bpf_probe_read_user_str(s->event.path, sizeof(s->event.path), (void *)path);
	if (size > 1 && may_be_watched(s, size))
		called(s);
	return 0;
}

SEC("?tp/syscalls/sys_enter_execve")
int execve_entered(struct enter_args *ctx)
{
	return entered(ctx->args[0]);
}

SEC("?tp/syscalls/sys_enter_execveat")
int execveat_entered(struct enter_args *ctx)
{
	return entered(ctx->args[1]);
}

/* Whether one of the arguments of the program just executed stands for an app. */
static __always_inline bool has_argument(struct scratch *s, struct task_struct *task)
{
	__u64 at = BPF_CORE_READ(task, mm, arg_start), end = BPF_CORE_READ(task, mm, arg_end);
	long length;
	int i;

	for (i = 0; i < PF_ARGUMENTS; i++) {
		if (at >= end)
			return false;
		__builtin_memset(&s->argument, 0, sizeof(s->argument));
		length = bpf_probe_read_user_str(s->argument.text, sizeof(s->argument.text), (void *)at);
		if (length <= 0)
			return false;
		if (bpf_map_lookup_elem(&arguments, &s->argument))
			return true;
		at += length;
	}
	return false;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(program_executed, struct task_struct *task, int old_pid, struct linux_binprm *bprm)
{
	struct scratch *s = get_scratch();
	struct pf_member *m = live_launches ? member_of(task) : NULL;
	struct pf_program *program;
	__u32 place;
	__u64 launch;
	__u8 *kind;
	long size;

	if (!s)
		return 0;
	if (m && counts_of(m->launch) && !m->called)
		return 0;
	size = bpf_probe_read_kernel_str(s->event.path, sizeof(s->event.path), bprm->filename);
	if (size <= 0)
		return 0;
	if (m && counts_of(m->launch)) {
		m->called = 0;
		send(s, task, PF_WATCH_EXECUTED, m->launch);
		return 0;
	}
	if (may_be_watched(s, size)) {
		take_name(s);
		kind = bpf_map_lookup_elem(&names, &s->name);
		if (kind && (*kind == PF_NAME_APP || has_argument(s, task))) {
			launch = begin(s, task);
			if (launch)
				send(s, task, PF_WATCH_EXECUTED, launch);
			return 0;
		}
	}
	if (large_bytes && s->event.path[0] == '/') {
		place = (__u32)task->tgid % PF_PROGRAMS;
		program = bpf_map_lookup_elem(&programs, &place);
		if (program) {
			program->pid = task->tgid;
			bpf_probe_read_kernel_str(program->path, sizeof(program->path),
						  s->event.path);
		}
	}
	return 0;
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(task_forked, struct task_struct *parent, struct task_struct *child)
{
	struct pf_counts *c = task_counts(parent);
	struct pf_member *m;

	if (!c)
		return 0;
	m = bpf_task_storage_get(&members, child, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!m) {
		__sync_fetch_and_add(&lost_events, 1);
		return 0;
	}
	m->launch = c->launch;
	__sync_fetch_and_add(&c->tasks, 1);
	return 0;
}

/* A process is gone that had read much. */
static __always_inline void tell_if_large(struct task_struct *task)
{
	struct pf_program *program;
	struct scratch *s;
	__u32 place = (__u32)task->tgid % PF_PROGRAMS;
	__u64 bytes;

	if (!large_bytes || BPF_CORE_READ(task, signal, live.counter))
		return;
	bytes = BPF_CORE_READ(task, ioac.read_bytes) + BPF_CORE_READ(task, signal, ioac.read_bytes);
	if (bytes < large_bytes)
		return;
	program = bpf_map_lookup_elem(&programs, &place);
	s = get_scratch();
	if (!program || program->pid != (__u32)task->tgid || !s)
		return;
	bpf_probe_read_kernel_str(s->event.path, sizeof(program->path), program->path);
	s->event.value = bytes;
	send(s, task, PF_WATCH_LARGE, 0);
	program->pid = 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(task_exited)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct pf_counts *c = task_counts(task);
	struct scratch *s;

	if (!c) {
		tell_if_large(task);
		return 0;
	}
	if (__sync_fetch_and_add(&c->tasks, -1) != 1)
		return 0;
	s = get_scratch();
	if (!s)
		return 0;
	s->event.path[0] = 0;
	send(s, task, PF_WATCH_ENDED, c->launch);
	return 0;
}

/* The launch that the current task reads for, and whether it is one of our prefetch threads. */
static __always_inline struct pf_counts *reader(bool *is_helper)
{
	__u32 tid = (__u32)bpf_get_current_pid_tgid();
	struct pf_counts *c;
	__u64 *launch;

	if (!live_launches)
		return NULL;
	c = task_counts(bpf_get_current_task_btf());
	*is_helper = false;
	if (c)
		return c;
	*is_helper = true;
	if (tid == first_reader)
		return counts_of(first_reader_launch);
	launch = bpf_map_lookup_elem(&helpers, &tid);
	return launch ? counts_of(*launch) : NULL;
}

static __always_inline void count_read(__u64 requests, __u32 bytes)
{
	bool is_helper = false;
	struct pf_counts *c = reader(&is_helper);

	if (!c)
		return;
	c->last_ns = bpf_ktime_get_ns();
	if (is_helper) {
		if (!c->first_prefetch_ns)
			c->first_prefetch_ns = c->last_ns;
		__sync_fetch_and_add(&c->prefetch_requests, requests);
		__sync_fetch_and_add(&c->prefetch_bytes, bytes);
	} else {
		__sync_fetch_and_add(&c->requests, requests);
		__sync_fetch_and_add(&c->bytes, bytes);
	}
}

/* Attached only while a launch is under way, as are those below: they are called all the time. */
SEC("tp_btf/sched_switch")
int BPF_PROG(task_switched, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	struct pf_counts *c = task_counts(prev);
	struct pf_member *m;
	__u64 now;

	if (c && BPF_CORE_READ_BITFIELD(prev, in_iowait)) {
		m = member_of(prev);
		if (m)
			m->waiting_since_ns = bpf_ktime_get_ns();
		__sync_fetch_and_add(&c->switches, 1);
	}
	c = task_counts(next);
	m = c ? member_of(next) : NULL;
	if (m && m->waiting_since_ns) {
		now = bpf_ktime_get_ns();
		if (now > m->waiting_since_ns)
			__sync_fetch_and_add(&c->waiting_ns, now - m->waiting_since_ns);
		m->waiting_since_ns = 0;
	}
	return 0;
}

/* Whether these pages of a file, used by the current task, have the completion page among them. */
static __always_inline void pages_used(struct address_space *mapping, __u64 first, __u64 last)
{
	struct pf_counts *c = task_counts(bpf_get_current_task_btf());
	struct inode *inode;

	if (!c || !c->completion_dev || c->completed_ns || c->completion_page < first ||
	    c->completion_page > last)
		return;
	inode = mapping->host;
	if (inode && inode->i_ino == c->completion_ino && inode->i_sb &&
	    inode->i_sb->s_dev == c->completion_dev) {
		c->completed_requests = c->requests;
		c->completed_ns = bpf_ktime_get_ns();
	}
}

SEC("?tp_btf/mm_filemap_get_pages")
int BPF_PROG(pages_read, struct address_space *mapping, unsigned long index,
	     unsigned long last_index)
{
	pages_used(mapping, index, last_index);
	return 0;
}

SEC("?tp_btf/mm_filemap_fault")
int BPF_PROG(page_faulted, struct address_space *mapping, unsigned long index)
{
	pages_used(mapping, index, index);
	return 0;
}

SEC("?tp_btf/mm_filemap_map_pages")
int BPF_PROG(pages_mapped, struct address_space *mapping, unsigned long start, unsigned long end)
{
	pages_used(mapping, start, end);
	return 0;
}
