/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What the timeline's BPF programs and its user side agree on; Rust gets it through BTF. */
#ifndef LAB_TIMELINE_H
#define LAB_TIMELINE_H

/* What an event says, and which fields it fills beside time_ns. */
enum tl_kind {
	TL_FORK = 1,	/* pid: a task of the tree came into being; it does not run yet */
	TL_EXEC = 2,	/* pid, was: a task of the tree executes a program */
	TL_IN = 3,	/* pid: a task of the tree got a processor */
	TL_OUT = 4,	/* pid, io_wait: it gave the processor up; with io_wait, to wait for I/O, as
			   the kernel accounts it. place: what it touched last */
	TL_GONE = 5,	/* pid: a task of the tree exited */
	TL_END = 6,	/* the last task of the tree exited */
	TL_ISSUE = 7,	/* pid, by, write, request, sector, bytes, place: the drive got a request */
	TL_DONE = 8,	/* request: the drive completed it */
	TL_ADDED = 9,	/* pid, by, place: pages were added to a cache */
	TL_TOUCHED = 10,	/* pid, by, place: pages were used for the first time */
};

/* On whose behalf. */
enum tl_by {
	TL_BY_TREE = 1,		/* a task of the launch tree */
	TL_BY_HELPER = 2,	/* a thread of the launcher's process: the prefetcher */
	TL_BY_OTHER = 3,
};

/* One event of the ring buffer. A place is dev, ino, generation, start and pages. */
struct tl_event {
	unsigned long long time_ns;	/* CLOCK_MONOTONIC */
	unsigned long long request;	/* the request's address: its name while it is in flight */
	unsigned long long sector;	/* 512-byte sectors from the start of the device */
	unsigned long long ino;		/* inode number; 0 for metadata */
	unsigned long long start;	/* first page of the file or the device */
	unsigned int pages;		/* pages of the kernel's size; 0: no place */
	unsigned int bytes;		/* size of the request */
	unsigned int dev;		/* kernel dev_t of the place */
	unsigned int generation;	/* inode generation; 0 for metadata */
	unsigned int pid;		/* thread id */
	unsigned int was;		/* thread id before: a thread that executes becomes the leader */
	unsigned char kind;		/* enum tl_kind */
	unsigned char by;		/* enum tl_by */
	unsigned char io_wait;		/* 0 or 1 */
	unsigned char write;		/* 0 or 1: anything but a read */
};

/* Makes the object's BTF name the types that only events use. */
struct tl_types {
	struct tl_event event;
	enum tl_kind kind;
	enum tl_by by;
};

#endif
