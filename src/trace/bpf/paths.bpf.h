/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Which paths a launch looks up.
 *
 * A look-up reads directories and inode tables, and nothing of that is seen when the kernel still has
 * the names in its dentry cache: as they are when another program runs, or when the app was started
 * before. So the paths themselves are recorded, found or not, and user space works out the blocks.
 *
 * They are taken when the system call returns: by then the kernel has read the string, so that it is
 * in memory for sure, and neither directory nor root have changed, but for chdir(2), of which the new
 * directory is recorded instead. What a table says of each call's arguments comes from user space,
 * which knows the numbers. Each path is reported once for the directory that it starts from and the
 * mount that this was reached through: a directory may have other mounts in it in another namespace.
 */
#ifndef PARALFETCH_PATHS_BPF_H
#define PARALFETCH_PATHS_BPF_H

#include "syscall_args.bpf.h"
#include "namespaces.bpf.h"

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

/* Hashes of the paths that were reported. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1 << 16);
	__type(key, __u64);
	__type(value, __u8);
} seen_paths SEC(".maps");

/* Room to put a path together: larger than a program's stack. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct pf_path);
} path_scratch SEC(".maps");

/* Paths that are longer than PF_PATH_MAX, or that were not in memory any more. */
__u64 lost_paths = 0;

static __always_inline void name_inode(struct pf_inode *out, struct inode *inode)
{
	out->ino = BPF_CORE_READ(inode, i_ino);
	out->dev = BPF_CORE_READ(inode, i_sb, s_dev);
	out->generation = BPF_CORE_READ(inode, i_generation);
}

/* The same for a directory that the task itself leads to: such pointers can be followed by plain loads. */
static __always_inline void name_directory(struct pf_inode *out, struct dentry *dir)
{
	struct inode *inode = dir->d_inode;

	out->ino = inode->i_ino;
	out->dev = inode->i_sb->s_dev;
	out->generation = inode->i_generation;
}

static __always_inline struct file *file_of_fd(struct task_struct *task, __s32 fd)
{
	struct fdtable *table = BPF_CORE_READ(task, files, fdt);
	struct file **files = BPF_CORE_READ(table, fd);
	struct file *file = NULL;

	if (fd < 0 || (__u32)fd >= BPF_CORE_READ(table, max_fds))
		return NULL;
	bpf_probe_read_kernel(&file, sizeof(file), files + fd);
	return file;
}

/* Mixes so many 8-byte words into the hash. */
static __always_inline __u64 mix(__u64 hash, const __u64 *words, __u32 count, __u32 most)
{
	__u32 i;

	for (i = 0; i < most && i < count; i++) {
		hash = (hash ^ words[i]) * 0x9e3779b97f4a7c15ULL;
		hash ^= hash >> 29;
	}
	return hash;
}

/* Reports the path in `p` unless it has been; `p->length` counts its bytes without the zero. */
static __always_inline void report_path(struct pf_path *p)
{
	__u32 length = p->length, words = (length + 7) / 8, size;
	__u64 *text = (__u64 *)p->path;
	__u64 wakeup = BPF_RB_NO_WAKEUP;
	__u64 hash;
	__u8 one = 1;

	if (length >= PF_PATH_MAX)
		return;
	/* What an earlier path left in the last word is no part of this one. */
	if (length & 7)
		text[(length / 8) & (PF_PATH_MAX / 8 - 1)] &= ~0ULL >> (64 - 8 * (length & 7));
	hash = mix(p->use | (__u64)p->nofollow << 8, (__u64 *)&p->from, 5, 5);
	hash = mix(hash, text, words, PF_PATH_MAX / 8);
	if (bpf_map_update_elem(&seen_paths, &hash, &one, BPF_NOEXIST) == -EEXIST)
		return;
	p->pid = 0;
	if (p->mount_ns != own_mount_ns) {
		p->pid = own_number_of(bpf_get_current_task_btf());
		/* Its mounts can only be seen while it has a process, and that may be gone soon. */
		if (is_first_of_mount_ns(p->mount_ns))
			wakeup = BPF_RB_FORCE_WAKEUP;
	}
	p->time_ns = bpf_ktime_get_ns();
	size = __builtin_offsetof(struct pf_path, path) + length;
	if (size > sizeof(*p))
		return;
	if (bpf_ringbuf_output(&events, p, size, wakeup))
		__sync_fetch_and_add(&lost_events, 1);
}

/* The scratch area, with all that does not depend on the path filled in. */
static __always_inline struct pf_path *begin_path(struct task_struct *task, __u8 use)
{
	__u32 zero = 0;
	struct pf_path *p = bpf_map_lookup_elem(&path_scratch, &zero);

	if (!p)
		return NULL;
	p->kind = PF_PATH;
	p->use = use;
	p->nofollow = 0;
	p->pad = 0;
	p->length = 0;
	name_directory(&p->root, task->fs->root.dentry);
	name_directory(&p->from, task->fs->pwd.dentry);
	p->root_mount = mount_number(BPF_CORE_READ(task, fs, root.mnt));
	p->from_mount = mount_number(BPF_CORE_READ(task, fs, pwd.mnt));
	p->mount_ns = task->nsproxy->mnt_ns->ns.inum;
	return p;
}

