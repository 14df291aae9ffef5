/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Launches, from their execve to their last task.
 *
 * Every program that is executed passes these programs. For one that nobody watches for they cost two
 * tests of a bit, by the ends of its path and of its file's own name, which a link need not have, and no
 * wake-up. Launches of the others are reported at once:
 * when execve is called (the earliest point, before the program's own path has been read from the drive),
 * and again when it has succeeded.
 *
 * A launch begins with the task that executes the app. A program that a task of the tree executes is part
 * of the launch, whatever its name: wrappers are one launch with what they execute. A login alone is different: an app
 * that one of its tasks executes is a launch of its own. User space ends a launch.
 */
#ifndef PARALFETCH_LAUNCH_H
#define PARALFETCH_LAUNCH_H

#include "kernel.h"
#include "intf.h"
#include "tree.h"
#include "recorders.h"
#include "memory.h"
#include "namespaces.h"
#include "users.h"
#include "log.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

/* Whether executions of watched programs begin launches; set before the programs are loaded. */
const volatile bool detects_launches = false;

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	/* Room for an event with all of its path and arguments of each launch that has a slot. */
	__uint(max_entries, 1 << 20);
} launch_events SEC(".maps");

/* The names that are watched: enum pf_watch. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct pf_name);
	__type(value, __u8);
} names SEC(".maps");

/* Arguments of launchers that stand for an app: enum pf_watch. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct pf_argument);
	__type(value, __u8);
} arguments SEC(".maps");

/*
 * What running processes are, each at its process id modulo PF_PROGRAMS. Some of the older ones are
 * overwritten, which costs a report; an LRU map costs each execve a microsecond.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PF_PROGRAMS);
	__type(key, __u32);
	__type(value, struct pf_program);
} programs SEC(".maps");

struct scratch {
	struct pf_launch_event event;
	char text[PF_EXEC_PATH_MAX + PF_ARGV_MAX];	/* path and arguments, behind the event in its record */
	struct pf_name name;
	struct pf_argument argument;
	struct pf_launch launch;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct scratch);
} scratch_area SEC(".maps");

/*
 * Report processes that are in no launch and read at least so many bytes before they exited; 0 switches
 * the reports off.
 */
volatile __u64 large_bytes = 0;
/* Our own program, whose children begin no launch, with its device as a kernel dev_t; an inode number of 0: they do. */
volatile __u64 own_program_ino = 0;
volatile __u32 own_program_dev = 0;
/* A bit for the end of each watched name (see may_be_watched). */
volatile __u64 name_filter[PF_NAME_FILTER_WORDS] = {};
/* Events that found no room in the ring buffer, and launches for which there was no slot. */
__u64 lost_launch_events = 0;
__u64 lost_launches = 0;

static __always_inline struct scratch *get_scratch(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&scratch_area, &zero);
}

/* Whether a watched name may end in these four bytes, the last one lowest. */
static __always_inline bool may_end_watched(__u32 ending)
{
	__u32 bit = ending * PF_NAME_FILTER_FACTOR >> 16;

	return name_filter[bit / 64 % PF_NAME_FILTER_WORDS] >> bit % 64 & 1;
}

/*
 * Whether the last component of the path, of so many bytes with its final zero, may be a watched
 * name. Most are not, and this costs them less than to find the component and look up its name: the path's
 * last four bytes, without what is before the last slash, select one bit in 65,536.
 */
static __always_inline bool may_be_watched(struct scratch *s, long size)
{
	const unsigned char *end;
	__u32 ending;

	/* The last four bytes of a shorter path need not have a slash among them. */
	if (size < 5)
		return true;
	end = (const unsigned char *)s->text + ((size - 5) & (PF_EXEC_PATH_MAX - 1));
	ending = end[3];
	if (end[2] == '/')
		ending |= (__u32)'/' << 8;
	else if (end[1] == '/')
		ending |= (__u32)end[2] << 8 | (__u32)'/' << 16;
	else
		ending |= (__u32)end[2] << 8 | (__u32)end[1] << 16 | (__u32)end[0] << 24;
	return may_end_watched(ending);
}

