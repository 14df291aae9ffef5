/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What the BPF programs and user space agree on. Rust gets these types from the BTF of the compiled
 * objects, through the generated skeletons; nothing is declared twice.
 */
#ifndef PARALFETCH_INTF_H
#define PARALFETCH_INTF_H

/* What an event in the ring buffer says. */
enum pf_kind {
	PF_ADDED = 1,	/* pages added to the page cache or the buffer cache */
	PF_READ = 2,	/* cached pages that were read */
	PF_WINDOW = 3,	/* faultaround window: its cached pages were mapped, one was touched */
	PF_EXIT = 4,	/* the last task of the launch tree exited; only time_ns is set */
	PF_FAULT = 5,	/* one page that was faulted on; if it was not cached, its addition follows */
};

/* Who did it. */
enum pf_by {
	PF_TREE = 1,	/* a task of the launch tree */
	PF_OTHER = 2,	/* any other task */
	PF_OWN = 3,	/* a thread of the launcher's own process: the prefetch thread */
};

/* One event of the ring buffer. */
struct pf_event {
	unsigned long long time_ns;	/* CLOCK_MONOTONIC */
	unsigned long long ino;		/* inode number; 0 for metadata */
	unsigned long long start;	/* first page, in pages of the kernel's size */
	unsigned int pages;		/* number of pages of the kernel's size */
	unsigned int dev;		/* kernel dev_t: major << 20 | minor */
	unsigned int generation;	/* inode generation; 0 for metadata */
	unsigned char kind;		/* enum pf_kind */
	unsigned char by;		/* enum pf_by */
	unsigned char pad[2];
};

/* The part that a task plays in a launch, kept in its task-local storage. */
enum pf_role {
	PF_ROLE_NONE = 0,
	PF_ROLE_LAUNCHER = 1,	/* the thread that starts the app: its child processes are the tree */
	PF_ROLE_HELPER = 2,	/* a thread of the launcher's own process: the prefetch thread */
	PF_ROLE_STARTING = 3,	/* the app's first process, still running our code before its execve */
	PF_ROLE_TREE = 4,	/* the app and everything that grows from it */
};

/* Read requests and bytes, counted where a request is made for the block layer. */
struct pf_reads {
	unsigned long long requests;
	unsigned long long bytes;
};

/* Each object keeps one of these, so that its BTF names the types that only events use. */
struct pf_types {
	struct pf_event event;
	enum pf_kind kind;
	enum pf_by by;
	enum pf_role role;
};

#endif
