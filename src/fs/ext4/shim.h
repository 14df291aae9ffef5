/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Where an ext2, ext3 or ext4 file system keeps the metadata that a file's data depends on.
 *
 * A narrow door to libext2fs, so that the Rust side needs to know none of its structs. mod.rs
 * and raw.rs repeat these declarations; keep them in step. Errors are libext2fs's (errcode_t): 0 is success.
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

/* The block of the inode table that holds inode `ino`, and where in it the inode begins, in bytes. */
long pf_ext4_inode_block(const struct pf_ext4 *fs, uint32_t ino, uint64_t *block, uint32_t *offset);

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

/* What one must know of the file system to read its inodes and directories. */
struct pf_traits {
	uint64_t first_block;  /* first block that can hold anything */
	uint32_t inode_size;   /* in bytes */
	uint32_t cluster_size; /* in bytes */
	uint32_t flags;        /* PF_* below */
};

#define PF_DIR_INDEX 0x01       /* directories may be hashed */
#define PF_LARGE_DIR 0x02       /* hashed directories may have three levels of index */
#define PF_METADATA_CSUM 0x04   /* blocks of an index end in a checksum */
#define PF_EA_INODE 0x08        /* values of extended attributes may have inodes of their own */
#define PF_64BIT 0x10           /* block numbers have more than 32 bits */
#define PF_CASEFOLD 0x20        /* directories may ignore case, and libext2fs knows the charset */
#define PF_STRICT_NAMES 0x40    /* names that are invalid in the charset are refused */
#define PF_NO_LINEAR_RETRY 0x80 /* no linear search where a hash of a folded name finds nothing */

void pf_ext4_traits(const struct pf_ext4 *fs, struct pf_traits *traits);

/* Reads one block into `out`, which has room for a block. */
long pf_ext4_read_block(struct pf_ext4 *fs, uint64_t block, void *out);

/*
 * The hash of a name (of at most EXT2_NAME_LEN bytes) in a directory whose index root names hash
 * `version`; of the folded name if `fold` is not 0. As ext4fs_dirhash of the kernel.
 */
long pf_ext4_name_hash(const struct pf_ext4 *fs, uint8_t version, const char *name, size_t len, int fold,
		       uint32_t *hash);

/* Whether two names are the same but for case. Only with PF_CASEFOLD. */
int pf_ext4_same_folded(const struct pf_ext4 *fs, const char *a, size_t a_len, const char *b,
			size_t b_len);

/* Whether a name is valid in the charset. Only with PF_CASEFOLD. */
int pf_ext4_valid_name(const struct pf_ext4 *fs, const char *name, size_t len);

/* The error's text, in static memory. */
const char *pf_ext4_error(long error);

#endif
