/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What the BPF programs and user space agree on. Rust gets these types from the BTF of the compiled
 * objects, through the generated skeletons; nothing is declared twice.
 */
#ifndef PARALFETCH_INTF_H
#define PARALFETCH_INTF_H

/* What an event says. */
enum pf_kind {
	PF_ADDED = 1,	/* pages added to the page cache or the buffer cache */
	PF_READ = 2,	/* cached pages that were read */
	PF_WINDOW = 3,	/* faultaround window: its cached pages were mapped, one was touched */
	PF_EXIT = 4,	/* the last task of the launch tree exited; only time_ns is set */
	PF_FAULT = 5,	/* one page that was faulted on; if it was not cached, its addition follows */
	PF_PATH = 6,	/* a path was looked up; the record is a pf_path */
	PF_HALF = 7,	/* another half of a part of the log is full; only time_ns is set */
	PF_MOUNT_NS = 8,	/* a path came from a mount namespace that is new; only time_ns is set */
};

/* Who did it. */
enum pf_by {
	PF_TREE = 1,	/* a task of the launch tree */
	PF_OTHER = 2,	/* any other task */
	PF_OWN = 3,	/* a thread of the launcher's own process: the prefetch thread */
	PF_NEWCOMER = 4,	/* a task of another process that was started since the launch began */
};

/* One event; a path has a record of its own, which begins as this one does. */
struct pf_event {
	unsigned long long time_ns;	/* CLOCK_MONOTONIC */
	unsigned char kind;		/* enum pf_kind */
	unsigned char by;		/* enum pf_by */
	unsigned char pad[2];
	unsigned int generation;	/* inode generation; 0 for metadata */
	unsigned long long ino;		/* inode number; 0 for metadata */
	unsigned long long start;	/* first page, in pages of the kernel's size */
	unsigned int pages;		/* number of pages of the kernel's size */
	unsigned int dev;		/* kernel dev_t: major << 20 | minor */
};

/* Bytes of the longest path that is recorded, its final zero included. */
#define PF_PATH_MAX 1024

/* What was done with a path. */
enum pf_use {
	PF_LOOK_UP = 1,	/* it was looked up, whether found or not */
	PF_EXECUTED = 2,	/* it was looked up to execute what it names */
	PF_LISTED = 3,	/* the directory `from` was read; there is no path */
	PF_ENTERED = 4,	/* the directory `from` became the working directory; there is no path */
};

/* Names an inode. */
struct pf_inode {
	unsigned long long ino;
	unsigned int dev;		/* kernel dev_t */
	unsigned int generation;
};

/* A path of the launch tree. Begins as pf_event does, as far as `kind` is concerned. */
struct pf_path {
	unsigned long long time_ns;	/* CLOCK_MONOTONIC */
	unsigned char kind;		/* PF_PATH */
	unsigned char use;		/* enum pf_use */
	unsigned char nofollow;		/* a symbolic link in the last place was not followed */
	unsigned char pad;
	unsigned int mount_ns;		/* number of the task's mount namespace */
	struct pf_inode from;		/* directory that the path starts from: the root if absolute */
	struct pf_inode root;		/* root directory of the task */
	unsigned int from_mount;	/* numbers of the mounts that they were reached through */
	unsigned int root_mount;
	unsigned int pid;		/* process, in user space's pid namespace; 0 if not asked for */
	unsigned int pad_2;
	unsigned long long length;	/* bytes of the path */
	char path[PF_PATH_MAX];		/* only so many bytes of it are in the record */
};

/* How a system call takes its paths. */
enum pf_rule {
	PF_NO_PATH = 0,
	PF_FOLLOW = 1,		/* a symbolic link in the last place is followed */
	PF_NOFOLLOW = 2,	/* it is not */
	PF_AT_FLAGS = 3,	/* the flags argument has AT_SYMLINK_NOFOLLOW or not */
	PF_LINK_FLAGS = 4,	/* the flags argument has AT_SYMLINK_FOLLOW or not */
	PF_OPEN_FLAGS = 5,	/* the flags argument has O_NOFOLLOW or not */
	PF_OPEN_HOW = 6,	/* the flags argument points to a struct open_how */
	PF_CHANGE = 7,		/* as PF_FOLLOW, and the working directory changes if it succeeds */
	PF_LIST = 8,		/* reads the directory that is open as the first argument */
	PF_SOCKET = 9,		/* the second argument is a socket address, the third its size */
};

/* Which arguments of a system call are paths; arguments count from 1, 0 is none. */
struct pf_syscall {
	unsigned char rule;		/* enum pf_rule */
	unsigned char path;
	unsigned char dirfd;		/* what `path` is relative to; none: the working directory */
	unsigned char flags;
	unsigned char path_2;		/* a second path, never followed */
	unsigned char dirfd_2;
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

/* The log that events wait in (log.bpf.h); sizes in bytes. */
enum pf_log {
	PF_LOG_BYTES_LOG2 = 23,	/* of all parts, without the room behind each: 8 MiB */
	PF_LOG_BYTES = 1 << PF_LOG_BYTES_LOG2,
	PF_LOG_PARTS = 16,	/* at most */
	PF_LOG_RECORD = 1152,	/* the room behind a part: the largest record is no larger */
};

/*
 * How far a part of the log is written and read, in bytes since it began. A line of the processor's cache:
 * parts have nothing in common.
 */
struct pf_log_ends {
	unsigned long long head;	/* claimed by the programs */
	unsigned long long tail;	/* read by user space */
	unsigned long long pad[6];
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
	struct pf_path path;
	enum pf_use use;
	enum pf_rule rule;
	enum pf_log log;
	struct pf_log_ends log_ends;
};

#endif
