/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The contract between the BPF programs and user space. Rust gets these types from the BTF of the
 * compiled object, through the generated skeleton, so nothing is declared twice.
 */
#ifndef PARALFETCH_INTF_H
#define PARALFETCH_INTF_H

enum pf_sizes {
	PF_LAUNCHES = 64,	/* launches that can be under way at a time */
	PF_PREFETCH_THREADS = 1024, /* threads that read ahead for them */
	PF_RECORDERS = 8,	/* of these, launches that can be recorded */
	PF_OWN_READS = 512,	/* bios of a launch and its helpers that are noted; a power of two */
	PF_NAME_FILTER_WORDS = 1024,	/* words of 64 bits in `name_filter` */
	PF_EXEC_BURST = 64,	/* reports of execve that one user can cause at once */
	PF_EXECS_PER_SECOND = 32,	/* and for long */
	/* Twice what user space takes of a user, so that it can say who sends too many. */
	PF_ANNOUNCEMENT_BURST = 40,	/* announcements that one user can send at once */
	PF_ANNOUNCEMENTS_PER_SECOND = 10,	/* and for long */
	PF_ANNOUNCEMENT_MAX = 1 << 16,	/* bytes of one; user space takes shorter ones */
	PF_BOUND_USERS = 1024,	/* users who are told apart; the least recent one is forgotten */
	PF_COMPLETION_PAGES = 8,	/* completion pages of a launch */
};

/* ---- the launch tree (tree.h) ---- */

/* The part that a task plays in a launch. */
enum pf_role {
	PF_ROLE_NONE = 0,
	PF_ROLE_LAUNCHER = 1,	/* the thread that starts the app: its child processes are the tree */
	PF_ROLE_PREFETCHER = 2,	/* a thread of the launcher's own process: the prefetch thread */
	PF_ROLE_STARTING = 3,	/* the app's first process, before its execve has succeeded */
	PF_ROLE_TREE = 4,	/* the app and all tasks that descend from it */
};

/* A task of a launch, in its task-local storage. */
struct pf_member {
	unsigned long long launch;	/* number of the launch */
	unsigned int role;		/* enum pf_role */
	unsigned int execve_calls;	/* calls that were reported since the last execve that succeeded */
	unsigned long long waiting_since_ns;	/* 0: the task does not wait for a drive */
};

/* A page of a file. */
struct pf_page {
	unsigned long long ino;
	unsigned long long index;	/* in pages of the kernel's size */
	unsigned int dev;		/* kernel dev_t */
	unsigned int pad;
};

/*
 * The slot of a launch: that of the launch's number modulo PF_LAUNCHES. Times are CLOCK_MONOTONIC in
 * nanoseconds.
 */
struct pf_launch {
	unsigned long long number;	/* of the launch that has the slot; 0: the slot is free */
	unsigned long long start_ns;	/* execve; 0: not called yet, and nothing of the tree counts */
	unsigned long long tasks;	/* of the tree that are alive */
	unsigned int recorder;		/* index of its recorder plus 1; 0: it is not recorded */
	unsigned int completion_pages;	/* how many there are in `completion`; 0: none are known */
	unsigned long long switches;	/* context switches into a wait for a drive */
	unsigned long long waiting_ns;	/* time in such waits, summed over tasks */
	unsigned long long requests;	/* read requests of the tree */
	unsigned long long bytes;	/* their size */
	unsigned long long prefetch_requests;	/* read requests of prefetch threads */
	unsigned long long prefetch_bytes;	/* their size */
	unsigned long long first_prefetch_ns;	/* time of the first one of a prefetch thread */
	unsigned long long completed_ns;	/* when enough of the completion pages had been used */
	unsigned long long completed_requests;	/* `requests` at that time */
	struct pf_page completion[PF_COMPLETION_PAGES];
	unsigned int completion_used;	/* a bit for each of them that was used */
	unsigned int completion_left;	/* how many more have to be used until the launch is complete */
	unsigned long long lost_tasks;	/* that should be in the tree, and could not be marked */
	unsigned int uid;		/* whose launch it is; 0: root's, or not executed yet */
	unsigned int noted_reads;	/* bios of the tree and its helpers that were to be noted (own_reads.h) */
	unsigned int is_over;	/* 1: the tree's own reads are still noted, and nothing else of it counts */
	unsigned int is_session;	/* 1: a login; what its tasks execute may be a launch of its own */
};

