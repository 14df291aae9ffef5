/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Which paths a launch looks up.
 *
 * A look-up reads directories and inode tables, and nothing of that is seen when the kernel still has
 * the names in its dentry cache: as they are when another program runs, or when the app was started
 * before. So the paths themselves are recorded, found or not, and user space works out the blocks.
 *
 * They are taken when the system call returns. The kernel has read the string by then, so it is in
 * memory. Directory and root are those that the call used, but for chdir(2), of which the new directory
 * is recorded instead. User space, which knows the numbers of system calls, fills the table of their
 * arguments. Each path is reported once for the directory that it starts from and the mount that this
 * was reached through: in another namespace, a directory may have other mounts in it.
 */
#ifndef PARALFETCH_PATHS_H
#define PARALFETCH_PATHS_H

#include "kernel.h"
#include "intf.h"
#include "file_reads.h"
#include "hash.h"
#include "log.h"
#include "memory.h"
#include "namespaces.h"
#include "recorders.h"
#include "seen_paths.h"
#include "syscall_args.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

#define AT_FDCWD -100
#define AT_SYMLINK_NOFOLLOW 0x100
#define AT_SYMLINK_FOLLOW 0x400
#define AF_UNIX 1

/* What open(2)'s flag is called here, set before the programs are loaded. */
const volatile __u32 o_nofollow = 0400000;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 512);
	__type(key, __u32);
	__type(value, struct pf_syscall);
} syscalls SEC(".maps");

/* Room to put a path together: larger than a program's stack. */
struct path_scratch {
	/*
	 * What the path is identified by, beside its text. The key is in memory because programs may store
	 * a pointer, and not compute with it.
	 */
	__u64 key[6];
	__u32 recorder;
	bool absolute;
	struct pf_path path;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct path_scratch);
} path_scratch SEC(".maps");

static __always_inline void name_inode(struct pf_inode *out, struct inode *inode)
{
	out->ino = LOOK(struct inode, inode, i_ino);
	out->dev = dev_of_file(inode);
	out->generation = LOOK(struct inode, inode, i_generation);
}

/* The same for a directory that is reached from the task: such pointers can be followed by plain loads. */
static __always_inline void name_directory(struct pf_inode *out, struct dentry *dir)
{
	struct inode *inode = dir->d_inode;

	out->ino = inode->i_ino;
	out->dev = dev_of_inode(inode, inode->i_sb);
	out->generation = inode->i_generation;
}

/*
 * Whether another path may be recorded of the launch. If not, counts it as lost. Programs that look for an icon in every
 * size of every theme look up more paths than are recorded; their pages are recorded all the same.
 */
static __always_inline bool has_room_for_path(__u32 recorder)
{
	struct pf_recorder *r = recorder_at(recorder);

	if (!(r->flags & PF_RECORD_BOUNDED) || r->path_bytes <= PF_MOST_PATH_BYTES)
		return true;
	__sync_fetch_and_add(&r->lost_paths, 1);
	return false;
}

static __always_inline struct path_scratch *begin_path(__u32 recorder, __u8 use)
{
	__u32 zero = 0;
	struct path_scratch *s = bpf_map_lookup_elem(&path_scratch, &zero);

	if (!s || !has_room_for_path(recorder))
		return NULL;
	s->recorder = recorder;
	s->absolute = false;
	s->path.kind = PF_PATH;
	s->path.use = use;
	s->path.nofollow = 0;
	s->path.length = 0;
	return s;
}

static __always_inline void start_here(struct path_scratch *s, struct task_struct *task)
{
	struct fs_struct *fs = PLAIN(struct task_struct, task)->fs;

	name_directory(&s->path.from, fs->pwd.dentry);
	s->path.from_mount = mount_number(fs->pwd.mnt);
}

static __always_inline void start_at_file(struct path_scratch *s, struct file *file)
{
	name_inode(&s->path.from, LOOK(struct file, file, f_inode));
	s->path.from_mount = mount_number(LOOK(struct file, file, f_path.mnt));
}

/*
 * The path's hash. Most paths are absolute, and half of them were reported before: to look up the inode of
 * their root would cost more than all else, so two pointers stand for it. No other root gets the same ones
 * before every task has left this one.
 */
