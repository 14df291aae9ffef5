/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Reading kernel objects of which only the address is known.
 */
#ifndef PARALFETCH_MEMORY_H
#define PARALFETCH_MEMORY_H

#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

/* Bytes in a page of the running kernel, set before the programs are loaded. */
const volatile __u32 page_bytes = 4096;

/* Since 6.2. */
extern void *bpf_rdonly_cast(const void *object, __u32 type) __ksym __weak;

/*
 * A field of the object of that type at an address. Where the kernel has bpf_rdonly_cast, this is a load
 * (one that fails reads as 0); older kernels take a helper's call for each.
 */
#define LOOK(type, address, field)                                                                     \
	({                                                                                             \
		const void *_at = (const void *)(address);                                             \
		typeof(((type *)0)->field) _value;                                                     \
                                                                                                       \
		if (bpf_ksym_exists(bpf_rdonly_cast)) {                                                \
			type *_object = bpf_rdonly_cast(_at, bpf_core_type_id_kernel(type));           \
			_value = _object->field;                                                       \
		} else {                                                                               \
			_value = BPF_CORE_READ((type *)_at, field);                                    \
		}                                                                                      \
		_value;                                                                                \
	})

/*
 * An object whose pointers are to be loaded, as one that the verifier does not trust. At each such load from one that it
 * trusts, it searches the names of all the kernel's types four times (btf_nested_type_is_trusted, 6.4 to 6.18): that took
 * half of the time in which the programs load. Kernels before 6.2 get the object as it is.
 */
#define PLAIN(type, object)                                                                            \
	(bpf_ksym_exists(bpf_rdonly_cast) ?                                                            \
		 (type *)bpf_rdonly_cast(object, bpf_core_type_id_kernel(type)) :                      \
		 (object))

/*
 * The 8 bytes at an address. They are read as the first field of a type that every kernel has, and whose
 * first field is a number: the verifier does not let programs compute with a field that is a pointer.
 */
static __always_inline __u64 word_at(__u64 address)
{
	return (__u64)LOOK(struct timespec64, address, tv_sec);
}

/*
 * The kernel dev_t that a file of btrfs has to user space (st_dev): its subvolume's. A file and its copy in a snapshot
 * have one inode number and one super block. 0 for metadata, and for all if this kernel has no types of btrfs.
 */
static __always_inline __u32 dev_of_btrfs(struct inode *inode)
{
	__u64 of_btrfs = (__u64)inode;

	if (!bpf_core_type_exists(struct btrfs_inode))
		return 0;
	of_btrfs -= bpf_core_field_offset(struct btrfs_inode, vfs_inode);
	return BPF_CORE_READ((struct btrfs_inode *)of_btrfs, root, anon_dev);
}

/* The same for a file of any file system. */
static __always_inline __u32 dev_of_file(struct inode *inode)
{
	struct super_block *sb = LOOK(struct inode, inode, i_sb);

	if (LOOK(struct super_block, sb, s_magic) == BTRFS_MAGIC)
		return dev_of_btrfs(inode);
	return LOOK(struct super_block, sb, s_dev);
}

/* The same where both can be followed by plain loads. */
static __always_inline __u32 dev_of_inode(struct inode *inode, struct super_block *sb)
{
	return sb->s_magic == BTRFS_MAGIC ? dev_of_btrfs(inode) : sb->s_dev;
}

/* The file that is open as this descriptor of the task; NULL if none is. It may only be read through helpers. */
static __always_inline struct file *file_of_fd(struct task_struct *task, __s32 fd)
{
	struct fdtable *table = PLAIN(struct task_struct, task)->files->fdt;

	if (fd < 0 || (__u32)fd >= table->max_fds)
		return NULL;
	return (struct file *)word_at((__u64)table->fd + fd * sizeof(struct file *));
}

#endif
