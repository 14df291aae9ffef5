/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Reads of files that no tracepoint on cached pages reports.
 *
 * squashfs reads a whole block of a file into the page cache, also where the file ends in it; the pages behind the end are
 * never up to date. A read whose buffer reaches past the end finds one of them last, and takes what is before it without
 * telling mm_filemap_get_pages: most programs read small files so. What was read is known when the system call returns.
 *
 * Calls of helpers are not looked at.
 */
#ifndef PARALFETCH_FILE_READS_H
#define PARALFETCH_FILE_READS_H

#include "kernel.h"
#include "intf.h"
#include "memory.h"
#include "record.h"
#include "recorders.h"
#include "syscall_args.h"
#include <bpf/bpf_helpers.h>

/* Whether the call reads a file. */
static __always_inline bool is_file_read(const struct pf_syscall *call)
{
	return call->rule == PF_READ_ON || call->rule == PF_READ_AT;
}

/* A call of the launch tree has read `bytes` of a file: records their pages, if nothing else does. */
static __always_inline void file_was_read(__u32 recorder, const struct pf_syscall *call, struct pt_regs *regs,
					  long bytes)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct page_use use = { .event = { .kind = PF_READ } };
	struct super_block *sb;
	struct inode *inode;
	struct file *file;
	__s64 start = -1;

	if (bytes <= 0 || syscall_is_compat(task))
		return;
	file = file_of_fd(task, syscall_arg(regs, 1));
	if (!file)
		return;
	inode = LOOK(struct file, file, f_inode);
	sb = LOOK(struct inode, inode, i_sb);
	if (LOOK(struct super_block, sb, s_magic) != SQUASHFS_MAGIC)
		return;
	if (call->rule == PF_READ_AT)
		start = syscall_arg(regs, 4);
	/* The file stands behind what was read by now. */
	if (start < 0)
		start = LOOK(struct file, file, f_pos) - bytes;
	if (start < 0)
		return;
	use.event.dev = LOOK(struct super_block, sb, s_dev);
	use.event.ino = LOOK(struct inode, inode, i_ino);
	use.event.start = (__u64)start / page_bytes;
	use.event.pages = ((__u64)start + bytes - 1) / page_bytes - use.event.start + 1;
	use.by = PF_TREE << (recorder & (PF_RECORDERS - 1)) * BY_BITS;
	record_one(recorder, &use);
}

#endif