/* A walk along the path: where its last component begins. */
struct walk {
	struct scratch *s;
	__u32 last;
};

static long pass_byte(__u32 i, void *context)
{
	struct walk *walk = context;
	char c = walk->s->text[i & (PF_EXEC_PATH_MAX - 1)];

	if (c == '/')
		walk->last = i + 1;
	return !c;
}

/* Puts the last component of the path into `name`. */
static __always_inline void take_name(struct scratch *s)
{
	struct walk walk = { .s = s };

	/* A call for each byte: the verifier would follow each way through a loop. */
	bpf_loop(PF_EXEC_PATH_MAX - 1, pass_byte, &walk, 0);
	__builtin_memset(&s->name, 0, sizeof(s->name));
	bpf_probe_read_kernel_str(s->name.text, sizeof(s->name.text),
				  s->text + (walk.last & (PF_EXEC_PATH_MAX - 1)));
}

/* Reads the path that execve was given; false if there is none. */
static __always_inline bool take_path(struct scratch *s, const char *path, bool of_user)
{
	long size = of_user ? bpf_probe_read_user_str(s->text, PF_EXEC_PATH_MAX, path) :
			      bpf_probe_read_kernel_str(s->text, PF_EXEC_PATH_MAX, path);

	s->event.path_bytes = size > 0 ? size : 0;
	return size > 1;
}

/*
 * Puts the arguments of the program that the task has just executed behind the path, and returns how many bytes they
 * are. The kernel has just written them to the new stack: they are in memory, and the program has not run yet. Later it
 * can map them onto a file, or anything else that makes those wait who read /proc/PID/cmdline.
 */
static __always_inline __u64 take_arguments(struct scratch *s, struct task_struct *task)
{
	__u64 at = BPF_CORE_READ(task, mm, arg_start), end = BPF_CORE_READ(task, mm, arg_end);
	__u64 size = end - at, path = s->event.path_bytes;

	if (at >= end || path > PF_EXEC_PATH_MAX)
		return 0;
	if (size > PF_ARGV_MAX)
		size = PF_ARGV_MAX;
	if (bpf_probe_read_user(s->text + path, size, (void *)at))
		return 0;
	return size;
}

static __always_inline void report_launch(struct scratch *s, struct task_struct *task, __u32 kind,
					  __u64 launch)
{
	struct inode *root = BPF_CORE_READ(task, fs, root.dentry, d_inode);
	__u64 size = sizeof(s->event) + s->event.path_bytes;

	s->event.time_ns = bpf_ktime_get_ns();
	s->event.launch = launch;
	s->event.kind = kind;
	s->event.pid = task->tgid;
	s->event.uid = user_of(task);
	s->event.root_ino = BPF_CORE_READ(root, i_ino);
	s->event.root_dev = dev_of_file(root);
	s->event.mount_ns = BPF_CORE_READ(task, nsproxy, mnt_ns, ns.inum);
	if (kind == PF_LAUNCH_EXECUTED)
		size += take_arguments(s, task);
	if (size > sizeof(s->event) + sizeof(s->text) ||
	    bpf_ringbuf_output(&launch_events, s, size, BPF_RB_FORCE_WAKEUP))
		__sync_fetch_and_add(&lost_launch_events, 1);
}

/*
 * Begins a launch with this task, which has that role, and records it if that is wanted (enum pf_watch) and a recorder is
 * ready. NULL if there is no slot, or no memory to mark the task.
 */
