/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What a bio reads or writes: pages of a file, or of a block device for metadata.
 */
#ifndef PARALFETCH_BIO_PAGES_H
#define PARALFETCH_BIO_PAGES_H

#include "kernel.h"
#include "memory.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

/* Set in the word of a later page of a large folio, beside the address of the folio's first page. */
#define PAGE_IS_TAIL 1UL
/* Set in the word of pages of no file: anonymous memory, that is direct I/O. */
#define MAPPING_IS_NONE 3UL

/*
 * The mapping of the bio's pages, and the index of the first of them in pages of the kernel's size; NULL if they
 * belong to no file. Later pages are assumed to go on from there.
 */
static __always_inline struct address_space *first_mapping_of(struct bio *bio, __u64 *index)
{
	/* A bio that was split off another shares its vector, and begins in the middle of it. */
	struct bio_vec *vec = BPF_CORE_READ(bio, bi_io_vec) + BPF_CORE_READ(bio, bi_iter.bi_idx);
	struct page *page = BPF_CORE_READ(vec, bv_page);
	__u64 head = BPF_CORE_READ(page, compound_head);
	struct address_space *mapping;

	*index = (BPF_CORE_READ(vec, bv_offset) + BPF_CORE_READ(bio, bi_iter.bi_bvec_done)) / page_bytes;
	if (head & PAGE_IS_TAIL) {
		head -= PAGE_IS_TAIL;
		*index += ((__u64)page - head) / bpf_core_type_size(struct page);
	} else {
		head = (__u64)page;
	}
	mapping = BPF_CORE_READ((struct folio *)head, mapping);
	*index += BPF_CORE_READ((struct folio *)head, index);
	if (!mapping || (__u64)mapping & MAPPING_IS_NONE)
		return NULL;
	return mapping;
}

/* The inode of these pages. */
static __always_inline struct inode *first_page_of(struct bio *bio, __u64 *index)
{
	struct address_space *mapping = first_mapping_of(bio, index);

	return mapping ? BPF_CORE_READ(mapping, host) : NULL;
}

#endif