static __always_inline void start_at_root(struct pf_path *p)
{
	p->from = p->root;
	p->from_mount = p->root_mount;
}

static __always_inline void start_at_file(struct pf_path *p, struct file *file)
{
	name_inode(&p->from, BPF_CORE_READ(file, f_inode));
	p->from_mount = mount_number(BPF_CORE_READ(file, f_path.mnt));
}

/* A path in user memory, relative to `dirfd`. */
static __always_inline void user_path(struct task_struct *task, __u64 address, __s32 dirfd,
				      bool nofollow, __u64 most)
{
	struct pf_path *p = begin_path(task, PF_LOOK_UP);
	struct file *from;
	long length;

	if (!p || !address)
		return;
	length = bpf_probe_read_user_str(p->path, sizeof(p->path), (void *)address);
	if (length < 0 || length >= PF_PATH_MAX) {
		__sync_fetch_and_add(&lost_paths, 1);
		return;
	}
	length -= 1;
	if (length > most)
		length = most;
	/* An empty path means the descriptor itself, and nothing is looked up. */
	if (length <= 0)
		return;
	p->length = length;
	p->nofollow = nofollow;
	if (p->path[0] == '/') {
		start_at_root(p);
	} else if (dirfd != AT_FDCWD) {
		from = file_of_fd(task, dirfd);
		if (!from)
			return;
		start_at_file(p, from);
	}
	report_path(p);
}

/* A path that the kernel has: of a program that was executed. */
static __always_inline void kernel_path(struct task_struct *task, const char *path)
{
	struct pf_path *p = begin_path(task, PF_EXECUTED);
	long length;

	if (!p)
		return;
	length = bpf_probe_read_kernel_str(p->path, sizeof(p->path), path);
	if (length < 0 || length >= PF_PATH_MAX) {
		__sync_fetch_and_add(&lost_paths, 1);
		return;
	}
	length -= 1;
	if (length <= 0)
		return;
	p->length = length;
	if (p->path[0] == '/')
		start_at_root(p);
	report_path(p);
}

/* The directory `p->from` itself, listed or entered. */
static __always_inline void whole_directory(struct task_struct *task, struct file *dir, __u8 use)
{
	struct pf_path *p = begin_path(task, use);

	if (!p)
		return;
	if (dir)
		start_at_file(p, dir);
	report_path(p);
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
static __always_inline void socket_path(struct task_struct *task, __u64 address, __u64 size)
{
	__u16 family = 0;

	if (size <= sizeof(family) ||
	    bpf_probe_read_user(&family, sizeof(family), (void *)address) || family != AF_UNIX)
		return;
	/* Its path need not end in a zero; an abstract name begins with one, and is then empty. */
	user_path(task, address + sizeof(family), AT_FDCWD, false, size - sizeof(family));
}

/* How the system call takes paths; NULL for most, which take none. */
static __always_inline struct pf_syscall *call_with_paths(struct pt_regs *regs)
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
static __always_inline void paths_of_syscall(struct pf_syscall *call, struct pt_regs *regs, long result)
{
	struct task_struct *task = bpf_get_current_task_btf();
	bool nofollow;

	if (syscall_is_compat(task))
		return;
	switch (call->rule) {
	case PF_LIST:
		whole_directory(task, file_of_fd(task, syscall_arg(regs, 1)), PF_LISTED);
		return;
	case PF_SOCKET:
		socket_path(task, syscall_arg(regs, 2), syscall_arg(regs, 3));
		return;
	case PF_CHANGE:
		if (!result) {
			whole_directory(task, NULL, PF_ENTERED);
			return;
		}
		break;
	}
	nofollow = is_nofollow(call, regs);
	user_path(task, syscall_arg(regs, call->path),
		  call->dirfd ? (__s32)syscall_arg(regs, call->dirfd) : AT_FDCWD, nofollow,
		  PF_PATH_MAX);
	if (call->path_2)
		user_path(task, syscall_arg(regs, call->path_2),
			  call->dirfd_2 ? (__s32)syscall_arg(regs, call->dirfd_2) : AT_FDCWD, true,
			  PF_PATH_MAX);
}

/* A program was executed: by its path, and through the interpreter of a script. */
static __always_inline void paths_of_exec(struct task_struct *task, struct linux_binprm *bprm)
{
	const char *filename = BPF_CORE_READ(bprm, filename);
	const char *interp = BPF_CORE_READ(bprm, interp);

	kernel_path(task, filename);
	if (interp != filename)
		kernel_path(task, interp);
}

#endif