static __always_inline __u64 hash_of_path(struct path_scratch *s, struct task_struct *task)
{
	struct fs_struct *fs = PLAIN(struct task_struct, task)->fs;
	struct pf_path *p = &s->path;
	__u32 words = (p->length + 7) / 8;
	__u64 *key = s->key, hash;

	key[0] = p->use | p->nofollow << 8 | s->absolute << 16;
	key[1] = (__u64)fs->root.dentry;
	key[2] = (__u64)fs->root.mnt;
	key[3] = s->absolute ? 0 : p->from.ino;
	key[4] = s->absolute ? 0 : (__u64)p->from.dev << 32 | p->from.generation;
	key[5] = s->absolute ? 0 : p->from_mount;
	/* Without it, the compiler would compute with the pointers that it has just stored. */
	barrier();
	hash = mix(0, key, 6, 6);
	hash = mix(hash, (__u64 *)p->path, words, PF_PATH_MAX / 8);
	return hash ? hash : 1;
}

/* Reports the path unless it has been; `length` counts its bytes without the zero. */
static __always_inline void report_path(struct path_scratch *s, struct task_struct *task)
{
	struct task_struct *plain = PLAIN(struct task_struct, task);
	struct pf_path *p = &s->path;
	__u64 *text = (__u64 *)p->path;
	__u32 length = p->length;
	__u64 size, wakeup;
	void *log;

	if (length >= PF_PATH_MAX || is_full(s->recorder))
		return;
	/* Clear what an earlier path has left in the last word. */
	if (length & 7)
		text[(length / 8) & (PF_PATH_MAX / 8 - 1)] &= ~0ULL >> (64 - 8 * (length & 7));
	if (!is_new_path(s->recorder, hash_of_path(s, task)))
		return;
	name_directory(&p->root, plain->fs->root.dentry);
	p->root_mount = mount_number(plain->fs->root.mnt);
	if (s->absolute) {
		p->from = p->root;
		p->from_mount = p->root_mount;
	}
	p->mount_ns = plain->nsproxy->mnt_ns->ns.inum;
	p->pid = 0;
	if (p->mount_ns != own_mount_ns) {
		p->pid = own_number_of(task);
		/* Its mounts can only be read while it has a process, and that may exit soon. */
		if (is_first_of_mount_ns(recorder_at(s->recorder)->launch, p->mount_ns))
			wake_reader(s->recorder, PF_MOUNT_NS);
	}
	p->time_ns = bpf_ktime_get_ns();
	size = __builtin_offsetof(struct pf_path, path) + length;
	if (size > sizeof(*p))
		return;
	__sync_fetch_and_add(&recorder_at(s->recorder)->path_bytes, size);
	if (!has_room_for_path(s->recorder))
		return;
	log = log_of(s->recorder);
	if (!log)
		return;
	wakeup = wakeup_of(log);
	/* Again, and next to its use: the verifier of Linux 6.1 forgets the bound of what was on the stack meanwhile. */
	barrier_var(size);
	if (size > sizeof(*p))
		return;
	if (bpf_ringbuf_output(log, p, size, wakeup))
		__sync_fetch_and_add(&recorder_at(s->recorder)->lost_events, 1);
}

/* Notes how long the path is that was copied, `copied` counting its final zero. False if it is empty. */
static __always_inline bool set_length(struct path_scratch *s, long copied, __u64 most)
{
	if (copied < 0 || copied >= PF_PATH_MAX) {
		__sync_fetch_and_add(&recorder_at(s->recorder)->lost_paths, 1);
		return false;
	}
	if (copied <= 1 || !most)
		return false;
	s->path.length = copied - 1 < most ? copied - 1 : most;
	s->absolute = s->path.path[0] == '/';
	return true;
}

/* A path in user memory, relative to `dirfd`. */
static __always_inline void user_path(__u32 recorder, struct task_struct *task, __u64 address,
				      __s32 dirfd, bool nofollow, __u64 most)
{
	struct path_scratch *s = begin_path(recorder, PF_LOOK_UP);
	struct file *from;

	if (!s || !address)
		return;
	/* An empty path means the descriptor itself, and nothing is looked up. */
	if (!set_length(s, bpf_probe_read_user_str(s->path.path, sizeof(s->path.path), (void *)address),
			most))
		return;
	s->path.nofollow = nofollow;
	if (!s->absolute && dirfd == AT_FDCWD) {
		start_here(s, task);
	} else if (!s->absolute) {
		from = file_of_fd(task, dirfd);
		if (!from)
			return;
		start_at_file(s, from);
	}
	report_path(s, task);
}

/* A path in the kernel's memory: of a program that was executed. */
static __always_inline void kernel_path(__u32 recorder, struct task_struct *task, const char *path)
{
	struct path_scratch *s = begin_path(recorder, PF_EXECUTED);

	if (!s || !set_length(s, bpf_probe_read_kernel_str(s->path.path, sizeof(s->path.path), path),
			      PF_PATH_MAX))
		return;
	if (!s->absolute)
		start_here(s, task);
	report_path(s, task);
}

