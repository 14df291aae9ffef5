/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What the programs of waits.bpf.c and user space share. Rust gets the same structs from the skeleton.
 * Nothing but integers and arrays of them, in an order that leaves no gaps.
 */
#ifndef PARALFETCH_WAITS_H
#define PARALFETCH_WAITS_H

#include "kernel.h"

enum pf_wait_sizes {
	/* Frames of a stack that are kept. The innermost three are of BPF and of the scheduler itself. */
	PF_WAIT_FRAMES = 28,
	/* Bytes of a thread's name with its end. */
	PF_WAIT_NAME = 16,
	/* Bytes of the ring buffer. */
	PF_WAIT_RING = 1 << 20,
	/* Files whose last writer is kept, those written last: for the writeback of others nobody is named. */
	PF_WAIT_WRITERS = 32768,
	/* Requests under way that are kept. */
	PF_WAIT_REQUESTS = 4096,
	/* Drives, and journals. */
	PF_WAIT_DRIVES = 256,
	/* Processors whose last writer is remembered, so that it is not looked up for each page. */
	PF_WAIT_PROCESSORS = 512,
};

/* A task by which user space names it. All zeros: nobody. */
struct pf_wait_task {
	__u32 pid;
	__u32 tid;
	__u32 uid;
	/* PF_KTHREAD is set for threads of the kernel. */
	__u32 flags;
	char name[PF_WAIT_NAME];
};

/* An inode, or the page of one. dev 0: none. For metadata it is the block device's own: ino equals its number. */
struct pf_wait_inode {
	/* Of the file system; for metadata, of the device. */
	__u32 dev;
	__u32 is_metadata;
	__u64 ino;
	/* In pages of the kernel's size. */
	__u64 index;
	/* Address of the mapping, and of the drive. */
	__u64 mapping;
	__u64 disk;
};

/* A request. dev 0: none. Times are of CLOCK_MONOTONIC in nanoseconds; 0: not yet. */
struct pf_wait_request {
	__u32 dev;
	/* Whose: the thread that inserted it. */
	__u32 tid;
	/* From the beginning of the device dev. */
	__u64 sector;
	__u64 inserted_ns;
	__u64 issued_ns;
	__u64 completed_ns;
	/* The first page's, and how much it is, if it is of a file. */
	__u64 mapping;
	__u64 index;
	/* The file's number; 0 for metadata and direct I/O. */
	__u64 ino;
	__u64 disk;
	__u32 bytes;
	__u32 is_write;
};

/* One wait, with all evidence of what it was for. User space picks what agrees with the stack. */
struct pf_wait {
	__u64 start_ns;
	__u64 duration_ns;
	__u64 stack[PF_WAIT_FRAMES];
	struct pf_wait_task task;
	/* The page whose writeback the task last began to wait for. */
	struct pf_wait_inode page;
	/* The file that the system call or the journal handle is about. */
	struct pf_wait_inode operation;
	/* The last bio that the task submitted: where, and to which drive. */
	struct pf_wait_inode bio;
	/* Who held the lock that the task last began to wait for. */
	struct pf_wait_task lock_holder;
	/* Who wrote to the file of `page`. */
	struct pf_wait_task page_writer;
	/* Whose writes the drive was busy with. */
	struct pf_wait_task drive_writer;
	/* Who stopped the last handle of the transaction that was locked meanwhile. */
	struct pf_wait_task handle_holder;
	/* The task's own request that was completed last, or is under way. */
	struct pf_wait_request request;
	/* Bytes of the stack that are filled. */
	__u32 stack_bytes;
	/* The kernel counts it as a wait for I/O (delay accounting). */
	__u32 is_iowait;
};

#endif
