/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Where an ext2, ext3 or ext4 file system keeps the metadata that a file's data depends on.
 *
 * A narrow door to libext2fs, so that the Rust side needs to know none of its structs. ext4.rs
 * repeats these declarations; keep both in step. Errors are libext2fs's (errcode_t): 0 is success.
 */
#ifndef PARALFETCH_EXT4_SHIM_H
#define PARALFETCH_EXT4_SHIM_H

#include <stddef.h>
#include <stdint.h>

/* An open file system. */
struct pf_ext4;

/* A block outside of the inode that maps logical blocks of a file to the disk. */
struct pf_node {
	uint64_t first;    /* first logical block that it maps, in file system blocks */
	uint64_t len;      /* number of logical blocks from there on, at least 1 */
	uint64_t physical; /* where the node itself lies, in file system blocks */
	uint32_t depth;    /* 0: the inode points to it; 1: a node of depth 0 does; and so on */
};

/* Opens the file system on a block device or in an image, read-only. It may be mounted. */
long pf_ext4_open(const char *path, struct pf_ext4 **out);
void pf_ext4_close(struct pf_ext4 *fs);

uint32_t pf_ext4_block_size(const struct pf_ext4 *fs); /* in bytes */
uint64_t pf_ext4_blocks(const struct pf_ext4 *fs);     /* size, in file system blocks */
void pf_ext4_uuid(const struct pf_ext4 *fs, uint8_t uuid[16]);

/* The block of the inode table that holds inode `ino`. */
long pf_ext4_inode_block(const struct pf_ext4 *fs, uint32_t ino, uint64_t *block);

/* What the file system's layout fixes a block to be. */
enum pf_fixed {
	PF_FIXED_NONE = 0,         /* nothing: it is allocated to a file or free */
	PF_FIXED_SUPER = 1,        /* superblock or group descriptors, or a copy of them */
	PF_FIXED_BLOCK_BITMAP = 2,
	PF_FIXED_INODE_BITMAP = 3,
	PF_FIXED_INODE_TABLE = 4,
	PF_FIXED_JOURNAL = 5,      /* the internal journal */
};

/* Says what block `block` is by the group descriptors and the journal's inode. */
long pf_ext4_fixed(struct pf_ext4 *fs, uint64_t block, enum pf_fixed *kind);

/*
 * The extent-tree nodes or indirect blocks of regular file `ino`, parents before children. Writes the
 * first `cap` of them to `out` and their number to `count`. A file with more than `cap` nodes is an
 * error (EXT2_ET_NO_MEMORY): a caller's bound on a damaged tree that runs in circles.
 */
long pf_ext4_nodes(struct pf_ext4 *fs, uint32_t ino, struct pf_node *out, size_t cap, size_t *count);

/* The error's text, in static memory. */
const char *pf_ext4_error(long error);

#endif
