/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The few kernel types that our programs look into, and of those only the fields used. Offsets are
 * fixed up against the running kernel's BTF at load time (CO-RE), so order and padding do not matter
 * here. A name with three underscores is another form of the same struct, for another kernel age.
 */
#ifndef PARALFETCH_KERNEL_H
#define PARALFETCH_KERNEL_H

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef signed char __s8;
typedef short __s16;
typedef int __s32;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef _Bool bool;

enum {
	false = 0,
	true = 1,
};

enum bpf_map_type {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_ARRAY_OF_MAPS = 12,
	BPF_MAP_TYPE_RINGBUF = 27,
	BPF_MAP_TYPE_TASK_STORAGE = 29,
};

enum {
	BPF_ANY = 0,
	BPF_NOEXIST = 1,
	BPF_F_NO_PREALLOC = 1,
	BPF_F_MMAPABLE = 1 << 10,
	BPF_LOCAL_STORAGE_GET_F_CREATE = 1,
	BPF_RB_NO_WAKEUP = 1,
	BPF_RB_FORCE_WAKEUP = 2,
	BPF_RB_AVAIL_DATA = 0,
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

#if defined(__TARGET_ARCH_x86)
struct pt_regs {
	unsigned long orig_ax, di, si, dx, r10, r8;
};
#elif defined(__TARGET_ARCH_arm64)
struct pt_regs {
	__u64 regs[31];
	__u64 orig_x0;
	__s32 syscallno;
};
#elif defined(__TARGET_ARCH_riscv)
struct pt_regs {
	unsigned long a1, a2, a3, a4, a7, orig_a0;
};
#endif

struct thread_info {
	unsigned long flags;
	__u32 status;
};

struct mm_struct {
	unsigned long arg_start;
	unsigned long arg_end;
	struct file *exe_file;
};

struct task_io_accounting {
	__u64 read_bytes;
};

typedef struct {
	int counter;
} atomic_t;

struct signal_struct {
	atomic_t live;
	struct task_io_accounting ioac;
};

struct ns_common {
	unsigned int inum;
};

struct pid_namespace {
	struct ns_common ns;
};

struct upid {
	int nr;
	struct pid_namespace *ns;
};

struct pid {
	unsigned int level;
	struct upid numbers[1];
};

typedef struct {
	__u32 val;
} kuid_t;

struct user_namespace {
	struct user_namespace *parent;
	int level;
	kuid_t owner;
};

struct cred {
	kuid_t uid;
	struct user_namespace *user_ns;
};

struct completion;

struct task_struct {
	struct thread_info thread_info;
	unsigned int flags;
	int pid;
	int tgid;
	unsigned int in_iowait : 1;
	struct mm_struct *mm;
	struct signal_struct *signal;
	struct completion *vfork_done;
	struct task_io_accounting ioac;
	struct task_struct *group_leader;
	__u64 start_time;
	struct pid *thread_pid;
	struct fs_struct *fs;
	struct files_struct *files;
	struct nsproxy *nsproxy;
	const struct cred *cred;
	char comm[16];
	struct task_struct *real_parent;
};

struct super_block {
	__u32 s_dev;
	struct block_device *s_bdev;
	unsigned long s_magic;
};

struct inode {
	struct super_block *i_sb;
	unsigned long i_ino;
	__u32 i_rdev;
	__s64 i_size;
	__u32 i_generation;
};

/* A subvolume; the number of a device that its files have to user space. */
struct btrfs_root {
	__u32 anon_dev;
};

struct btrfs_inode {
	struct btrfs_root *root;
	struct inode vfs_inode;
};

struct xarray {
	void *xa_head;
};

struct timespec64 {
	__s64 tv_sec;
};

struct xa_node {
	unsigned char shift;
	void *slots[64];
};

struct address_space {
	struct inode *host;
	struct xarray i_pages;
};

struct qstr {
	union {
		struct {
			__u32 hash;
			__u32 len;	/* bytes of the name, without the final zero */
		};
		__u64 hash_len;
	};
	const unsigned char *name;
};

struct dentry {
	struct inode *d_inode;
	struct qstr d_name;
};

struct vfsmount {
	int mnt_flags;
};

struct mount {
	struct vfsmount mnt;
	int mnt_id;
};

struct path {
	struct vfsmount *mnt;
	struct dentry *dentry;
};

struct fs_struct {
	struct path root;
	struct path pwd;
};

struct file {
	struct path f_path;
	long long f_pos;
	struct inode *f_inode;
	struct address_space *f_mapping;
};

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
};

struct files_struct {
	struct fdtable *fdt;
};

struct mnt_namespace {
	struct ns_common ns;
};

struct nsproxy {
	struct mnt_namespace *mnt_ns;
	struct pid_namespace *pid_ns_for_children;
};

struct linux_binprm {
	struct file *file;
	const char *filename;
	const char *interp;
};

struct folio {
	struct address_space *mapping;
	unsigned long index;
};

/* 6.18 and later: the flags word is wrapped in a struct. */
struct folio___memdesc {
	struct {
		unsigned long f;
	} flags;
};

struct folio___flags {
	unsigned long flags;
};

/* Up to 6.5: the order of a large folio has a field of its own. */
struct folio___order {
	unsigned char _folio_order;
};

/* 6.6 and later: it is the low byte of the second page's flags. */
struct folio___flags_1 {
	unsigned long _flags_1;
};

struct bvec_iter {
	__u64 bi_sector;
	unsigned int bi_size;
	unsigned int bi_idx;
	unsigned int bi_bvec_done;
};

struct block_device {
	__u64 bd_start_sect;
	__u32 bd_dev;
	struct gendisk *bd_disk;
};

struct buffer_head {
	__u64 b_blocknr;
	__u64 b_size;
	struct block_device *b_bdev;
};

struct page {
	unsigned long flags;
	unsigned long compound_head;
};

struct bio_vec {
	struct page *bv_page;
	unsigned int bv_len;
	unsigned int bv_offset;
};

struct bio {
	struct block_device *bi_bdev;
	unsigned int bi_opf;
	struct bvec_iter bi_iter;
	struct bio_vec *bi_io_vec;
};

struct request {
	unsigned int cmd_flags;
	unsigned int __data_len;
	__u64 __sector;
	struct block_device *part;
	struct bio *bio;
};

#pragma clang attribute pop

enum pageflags {
	PG_head = 6,
};

/* The file system of the block devices' inodes: its pages are the buffer cache. */
#define BDEVFS_MAGIC 0x62646576
#define BTRFS_MAGIC 0x9123683e
#define SQUASHFS_MAGIC 0x73717368

#define NULL ((void *)0)
#define EEXIST 17

#endif
