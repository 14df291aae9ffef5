/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Folios of the page cache: how large one is, and which one holds a page.
 */
#ifndef PARALFETCH_FOLIOS_H
#define PARALFETCH_FOLIOS_H

#include "kernel.h"
#include "memory.h"

/* Pages of the kernel's size. */
struct span {
	__u64 start;
	__u64 pages;
};

static __always_inline __u64 folio_pages(struct folio *folio)
{
	unsigned long flags;

	if (bpf_core_field_exists(((struct folio___memdesc *)0)->flags.f))
		flags = LOOK(struct folio___memdesc, folio, flags.f);
	else
		flags = LOOK(struct folio___flags, folio, flags);
	if (!(flags & (1UL << bpf_core_enum_value(enum pageflags, PG_head))))
		return 1;
	if (bpf_core_field_exists(struct folio___order, _folio_order))
		return 1UL << (LOOK(struct folio___order, folio, _folio_order) & 31);
	return 1UL << (LOOK(struct folio___flags_1, folio, _flags_1) & 31);
}

/* The xarray's own entries have these low bits; a pointer to a folio has none. */
#define XA_BITS 3UL
#define XA_INTERNAL 2UL
/* Internal entries below this are not nodes. */
#define XA_LEAST_NODE 4096UL
/* Levels of a tree of 64-bit indices whose nodes have 16 slots or more. */
#define XA_LEVELS 16

static __always_inline bool is_node(__u64 entry)
{
	return (entry & XA_BITS) == XA_INTERNAL && entry > XA_LEAST_NODE;
}

static __always_inline __u64 slot_of(struct xa_node *node, __u64 offset)
{
	__u64 slots = (__u64)node + bpf_core_field_offset(struct xa_node, slots);

	return word_at(slots + offset * sizeof(void *));
}

/* The leaf of the tree that a walk has ended in: neighbouring pages are in it, too. */
struct leaf {
	struct xa_node *node;
	__u64 first;
};

/* The entry of a page in a node. A folio of several slots is in the first of them; the others point to it. */
static __always_inline __u64 entry_of(struct xa_node *node, __u64 offset, __u64 most)
{
	__u64 entry = slot_of(node, offset);

	if ((entry & XA_BITS) == XA_INTERNAL && entry < XA_LEAST_NODE)
		entry = slot_of(node, (entry >> 2) & most);
	return entry;
}

/*
 * The cached folio that holds a page, as xa_load() finds it. The tree may change meanwhile: a wrong
 * answer is possible then, and only widens a window. `leaf` is where the walk for a neighbouring page
 * has ended, if there was one.
 */
static __always_inline bool cached_folio_near(struct address_space *mapping, __u64 index,
					      struct span *found, struct leaf *leaf)
{
	__u64 most = bpf_core_field_size(struct xa_node, slots) / sizeof(void *) - 1;
	struct xa_node *node;
	struct folio *folio;
	__u64 entry;
	__u8 shift;
	int level;

	if (leaf->node && leaf->first == (index & ~most)) {
		entry = entry_of(leaf->node, index & most, most);
	} else {
		entry = (__u64)mapping->i_pages.xa_head;
		for (level = 0; level < XA_LEVELS && is_node(entry); level++) {
			node = (struct xa_node *)(entry - XA_INTERNAL);
			shift = LOOK(struct xa_node, node, shift) & 63;
			if (level == 0 && index >> shift > most)
				return false;
			if (!shift) {
				leaf->node = node;
				leaf->first = index & ~most;
			}
			entry = entry_of(node, (index >> shift) & most, most);
		}
	}
	if (!entry || entry & XA_BITS)
		return false;
	folio = (struct folio *)entry;
	found->start = LOOK(struct folio, folio, index);
	found->pages = folio_pages(folio);
	return found->start <= index && index < found->start + found->pages;
}

static __always_inline bool cached_folio(struct address_space *mapping, __u64 index, struct span *found)
{
	struct leaf leaf = {};

	return cached_folio_near(mapping, index, found, &leaf);
}

#endif
