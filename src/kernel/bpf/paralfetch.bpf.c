// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Paralfetch in the kernel: which programs are launched, what each launch costs, and which pages it needs.
 *
 * 1. Motivation
 *
 * A launch is slow while it reads its files from the drive one after the other, each read waiting for the
 * one before. To read them ahead, user space has to know three things. Which launches happen, as early as
 * they can be seen: the prefetch is worth most before the app's own first read. What each launch costs:
 * the requests that it makes itself, and how long its tasks wait for the drive. And, once for each app,
 * which pages the launch needs, in which order. These programs answer all three. They run in the context of
 * every task of the system, so what matters most is what they cost tasks that have nothing to do with a
 * launch.
 *
 * 2. Hooks
 *
 * All programs are on BTF-typed raw tracepoints, which load and attach under kernel lockdown and without
 * tracefs, with three exceptions: the entry of execve is a system-call tracepoint, which takes tracefs;
 * older kernels have no tracepoints for uses of cached pages, where programs on the functions take their
 * place (older.h); and one is the filter of the socket for announcements (users.h). User space loads the
 * object once in a process, with the programs that it needs and that the running kernel has the hooks for:
 * none is loaded by itself. Those that cost something are attached only while they are needed.
 *
 *   always, while launches are watched for (launch.h, count.h, own_reads.h):
 *     sys_enter_execve, sys_enter_execveat       a watched program is about to be executed
 *     sched_process_exec                         it was executed
 *     sched_process_fork, sched_process_exit     the tree grows and shrinks
 *     block_getrq, block_bio_backmerge, block_bio_frontmerge     a read request is made or grows
 *   while a launch is under way (count.h, meter.h):
 *     sched_switch                               a task waits for the drive
 *     mm_filemap_get_pages, mm_filemap_fault, mm_filemap_map_pages     completion pages are used
 *     block_rq_complete                          the completion block has arrived
 *   while a launch is recorded (record.h, file_reads.h, paths.h, older.h):
 *     mm_filemap_add_to_page_cache               a page was not cached
 *     mm_filemap_get_pages, mm_filemap_fault, mm_filemap_map_pages, block_touch_buffer     it was
 *     sys_exit                                   a path was looked up, or a file of squashfs read (file_reads.h)
 *
 * 3. Membership (tree.h)
 *
 * A launch has a number, a slot in `launches`, and a tree of tasks. It begins with one task and grows by
 * fork and clone; later execs change nothing. Each task of it says in its task-local storage which launch
 * it belongs to, by number, and which part it plays: the launcher that starts the app, a prefetcher, or
 * the app. When user space frees the slot, the number fits no slot any more, and the tasks belong to no launch.
 * A process that runs already is made a launch by marking it, and those of a user's cgroup are made a login, whose apps are
 * launches of their own. There is one tree for everything: the
 * counts of a launch and its recording go by the same membership.
 *
 * A task that did not descend from the launch and works for it is told apart by its age and its user: a process
 * of the app's user or of the system that was started after the launch began is a helper (a service that the
 * bus starts for the app, a child of a browser's zygote). If the launch has a cgroup to itself, tasks in it are of the tree.
 *
 * 4. Recording (record.h, paths.h)
 *
 * A page that the launch needs and that was not cached is added to a cache: with empty caches these
 * additions are the launch sequence, in order. The folio of a regular file belongs to the file's inode.
 * File-system metadata (inode tables, directories, extent blocks) goes through the buffer cache, whose
 * folios belong to the block device's inode: the index is then the position on the device.
 *
 * A page that was cached already, because another program uses it, is not added again. The launch then
 * shows up when it uses the page: a read takes it from the cache (mm_filemap_get_pages), a write fault on
 * a private mapping looks it up (mm_filemap_fault), and a read fault maps the cached pages among the 16
 * around the address (mm_filemap_map_pages: page-fault monitoring, paper §3.1). Metadata that was cached is
 * touched (block_touch_buffer), or is not looked at at all, since the kernel keeps names and inodes in a
 * form of its own: so the paths that the launch looks up are recorded, and user space works out the blocks.
 *
 * Several launches can be recorded at once, each by a recorder with tables and a log of its own. An event
 * is offered to each recorder, and each has its own answer to who caused it (enum pf_by).
 *
 * 5. Filtering (seen_pages.h, seen_paths.h)
 *
 * A launch touches its pages so often that reporting each time would cost more than the launch. For each
 * recorder, a page is reported once when it is added, once when the tree uses it, once when helpers do,
 * once when others add it, and once as part of a fault-around window. A path is reported once for each
 * directory that it starts from. Of tasks outside the launch and its helpers, only additions are reported.
 * Before the app's execve nothing is.
 *
 * 6. What is lost, and how that shows
 *
 *   - Events for which the recorder's log has no room (log.h): counted in `lost_events` of the recorder. User space
 *     does not learn from such a launch. Launch events without room: `lost_launch_events`.
 *   - Tasks that could not be marked because memory was short, and with them their descendants:
 *     `lost_tasks`. Launches that found no slot: `lost_launches`.
 *   - Executions by a user who executes watched names too fast: `excess_execs`. They take no slot and no room in
 *     the ring. Announcements by one who sends them too fast (users.h) are counted nowhere.
 *   - Paths longer than PF_PATH_MAX, or no longer in memory: `lost_paths` of the recorder. Paths of
 *     32-bit programs are not looked at.
 *   - When a filter is full, nothing is lost: what finds no room in it is reported each time.
 *   - Within a word of the filter, two processors may overwrite each other's bits. Then a page is reported
 *     twice.
 */
#include "kernel.h"
#include "intf.h"
#include "launch.h"
#include "count.h"
#include "meter.h"
#include "record.h"
#include "older.h"
#include "paths.h"
#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

struct pf_types _types = {};

/*
 * Does nothing, on whatever kernel function user space attaches it to: whether the kernel allows that is
 * the answer.
 */
SEC("?fentry")
int probe(void *context)
{
	return 0;
}