/* A directory itself, listed or entered: that of the file, or where the task is now. */
static __always_inline void whole_directory(__u32 recorder, struct task_struct *task,
					    struct file *dir, __u8 use)
{
	struct path_scratch *s = begin_path(recorder, use);

	if (!s)
		return;
	if (dir)
		start_at_file(s, dir);
	else
		start_here(s, task);
	report_path(s, task);
}

static __always_inline bool is_nofollow(const struct pf_syscall *call, struct pt_regs *regs)
{
	__u64 flags = syscall_arg(regs, call->flags);

	switch (call->rule) {
	case PF_NOFOLLOW:
		return true;
	case PF_AT_FLAGS:
		return flags & AT_SYMLINK_NOFOLLOW;
	case PF_LINK_FLAGS:
		return !(flags & AT_SYMLINK_FOLLOW);
	case PF_OPEN_HOW:
		/* struct open_how begins with the flags of open(2). */
		if (bpf_probe_read_user(&flags, sizeof(flags), (void *)flags))
			return false;
		return flags & o_nofollow;
	case PF_OPEN_FLAGS:
		return flags & o_nofollow;
	}
	return false;
}

/* connect(2) and bind(2) look up the paths of Unix sockets. */
static __always_inline void socket_path(__u32 recorder, struct task_struct *task, __u64 address,
					__u64 size)
{
	__u16 family = 0;

	if (size <= sizeof(family) ||
	    bpf_probe_read_user(&family, sizeof(family), (void *)address) || family != AF_UNIX)
		return;
	/* Its path need not end in a zero; an abstract name begins with one, and is then empty. */
	user_path(recorder, task, address + sizeof(family), AT_FDCWD, false, size - sizeof(family));
}

/* How the system call takes paths, or reads a file; NULL for most, which do neither. */
static __always_inline struct pf_syscall *call_of_interest(struct pt_regs *regs)
{
	__s64 number = syscall_number(regs);
	__u32 key = number;
	struct pf_syscall *call;

	if (number < 0)
		return NULL;
	call = bpf_map_lookup_elem(&syscalls, &key);
	return call && call->rule ? call : NULL;
}

/* A system call of the launch tree has returned. */
static __always_inline void paths_of_syscall(__u32 recorder, struct pf_syscall *call,
					     struct pt_regs *regs, long result)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct file *listed;
	bool nofollow;

	if (syscall_is_compat(task))
		return;
	switch (call->rule) {
	case PF_LIST:
		listed = file_of_fd(task, syscall_arg(regs, 1));
		if (listed)
			whole_directory(recorder, task, listed, PF_LISTED);
		return;
	case PF_SOCKET:
		socket_path(recorder, task, syscall_arg(regs, 2), syscall_arg(regs, 3));
		return;
	case PF_CHANGE:
		if (!result) {
			whole_directory(recorder, task, NULL, PF_ENTERED);
			return;
		}
		break;
	}
	nofollow = is_nofollow(call, regs);
	user_path(recorder, task, syscall_arg(regs, call->path),
		  call->dirfd ? (__s32)syscall_arg(regs, call->dirfd) : AT_FDCWD, nofollow,
		  PF_PATH_MAX);
	if (call->path_2)
		user_path(recorder, task, syscall_arg(regs, call->path_2),
			  call->dirfd_2 ? (__s32)syscall_arg(regs, call->dirfd_2) : AT_FDCWD, true,
			  PF_PATH_MAX);
}

SEC("?tp_btf/sys_exit")
int BPF_PROG(syscall_done, struct pt_regs *regs, long result)
{
	struct pf_syscall *call;
	__u32 recorder;

	if (!recorders_on())
		return 0;
	/* This program runs for each call of each task: most are told apart by their number. */
	call = call_of_interest(regs);
	recorder = call ? recorder_of_task() : 0;
	if (!recorder)
		return 0;
	if (is_file_read(call))
		file_was_read(recorder - 1, call, regs, result);
	else
		paths_of_syscall(recorder - 1, call, regs, result);
	return 0;
}

/* Runs after the program that has made the task one of the tree (launch.h). */
SEC("?tp_btf/sched_process_exec")
int BPF_PROG(exec_paths, struct task_struct *task, int old_pid, struct linux_binprm *bprm)
{
	__u32 recorder = recorder_of_task();
	const char *filename, *interp;

	if (!recorder)
		return 0;
	filename = BPF_CORE_READ(bprm, filename);
	kernel_path(recorder - 1, task, filename);
	/* The interpreter of a script. */
	interp = BPF_CORE_READ(bprm, interp);
	if (interp != filename)
		kernel_path(recorder - 1, task, interp);
	return 0;
}

#endif