static __always_inline struct pf_member *begin(struct scratch *s, struct task_struct *task, __u32 role,
					       __u8 watch)
{
	struct pf_launch *launch = NULL, *left;
	struct pf_member *m;
	__u64 number = 0;
	int i;

	/* The slot of a number may still serve a longer launch: then take the next number. */
	for (i = 0; i < PF_LAUNCHES; i++) {
		number = __sync_fetch_and_add(&last_launch, 1) + 1;
		launch = &launches[number % PF_LAUNCHES];
		if (!__sync_val_compare_and_swap(&launch->number, 0, number))
			break;
		launch = NULL;
	}
	if (!launch)
		goto lost;
	m = bpf_task_storage_get(&members, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!m) {
		launch->number = 0;
		goto lost;
	}
	__builtin_memset(&s->launch, 0, sizeof(s->launch));
	s->launch.number = number;
	s->launch.start_ns = bpf_ktime_get_ns();
	s->launch.tasks = 1;
	s->launch.uid = bpf_get_current_uid_gid();
	*launch = s->launch;
	__sync_fetch_and_add(&live_launches, 1);
	/* A login's task leaves it, and so does one of a launch that is over. */
	left = find_launch(m->launch);
	if (left && is_tree(m->role))
		__sync_fetch_and_add(&left->tasks, -1);
	m->launch = number;
	m->role = role;
	m->execve_calls = 0;
	m->waiting_since_ns = 0;
	list_thread(task, m);
	if (watch & PF_WATCH_RECORD)
		claim_recorder(launch);
	return m;
lost:
	__sync_fetch_and_add(&lost_launches, 1);
	return NULL;
}

/*
 * What is done about the program of the name in `name` (enum pf_watch) when the current task's user executes it: by the
 * user's own entry, or by that of every user.
 */
static __always_inline __u8 watch_for(struct scratch *s, struct task_struct *task)
{
	__u8 *watch;

	s->name.uid = user_of(task);
	watch = bpf_map_lookup_elem(&names, &s->name);
	if (!watch) {
		s->name.uid = PF_EVERY_USER;
		watch = bpf_map_lookup_elem(&names, &s->name);
	}
	return watch ? *watch : 0;
}

/* The same for the program with the path in `text`. */
static __always_inline __u8 watch_of_name(struct scratch *s, struct task_struct *task)
{
	take_name(s);
	return watch_for(s, task);
}

/* Whether a process that executes our own program has started the task, and is still there. */
static __always_inline bool is_of_own_command(struct task_struct *task)
{
	struct inode *program;

	if (!own_program_ino)
		return false;
	program = BPF_CORE_READ(task, real_parent, mm, exe_file, f_inode);
	return program && BPF_CORE_READ(program, i_ino) == own_program_ino && dev_of_file(program) == own_program_dev;
}

/* execve was called with the path in `text`. */
static __always_inline void execve_called(struct scratch *s)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u8 watch = watch_of_name(s, task);
	struct pf_member *m;

	if (!(watch & PF_WATCH_APP))
		return;
	m = member_of(task);
	if (m && !is_of_session(m)) {
		/* Either execvp(3) tries the next entry of PATH, or a launch under way executes a program. */
		if (m->execve_calls && m->execve_calls < PF_EXECVE_CALLS) {
			m->execve_calls++;
			if (may_report(task))
				report_launch(s, task, PF_LAUNCH_CALLED, m->launch);
		}
		return;
	}
	if (is_of_own_command(task))
		return;
	m = may_report(task) ? begin(s, task, PF_ROLE_STARTING, watch) : NULL;
	if (!m)
		return;
	m->execve_calls = 1;
	report_launch(s, task, PF_LAUNCH_CALLED, m->launch);
}

struct enter_args {
	__u64 common;
	__s64 number;
	__u64 args[6];
};

static __always_inline int look_at_call(__u64 path)
{
	struct scratch *s = get_scratch();

	if (s && take_path(s, (const char *)path, true) && may_be_watched(s, s->event.path_bytes))
		execve_called(s);
	return 0;
}

SEC("?tp/syscalls/sys_enter_execve")
int execve_entered(struct enter_args *ctx)
{
	return look_at_call(ctx->args[0]);
}

SEC("?tp/syscalls/sys_enter_execveat")
int execveat_entered(struct enter_args *ctx)
{
	return look_at_call(ctx->args[1]);
}

/* A way through the arguments of a program, piece by piece. */
struct argument_walk {
	struct scratch *s;
	__u64 at;
	__u64 end;
	__u32 uid;
	bool is_within;	/* the piece before was not the end of its argument */
	__u8 watch;
};