/* ---- what a launch reads itself (own_reads.h) ---- */

/* What a launch tree or a helper has the drive read: a bio. */
struct pf_own_read {
	unsigned long long time_ns;	/* CLOCK_MONOTONIC */
	unsigned long long ino;		/* inode number; 0 for metadata */
	unsigned long long start;	/* first page, in pages of the kernel's size */
	unsigned int generation;	/* inode generation */
	unsigned int dev;		/* kernel dev_t */
	unsigned int pages;		/* number of pages of the kernel's size; 0: not known */
	unsigned int by;		/* enum pf_by: PF_TREE or PF_HELPER */
};

/* The first of a launch. */
struct pf_own_reads {
	struct pf_own_read at[PF_OWN_READS];
};

/* ---- launch events (launch.h) ---- */

/* Bytes of the last component of a path, the final zero included: NAME_MAX of the kernel, and one. */
#define PF_NAME_MAX 256
/* Bytes of a path in a launch event, the final zero included: PATH_MAX of the kernel. */
#define PF_EXEC_PATH_MAX 4096
/* Bytes of a program's arguments that are reported. No launcher has its app so far behind. */
#define PF_ARGV_MAX 4096
/* Bytes of an argument that are compared, the final zero included; longer ones stand for no app. */
#define PF_ARGUMENT_MAX 256
/* Pieces of PF_ARGUMENT_MAX bytes in which arguments are gone through: of a class path of 64 KiB, to its end. */
#define PF_ARGUMENT_PIECES 512
/* Bytes of the path of a running process that is kept, the final zero included. */
#define PF_PROGRAM_PATH_MAX 128
/* Calls of execve that are reported until one succeeds: execvp(3) tries one for each entry of PATH. */
#define PF_EXECVE_CALLS 64
/* Running processes whose path is kept, at most; a power of two. */
#define PF_PROGRAMS 1024
/* Spreads the ends of names over the bits of `name_filter`. */
#define PF_NAME_FILTER_FACTOR 2654435761u

/* Stands for each user who has no entry of their own. */
#define PF_EVERY_USER 0xffffffffU

/* The last component of a path, padded with zeros, as this user executes it. */
struct pf_name {
	unsigned int uid;	/* user_of(), or PF_EVERY_USER */
	char text[PF_NAME_MAX];
};

/* An argument of a launcher such as python3, padded with zeros, as this user gives it. */
struct pf_argument {
	unsigned int uid;
	char text[PF_ARGUMENT_MAX];
};

/* What is done about a name or an argument of a launcher. */
enum pf_watch {
	PF_WATCH_APP = 1,	/* programs of this name are apps */
	PF_WATCH_LAUNCHER = 2,	/* an argument says which app is launched */
	PF_WATCH_RECORD = 4,	/* the launch is recorded from its beginning, if a recorder is ready */
};

enum pf_launch_kind {
	PF_LAUNCH_CALLED = 1,	/* execve was called; it may still fail */
	PF_LAUNCH_EXECUTED = 2,	/* a program was executed */
	PF_LAUNCH_ENDED = 3,	/* the last task of the launch exited */
	PF_LARGE_READER = 4,	/* a process exited that had read `value` bytes */
	PF_LAUNCH_COMPLETED = 5,	/* the completion block was read; only `launch` and time_ns are set */
};

/*
 * Behind it is the path as execve was given it, with its final zero; and behind that of PF_LAUNCH_EXECUTED are the
 * program's arguments, each with its final zero, as far as they are known.
 */
