// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Learning: which pages a launch needs.
 *
 * A page that the launch needs and that was not cached is added to a cache, and the kernel says so
 * (mm_filemap_add_to_page_cache): with an empty cache that is the launch sequence, in order. For
 * regular files the folio belongs to the file's inode. File-system metadata (inode tables,
 * directories, extent blocks) goes through the buffer cache, whose folios belong to the block
 * device's inode: the index is then the position on the device.
 *
 * A page that was cached already, because a running program holds it, is not added again. The launch
 * then shows up when it uses the page: a read takes it from the cache (mm_filemap_get_pages), a
 * write fault on a private mapping looks it up (mm_filemap_fault), and a read fault maps whatever is
 * cached of the 16 pages around the address (mm_filemap_map_pages: the paper's page-fault
 * monitoring, §3.1). These three are newer than the first; where the kernel lacks them, programs on
 * the functions that they are in take their place (older.bpf.h). Metadata that were cached are touched
 * (block_touch_buffer).
 *
 * Each page is reported once when it is added, once when the tree uses it, once when others do, and
 * once as part of a window: a launch touches its pages so often that reporting each time would cost
 * more than the launch. The filter holds a bit a page for each, 64 pages an entry.
 *
 * Processes that were started since the launch began are told apart from those that were there: they
 * may work for the app.
 */
#include "kernel.h"
#include "intf.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>
#include "remembered_roles.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define BDEVFS_MAGIC 0x62646576
#define PF_KTHREAD 0x00200000

/* Bytes in a page of the running kernel, set before the programs are loaded. */
const volatile __u32 page_bytes = 4096;

/*
 * Set when the launch's own accesses are what counts, and additions only tell what was not cached: a
 * page that readahead brought in is then still to be reported when it is used.
 */
const volatile bool touches_count = false;

/*
 * Number of the cgroup that belongs to this launch alone, as those that systemd makes for an app do:
 * whatever runs in it is of the launch. 0 if there is none.
 */
volatile __u64 launch_cgroup = 0;

#include "log.bpf.h"
#include "seen_pages.bpf.h"
#include "paths.bpf.h"

struct pf_types _types = {};

/* Whether the current task belongs to the launch without having grown from it. */
static __always_inline bool in_launch_cgroup(__u32 role)
{
	return role == PF_ROLE_NONE && launch_cgroup &&
	       bpf_get_current_cgroup_id() == launch_cgroup;
}

static __always_inline bool is_of_launch(void)
{
	__u32 role = remembered_role();

	return role == PF_ROLE_TREE || in_launch_cgroup(role);
}

/*
 * What a bus starts for the app, or a browser's zygote forks, is no child of the app, but younger than
 * the launch.
 */
static __always_inline bool is_newcomer(void)
{
	struct task_struct *task = bpf_get_current_task_btf();

	return !(task->flags & PF_KTHREAD) && task->group_leader->start_time >= active_since_ns;
}

static __always_inline __u8 by_role(__u32 role)
{
	if (is_tree(role) || in_launch_cgroup(role))
		return PF_TREE;
	if (role != PF_ROLE_NONE)
		return PF_OWN;
	return is_newcomer() ? PF_NEWCOMER : PF_OTHER;
}

/* Of tasks that have nothing to do with the launch, only what they bring into the caches matters. */
static __always_inline bool uses_matter(__u8 by)
{
	return by == PF_TREE || by == PF_NEWCOMER;
}

/*
 * Completes the event, and sends it unless all of its pages are known: then it returns false. `inode` is
 * that of a file.
 */
static __always_inline bool send(struct pf_event *e, struct inode *inode)
{
	struct record *record;

	if (!mark_new(e))
		return false;
	record = claim(sizeof(*e));
	if (!record)
		return true;
	e->time_ns = bpf_ktime_get_ns();
	/* Only now: unlike the rest, the kernel does not use it when it maps a page. */
	if (inode)
		e->generation = inode->i_generation;
	*(struct pf_event *)record->data = *e;
	publish(record, sizeof(*e));
	return true;
}

/*
 * Pages of the file, or of the device whose metadata the inode's pages are. False if all of them were
 * reported before.
 */
static __always_inline bool report(struct inode *inode, __u64 start, __u64 pages, __u8 kind, __u8 by)
{
	struct pf_event e = { .start = start, .pages = pages, .kind = kind, .by = by };
	struct super_block *sb;

	if (!pages || !inode)
		return false;
	sb = inode->i_sb;
	if (!sb)
		return false;
	if (sb->s_magic == BDEVFS_MAGIC) {
		e.dev = inode->i_rdev;
		return send(&e, NULL);
	}
	e.dev = sb->s_dev;
	e.ino = inode->i_ino;
	return send(&e, inode);
}