static long look_at_argument(__u32 i, struct argument_walk *walk)
{
	struct pf_argument *argument = &walk->s->argument;
	__u8 *watch = NULL;
	long size;

	if (walk->at >= walk->end)
		return 1;
	__builtin_memset(argument, 0, sizeof(*argument));
	size = bpf_probe_read_user_str(argument->text, sizeof(argument->text), (void *)walk->at);
	if (size <= 0)
		return 1;
	/* What was cut off looks as if it ended there. */
	if (size == sizeof(argument->text)) {
		walk->at += size - 1;
		walk->is_within = true;
		return 0;
	}
	walk->at += size;
	if (walk->is_within) {
		walk->is_within = false;
		return 0;
	}
	argument->uid = walk->uid;
	watch = bpf_map_lookup_elem(&arguments, argument);
	if (!watch) {
		argument->uid = PF_EVERY_USER;
		watch = bpf_map_lookup_elem(&arguments, argument);
	}
	if (!watch)
		return 0;
	walk->watch = *watch;
	return 1;
}

/* What is done about the first argument of the program just executed that stands for an app; 0: none does. */
static __always_inline __u8 watch_of_arguments(struct scratch *s, struct task_struct *task)
{
	struct argument_walk walk = {
		.s = s,
		.at = BPF_CORE_READ(task, mm, arg_start),
		.end = BPF_CORE_READ(task, mm, arg_end),
		.uid = user_of(task),
	};

	bpf_loop(PF_ARGUMENT_PIECES, look_at_argument, &walk, 0);
	return walk.watch;
}

/* Whether a text begins with a literal. There is no memcmp to call. */
static __always_inline bool begins_with(const char *text, const char *literal, __u32 length)
{
	char differs = 0;
	__u32 i;

#pragma unroll
	for (i = 0; i < length; i++)
		differs |= text[i] ^ literal[i];
	return !differs;
}

#define BEGINS_WITH(text, literal) begins_with(text, literal, sizeof(literal) - 1)

/* Digits of the largest descriptor that is looked for. */
#define DESCRIPTOR_DIGITS 7

/*
 * The descriptor that the path leads through, as /dev/fd/3 does, and where the path goes on behind it; -1: it leads through
 * none. The kernel calls so what execveat is given with a descriptor, and so does a shell.
 */
static __always_inline int descriptor_of(const char *text, __u32 *behind)
{
	int fd = 0;
	__u32 i, at;

	if (BEGINS_WITH(text, "/dev/fd/"))
		at = sizeof("/dev/fd/") - 1;
	else if (BEGINS_WITH(text, "/proc/self/fd/"))
		at = sizeof("/proc/self/fd/") - 1;
	else
		return -1;
	for (i = 0; i < DESCRIPTOR_DIGITS; i++) {
		char c = text[at + i];

		if (c < '0' || c > '9')
			break;
		fd = fd * 10 + (c - '0');
	}
	*behind = at + i;
	return i ? fd : -1;
}

/* Whether the file is a script: the program that was executed is its interpreter. */
static __always_inline bool is_script(struct linux_binprm *bprm)
{
	return bprm->interp != bprm->filename;
}

/*
 * Reads the path of the program that was executed. By a descriptor it is the name of the file alone, or the path from the
 * directory that the descriptor is of, and user space knows the app by the file.
 */
static __always_inline bool take_executed(struct scratch *s, struct task_struct *task, struct linux_binprm *bprm)
{
	const char *path = bprm->filename;
	struct file *file = bprm->file;
	__u32 behind;
	int fd;

	if (!take_path(s, path, false))
		return false;
	fd = descriptor_of(s->text, &behind);
	if (fd < 0)
		return true;
	if (is_script(bprm)) {
		if (s->text[behind & (PF_EXEC_PATH_MAX - 1)] == '/')
			return take_path(s, path + behind + 1, false);
		file = file_of_fd(task, fd);
	}
	return take_path(s, (const char *)BPF_CORE_READ(file, f_path.dentry, d_name.name), false);
}

/*
 * What is done about the file that was executed, by its own name: the path that led to it may be a link of any name. Of a
 * script, only the interpreter's file is known.
 */