struct pf_launch_event {
	unsigned long long time_ns;	/* CLOCK_MONOTONIC */
	unsigned long long launch;	/* number of the launch; 0 for PF_LARGE_READER */
	unsigned long long value;	/* PF_LARGE_READER: bytes */
	unsigned long long root_ino;	/* root directory of the process */
	unsigned int root_dev;		/* kernel dev_t */
	unsigned int mount_ns;		/* number of its mount namespace */
	unsigned int pid;		/* process (thread group) */
	unsigned int kind;		/* enum pf_launch_kind */
	unsigned int uid;		/* user_of() */
	unsigned int path_bytes;	/* of the path behind the event, the final zero included */
};

/* What a process was when it was executed. */
struct pf_program {
	unsigned int pid;	/* process (thread group); 0: none */
	char path[PF_PROGRAM_PATH_MAX];
};

/* ---- recording (record.h, paths.h) ---- */

/* What an event says. */
enum pf_kind {
	PF_ADDED = 1,	/* pages were added to the page cache or the buffer cache */
	PF_READ = 2,	/* cached pages were read */
	PF_FAULT_AROUND = 3,	/* the cached pages of a fault-around window were mapped, one was touched */
	PF_EXIT = 4,	/* the last task of the launch tree exited; only time_ns is set */
	PF_FAULT = 5,	/* a page was faulted on; if it was not cached, its addition follows */
	PF_PATH = 6,	/* a path was looked up; the record is a pf_path */
	PF_MOUNT_NS = 7,	/* a path came from a new mount namespace; only time_ns is set */
	PF_FULL = 8,	/* more was seen than is recorded (PF_RECORD_FULL); only time_ns is set */
};

/* Who did it. */
enum pf_by {
	PF_TREE = 1,	/* a task of the launch tree */
	PF_OTHER = 2,	/* any other task */
	PF_PREFETCHER = 3,	/* a thread of the launcher's own process: the prefetch thread */
	PF_HELPER = 4,	/* a task of the app's user or the system that was started after the launch began */
	PF_DAEMON = 6,	/* a task of an older process of the app's user; with PF_ADDED only */
};

/* One event. The record of a path has the same first fields up to `kind`. */
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

enum pf_record_flags {
	PF_RECORD_TOUCHES = 1,	/* report a page that was added when it is used, too */
	PF_RECORD_BOUNDED = 2,	/* record no more than pf_record_bounds */
	PF_RECORD_FULL = 4,	/* there was more, and nothing is recorded any more */
};

/*
 * Most that is recorded of a launch, which bounds what user space keeps of it: the log alone is emptied as
 * fast as it is filled. The largest profile that an app gets by itself has 2^17 pages, each of which makes
 * two events at most.
 */
enum pf_record_bounds {
	PF_MOST_EVENTS = 1 << 18,	/* page events of the launch tree; as many of all other tasks */
	PF_MOST_PATH_BYTES = 8 << 20,	/* records of paths: some 70,000 */
};

/* One recording of a launch. */
struct pf_recorder {
	unsigned long long launch;	/* number of the launch; 0: the recorder is off */
	/*
	 * Number of the cgroup that belongs to this launch alone, as those that systemd makes for an app
	 * do: every task in it belongs to the launch. 0: there is none.
	 */
	unsigned long long cgroup;
	unsigned long long page_words;	/* entries of the table of pages that are in use */
	unsigned long long lost_events;	/* events that found no room in the log */
	unsigned long long lost_paths;	/* paths that were too long, too many, or not in memory any more */
	unsigned long long tree_events;	/* page events of the launch tree */
	unsigned long long other_events;	/* those of other tasks */
	unsigned long long path_bytes;	/* records of paths */
	unsigned int flags;		/* enum pf_record_flags */
	unsigned int pad;
};

/* Bytes of the longest path that is recorded, the final zero included. */
#define PF_PATH_MAX 1024