/* Who the current task is, if it matters which cached pages it has mapped; otherwise 0. */
static __always_inline __u8 who_maps(void)
{
	__u32 role;
	__u8 by;

	if (!active_since_ns)
		return 0;
	role = remembered_role();
	by = by_role(role);
	return uses_matter(by) && !is_copy_of_ours(role) ? by : 0;
}

#include "folios.bpf.h"

SEC("tp_btf/mm_filemap_add_to_page_cache")
int BPF_PROG(page_added, struct folio *folio)
{
	struct address_space *mapping = folio->mapping;

	if (active_since_ns && mapping)
		report(mapping->host, folio->index, folio_pages(folio), PF_ADDED,
		       by_role(remembered_role()));
	return 0;
}

static __always_inline void pages_used(struct address_space *mapping, __u64 index, __u64 last_index)
{
	struct inode *inode = mapping->host;
	__u64 end;
	__u8 by;

	if (!active_since_ns || !inode || last_index < index)
		return;
	by = by_role(remembered_role());
	if (!uses_matter(by))
		return;
	/* The range is what read(2) was asked for: cut it at the end of the file. */
	end = ((__u64)inode->i_size + page_bytes - 1) / page_bytes;
	if (last_index + 1 < end)
		end = last_index + 1;
	if (end > index)
		report(inode, index, end - index, PF_READ, by);
}

/*
 * A large folio is mapped as a whole, also where it reaches past the window (filemap_map_folio_range
 * since 6.18, finish_fault since 6.10): what is touched in it later makes no fault.
 */
static __always_inline void window_mapped(struct address_space *mapping, __u64 start, __u64 end)
{
	struct span first = {}, last = {};
	struct leaf leaf = {};
	__u8 by = who_maps();

	if (!by || end < start)
		return;
	if (cached_folio_near(mapping, start, &first, &leaf)) {
		if (first.start < start)
			start = first.start;
	} else {
		first = (struct span){};
	}
	if (first.start + first.pages > end)
		end = first.start + first.pages - 1;
	else if (cached_folio_near(mapping, end, &last, &leaf) && last.start + last.pages - 1 > end)
		end = last.start + last.pages - 1;
	report(mapping->host, start, end - start + 1, PF_WINDOW, by);
}

static __always_inline void page_touched(struct address_space *mapping, __u64 index)
{
	struct span folio = {};
	__u8 by = who_maps();

	if (!by)
		return;
	if (report(mapping->host, index, 1, PF_FAULT, by) &&
	    cached_folio(mapping, index, &folio) && folio.pages > 1)
		report(mapping->host, folio.start, folio.pages, PF_WINDOW, by);
}

SEC("?tp_btf/mm_filemap_get_pages")
int BPF_PROG(pages_read, struct address_space *mapping, unsigned long index,
	     unsigned long last_index)
{
	pages_used(mapping, index, last_index);
	return 0;
}

SEC("?tp_btf/mm_filemap_fault")
int BPF_PROG(page_faulted, struct address_space *mapping, unsigned long index)
{
	page_touched(mapping, index);
	return 0;
}

SEC("?tp_btf/mm_filemap_map_pages")
int BPF_PROG(pages_mapped, struct address_space *mapping, unsigned long start, unsigned long end)
{
	window_mapped(mapping, start, end);
	return 0;
}

#include "older.bpf.h"

/*
 * A block of metadata that was found in the buffer cache. What the kernel keeps in a form of its own
 * (dentries, inodes, extents) is not looked up there: paths and dependencies tell of these.
 */
SEC("tp_btf/block_touch_buffer")
int BPF_PROG(block_touched, struct buffer_head *bh)
{
	struct pf_event e = { .kind = PF_READ, .by = PF_TREE };
	__u64 start, end;

	if (!active_since_ns || !is_of_launch())
		return 0;
	start = bh->b_blocknr * bh->b_size;
	end = start + bh->b_size;
	e.dev = bh->b_bdev->bd_dev;
	e.start = start / page_bytes;
	e.pages = (end + page_bytes - 1) / page_bytes - e.start;
	send(&e, NULL);
	return 0;
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(task_forked, struct task_struct *parent, struct task_struct *child)
{
	tree_fork(parent, child);
	return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(task_execed, struct task_struct *task, int old_pid, struct linux_binprm *bprm)
{
	tree_exec(task);
	if (active_since_ns && is_of_launch())
		paths_of_exec(task, bprm);
	return 0;
}

SEC("tp_btf/sys_exit")
int BPF_PROG(syscall_done, struct pt_regs *regs, long result)
{
	struct pf_syscall *call;

	if (!active_since_ns)
		return 0;
	/* Every call of every task comes by here: most are told apart by their number. */
	call = call_with_paths(regs);
	if (call && is_of_launch())
		paths_of_syscall(call, regs, result);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(task_exited)
{
	if (tree_exit())
		wake(PF_EXIT);
	return 0;
}