static __always_inline __u8 watch_of_file(struct scratch *s, struct task_struct *task, struct linux_binprm *bprm)
{
	struct qstr *own = &bprm->file->f_path.dentry->d_name;
	const unsigned char *name = own->name;
	__u32 ending, length = own->len;
	__u8 watch;

	if (is_script(bprm))
		return 0;
	/* Shorter names are few: they are looked up, and not filtered by their end. */
	if (length >= sizeof(ending) &&
	    !(bpf_probe_read_kernel(&ending, sizeof(ending), name + length - sizeof(ending)) == 0 &&
	      may_end_watched(__builtin_bswap32(ending))))
		return 0;
	__builtin_memset(&s->name, 0, sizeof(s->name));
	bpf_probe_read_kernel_str(s->name.text, sizeof(s->name.text), name);
	watch = watch_for(s, task);
	return watch & PF_WATCH_APP ? watch : 0;
}

/* A program was executed by a task that is in no launch. */
static __always_inline void look_at_program(struct scratch *s, struct task_struct *task,
					    struct linux_binprm *bprm)
{
	struct pf_program *program;
	struct pf_member *m;
	__u8 watch = 0;
	__u32 place;

	if (!take_executed(s, task, bprm))
		return;
	if (may_be_watched(s, s->event.path_bytes)) {
		watch = watch_of_name(s, task);
		if (watch && !(watch & PF_WATCH_APP))
			watch = watch_of_arguments(s, task);
	}
	if (!watch)
		watch = watch_of_file(s, task, bprm);
	if (watch) {
		if (is_of_own_command(task))
			return;
		m = may_report(task) ? begin(s, task, PF_ROLE_TREE, watch) : NULL;
		if (m)
			report_launch(s, task, PF_LAUNCH_EXECUTED, m->launch);
		return;
	}
	if (!large_bytes || s->text[0] != '/')
		return;
	place = (__u32)task->tgid % PF_PROGRAMS;
	program = bpf_map_lookup_elem(&programs, &place);
	if (program) {
		program->pid = task->tgid;
		bpf_probe_read_kernel_str(program->path, sizeof(program->path), s->text);
	}
}

SEC("?tp_btf/sched_process_exec")
int BPF_PROG(program_executed, struct task_struct *task, int old_pid, struct linux_binprm *bprm)
{
	struct pf_member *m = member_of(task);
	struct scratch *s;

	bprm = PLAIN(struct linux_binprm, bprm);
	if (m && is_tree(m->role))
		tree_exec(task, m, old_pid);
	if (m && is_of_session(m))
		m = NULL;
	if (!detects_launches || (m && !m->execve_calls))
		return 0;
	s = get_scratch();
	if (!s)
		return 0;
	if (!m) {
		look_at_program(s, task, bprm);
		return 0;
	}
	if (!take_executed(s, task, bprm))
		return 0;
	m->execve_calls = 0;
	report_launch(s, task, PF_LAUNCH_EXECUTED, m->launch);
	return 0;
}

SEC("?tp_btf/sched_process_fork")
int BPF_PROG(task_forked, struct task_struct *parent, struct task_struct *child)
{
	tree_fork(parent, child);
	return 0;
}

/* Reports the exiting process if it has read much. */
static __always_inline void report_large_reader(struct task_struct *task)
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
	take_path(s, program->path, false);
	s->event.value = bytes;
	report_launch(s, task, PF_LARGE_READER, 0);
	program->pid = 0;
}

SEC("?tp_btf/sched_process_exit")
int BPF_PROG(task_exited)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct pf_member *m = noted_member_of(task);
	struct pf_launch *launch;
	struct scratch *s;

	if (detects_launches && (!m || launch_of(m)->is_over || is_of_session(m)))
		report_large_reader(task);
	if (!m)
		return 0;
	launch = tree_exit(task, m);
	if (!launch)
		return 0;
	if (launch->recorder)
		wake_reader(launch->recorder - 1, PF_EXIT);
	s = get_scratch();
	if (!s)
		return 0;
	s->event.path_bytes = 0;
	report_launch(s, task, PF_LAUNCH_ENDED, m->launch);
	return 0;
}

#endif
