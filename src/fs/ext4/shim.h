/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Where an ext2, ext3 or ext4 file system keeps the metadata that files, directories and path look-ups
 * depend on.
 *
 * A narrow interface to libext2fs, so that the Rust side needs none of its structs. mod.rs repeats these
 * declarations; keep them in step. Errors are libext2fs's (errcode_t); 0 is success.
 */
#ifndef PARALFETCH_EXT4_SHIM_H
#define PARALFETCH_EXT4_SHIM_H

#include <stddef.h>
#include <stdint.h>

/* An open file system: libext2fs's own struct, which is opaque to the Rust side. */
struct struct_ext2_filsys;
typedef struct struct_ext2_filsys pf_ext4;

/* What stays the same while it is open. */
struct pf_info {
	uint64_t blocks;     /* size, in file system blocks */
	uint32_t block_size; /* in bytes */
	uint8_t dir_index;   /* 1 if directories may have an index */
	uint8_t large_dir;   /* 1 if the index may have three levels */
	uint8_t metadata_csum; /* 1 if blocks of an index end in a checksum */
	uint8_t uuid[16];
};

/* Opens the file system on a block device or in an image, read-only. It may be mounted. */
long pf_ext4_open(const char *path, pf_ext4 **out, struct pf_info *info);
void pf_ext4_close(pf_ext4 *fs);

/* The block of the inode table that holds inode `ino`. */
long pf_ext4_inode_block(pf_ext4 *fs, uint32_t ino, uint64_t *block);

/* What the group descriptors say that a block is. */
enum pf_block {
	PF_BLOCK_OTHER = 0, /* allocated to a file or directory, free, or a superblock or descriptor */
	PF_BLOCK_INODE_TABLE = 1,
	PF_BLOCK_BITMAP = 2,
	PF_BLOCK_INODE_BITMAP = 3,
};

/* Takes time linear in the number of block groups: with flex_bg, each may have its tables anywhere. */
uint32_t pf_ext4_block_kind(pf_ext4 *fs, uint64_t block);

/* What one must know of an inode to find its blocks. */
struct pf_inode {
	uint64_t size;  /* in bytes */
	uint32_t flags; /* EXT4_*_FL of the kernel */
	uint32_t mode;  /* file type and permissions */
};

long pf_ext4_inode(pf_ext4 *fs, uint32_t ino, struct pf_inode *out);

/* A block outside of the inode that maps logical blocks of a file to the disk. */
struct pf_node {
	uint64_t first;    /* first logical block that it maps, in file system blocks */
	uint64_t len;      /* number of logical blocks from there on, at least 1 */
	uint64_t physical; /* where the node itself lies, in file system blocks */
	uint32_t depth;    /* 0: the inode points to it; 1: a node of depth 0 does; and so on */
};

/*
 * The extent-tree nodes or indirect blocks of a regular file, directory or symbolic link, parents before
 * children. Writes the first `cap` of them to `out` and their number to `count`. A file with more than
 * `cap` nodes is an error (EXT2_ET_NO_MEMORY): a caller's bound on a damaged tree that runs in circles.
 */
long pf_ext4_nodes(pf_ext4 *fs, uint32_t ino, struct pf_node *out, size_t cap, size_t *count);

/* The place of a logical block of the inode; 0 in holes and where nothing was written yet. */
long pf_ext4_map(pf_ext4 *fs, uint32_t ino, uint64_t logical, uint64_t *physical);

/* Reads one block into `out`, which has room for a block. */
long pf_ext4_read_block(pf_ext4 *fs, uint64_t block, void *out);

/*
 * The hash of a name in a directory whose index root names hash `version`, as ext4fs_dirhash of the kernel
 * computes it. The name has at most EXT2_NAME_LEN bytes.
 */
long pf_ext4_name_hash(const pf_ext4 *fs, uint8_t version, const char *name, size_t len, uint32_t *hash);

/* The error's text, in static memory. */
const char *pf_ext4_error(long error);

#endif
