/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What the programs that see launches and user space agree on; Rust gets the types from BTF. */
#ifndef PARALFETCH_WATCH_H
#define PARALFETCH_WATCH_H

/* Bytes of the last component of a path that are compared, its final zero included. */
#define PF_NAME_MAX 64
/* Bytes of a path in an event, its final zero included. */
#define PF_EXEC_PATH_MAX 256
/* Bytes of an argument that is compared, its final zero included. */
#define PF_ARGUMENT_MAX 128
/* Arguments that are compared. */
#define PF_ARGUMENTS 12
/* Launches that can be told apart at a time. */
#define PF_LAUNCHES 64
/* Calls of execve that are told of until one succeeds: places of PATH that are tried. */
#define PF_CALLS 64
/* Running processes that are known by path, at most; a power of two. */
#define PF_PROGRAMS 1024
/* Words of 64 bits that say how watched names end, and what spreads these ends over their bits. */
#define PF_TAIL_WORDS 1024
#define PF_TAIL_FACTOR 2654435761u

/* The last component of a path, filled up with zeros. */
struct pf_name {
	char text[PF_NAME_MAX];
};

/* An argument of a launcher, filled up with zeros. */
struct pf_argument {
	char text[PF_ARGUMENT_MAX];
};

/* Why a name is watched. */
enum pf_name_kind {
	PF_NAME_APP = 1,	/* programs of this name are apps */
	PF_NAME_LAUNCHER = 2,	/* an argument tells which app it is */
};

enum pf_watch_kind {
	PF_WATCH_ENTERED = 1,	/* execve was called; it may fail yet */
	PF_WATCH_EXECUTED = 2,	/* a program was executed */
	PF_WATCH_ENDED = 3,	/* the last task of a launch exited */
	PF_WATCH_LARGE = 4,	/* a process exited that had read much; `value` is how much, in bytes */
};

struct pf_watch_event {
	unsigned long long time_ns;	/* CLOCK_MONOTONIC */
	unsigned long long launch;	/* number of the launch; 0 for PF_WATCH_LARGE */
	unsigned long long value;
	unsigned long long root_ino;	/* root directory of the process */
	unsigned int root_dev;		/* kernel dev_t */
	unsigned int mount_ns;		/* number of its mount namespace */
	unsigned int pid;		/* process (thread group) */
	unsigned int kind;		/* enum pf_watch_kind */
	char path[PF_EXEC_PATH_MAX];	/* as execve was given it */
};

/* What was counted of a launch. Times are CLOCK_MONOTONIC. */
struct pf_counts {
	unsigned long long launch;	/* whose slot it is; 0 if it is free */
	unsigned long long start_ns;	/* execve */
	unsigned long long tasks;	/* alive */
	unsigned long long switches;	/* context switches into a wait for the drive */
	unsigned long long waiting_ns;	/* time in such waits, summed up over tasks */
	unsigned long long requests;	/* read requests of the launch tree */
	unsigned long long bytes;	/* and their size */
	unsigned long long last_ns;	/* the last of them, or of those of the prefetch thread */
	unsigned long long prefetch_requests;
	unsigned long long prefetch_bytes;
	unsigned long long first_prefetch_ns;
	unsigned long long completed_ns;	/* the completion page was used */
	unsigned long long completed_requests;	/* `requests` at that time */
	unsigned long long completion_ino;
	unsigned long long completion_page;	/* in pages of the kernel's size */
	unsigned int completion_dev;		/* kernel dev_t; 0 if there is none */
	unsigned int pad;
};

/* A task of a launch tree, in its task-local storage. */
struct pf_member {
	unsigned long long launch;
	unsigned long long waiting_since_ns;
	unsigned int called;		/* calls of execve so far, as long as none has succeeded */
	unsigned int pad;
};

/* What a process was when it was executed. */
struct pf_program {
	unsigned int pid;	/* process (thread group); 0: none */
	char path[PF_ARGUMENT_MAX];
};

/* So that the object's BTF names the types that only events use. */
struct pf_watch_types {
	struct pf_watch_event event;
	struct pf_counts counts;
	struct pf_member member;
	enum pf_watch_kind kind;
	enum pf_name_kind name_kind;
};

#endif