/* What was done with a path. */
enum pf_use {
	PF_LOOK_UP = 1,	/* it was looked up, whether found or not */
	PF_EXECUTED = 2,	/* it was looked up to execute the file */
	PF_LISTED = 3,	/* the directory `from` was read; there is no path */
	PF_ENTERED = 4,	/* the directory `from` became the working directory; there is no path */
};

/* Identifies an inode. */
struct pf_inode {
	unsigned long long ino;
	unsigned int dev;		/* kernel dev_t */
	unsigned int generation;
};

/* A path that the launch tree looked up. */
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
	unsigned int pid;		/* process, in user space's pid namespace; 0 in our mount namespace */
	unsigned int pad_2;
	unsigned long long length;	/* bytes of the path */
	char path[PF_PATH_MAX];		/* the record ends after `length` bytes of it */
};

/* How a system call takes its paths, or which file it reads. */
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
	PF_READ_ON = 10,	/* reads the file that is open as the first argument, from where it stands */
	PF_READ_AT = 11,	/* the same from the position that is the fourth argument, or -1 */
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

/* ---- tables of a recorder (seen_pages.h, seen_paths.h), made when it is first needed ---- */

enum pf_table_sizes {
	PF_PAGE_WORDS = 1 << 16,
	PF_NEAR_PLACES = 1 << 12,
	PF_FAR_PLACES = 1 << 17,
	PF_NEAR_PATH_LINES = 480,
	PF_FAR_PATH_LINES = 1 << 13,
};

/* 64 pages of a file or a device: which of them were reported, a bit each, by whom and how. */
struct pf_page_word {
	unsigned long long name;
	unsigned long long added;
	unsigned long long tree;
	unsigned long long other;
	unsigned long long helper;
	unsigned long long fault_around;
};

/* Hashes of paths that were reported: a line of the processor's cache. */
struct pf_path_line {
	unsigned long long at[8];
};

/* Where the words of a file are, counted from 1; 0: the place is free. */
struct pf_near_pages {
	unsigned int places[PF_NEAR_PLACES];
};

struct pf_near_paths {
	struct pf_path_line lines[PF_NEAR_PATH_LINES];
};

struct pf_far_tables {
	struct pf_page_word words[PF_PAGE_WORDS];	/* in the order in which they came */
	unsigned int places[PF_FAR_PLACES];
	struct pf_path_line lines[PF_FAR_PATH_LINES];
};

enum pf_log_sizes {
	PF_LOG_BYTES = 8 << 20,	/* of the ring buffer that the events of a recorder wait in */
};

/* Bytes of a recorder's tables, for user space to make them. */
enum pf_table_bytes {
	PF_NEAR_PAGES_BYTES = sizeof(struct pf_near_pages),
	PF_NEAR_PATHS_BYTES = sizeof(struct pf_near_paths),
	PF_FAR_TABLES_BYTES = sizeof(struct pf_far_tables),
};

/* ---- the completion block (meter.h) ---- */

/* The block whose arrival from the drive ends a launch (paper §4.2). */
struct pf_completion_block {
	unsigned long long launch;	/* number of the launch */
	unsigned long long sector;	/* first 512-byte sector on the device */
	unsigned long long sectors;
	unsigned int dev;		/* kernel dev_t; 0: there is no completion block */
	unsigned int pad;
};

/* The object keeps one of these, so that its BTF names the types that no map and no variable has. */
struct pf_types {
	struct pf_event event;
	enum pf_kind kind;
	enum pf_by by;
	enum pf_record_flags record_flags;
	enum pf_record_bounds record_bounds;
	struct pf_path path;
	enum pf_use use;
	enum pf_rule rule;
	enum pf_sizes sizes;
	enum pf_role role;
	enum pf_launch_kind launch_kind;
	enum pf_watch watch;
	struct pf_launch_event launch_event;
	enum pf_log_sizes log_sizes;
	enum pf_table_bytes table_bytes;
};

#endif
