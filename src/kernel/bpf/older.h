/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Uses of cached pages on kernels without tracepoints for them: the same events, from the functions
 * that the tracepoints were later put into (mm/filemap.c). User space chooses which of these programs
 * are loaded, by the running kernel's BTF.
 *
 * Each program reports only what the tracepoint would: otherwise a fault-around that finds no cached page
 * would be taken for a use of pages that are cached later.
 */
#ifndef PARALFETCH_OLDER_H
#define PARALFETCH_OLDER_H

#include "kernel.h"
#include "count.h"
#include "record.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct vm_area_struct {
	struct file *vm_file;
};

struct vm_fault {
	struct vm_area_struct *vma;
	unsigned long pgoff;
	void *pte;
};

struct kiocb {
	struct file *ki_filp;
	__s64 ki_pos;
};

struct iov_iter {
	unsigned long count;
};

#pragma clang attribute pop

/* The first and the last page of a read of `count` bytes from the file's position on; false if it got none. */
static __always_inline bool got_pages(struct kiocb *iocb, __u64 count, int error, __u64 *first, __u64 *last)
{
	__u64 from = iocb->ki_pos, to = from + count;

	/* An empty read, and one that wraps around, has no last page. */
	if (error || to <= from)
		return false;
	*first = from / page_bytes;
	*last = (to - 1) / page_bytes;
	return true;
}

/* filemap_get_pages got pages for `count` bytes from the file's position on. */
static __always_inline void pages_got(struct kiocb *iocb, __u64 count, int error)
{
	__u64 first, last;

	if (got_pages(iocb, count, error, &first, &last))
		pages_used(iocb->ki_filp->f_mapping, first, last);
}

/* The same for the completion pages. */
static __always_inline void completion_got(struct kiocb *iocb, __u64 count, int error)
{
	__u64 first, last;

	if (got_pages(iocb, count, error, &first, &last))
		look_for_completion(iocb->ki_filp->f_mapping, first, last);
}

/* Up to 6.2: the count is in the iterator that the pages are copied to. */
SEC("?fexit/filemap_get_pages")
int BPF_PROG(older_pages_read_iter, struct kiocb *iocb, struct iov_iter *iter, void *batch, int error)
{
	pages_got(iocb, iter->count, error);
	return 0;
}

/* From 6.3 on: the count itself, and whether the pages must be up to date. */
SEC("?fexit/filemap_get_pages")
int BPF_PROG(older_pages_read, struct kiocb *iocb, unsigned long count, void *batch, bool uptodate,
	     int error)
{
	pages_got(iocb, count, error);
	return 0;
}

SEC("?fentry/filemap_fault")
int BPF_PROG(older_page_faulted, struct vm_fault *vmf)
{
	struct address_space *mapping = vmf->vma->vm_file->f_mapping;
	__u64 size = mapping->host->i_size;

	/* Past the end there is no page: the task gets SIGBUS. */
	if (vmf->pgoff < (size + page_bytes - 1) / page_bytes)
		page_touched(mapping, vmf->pgoff);
	return 0;
}

/*
 * The page-table entry is looked up (and locked) once a cached page was found in the window; a fault
 * comes here only while there is none.
 */
SEC("?fexit/filemap_map_pages")
int BPF_PROG(older_pages_mapped, struct vm_fault *vmf, unsigned long start, unsigned long end)
{
	if (vmf->pte)
		window_mapped(vmf->vma->vm_file->f_mapping, start, end);
	return 0;
}

/* The use of the completion pages (count.h), by the same functions. They are attached while a launch is under way. */
SEC("?fexit/filemap_get_pages")
int BPF_PROG(older_completion_read_iter, struct kiocb *iocb, struct iov_iter *iter, void *batch, int error)
{
	completion_got(iocb, iter->count, error);
	return 0;
}

SEC("?fexit/filemap_get_pages")
int BPF_PROG(older_completion_read, struct kiocb *iocb, unsigned long count, void *batch, bool uptodate,
	     int error)
{
	completion_got(iocb, count, error);
	return 0;
}

SEC("?fentry/filemap_fault")
int BPF_PROG(older_completion_faulted, struct vm_fault *vmf)
{
	look_for_completion(vmf->vma->vm_file->f_mapping, vmf->pgoff, vmf->pgoff);
	return 0;
}

SEC("?fexit/filemap_map_pages")
int BPF_PROG(older_completion_mapped, struct vm_fault *vmf, unsigned long start, unsigned long end)
{
	if (vmf->pte)
		look_for_completion(vmf->vma->vm_file->f_mapping, start, end);
	return 0;
}

#endif
