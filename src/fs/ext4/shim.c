/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A narrow interface to libext2fs, so that the Rust side needs none of its structs. mod.rs repeats the
 * structs and signatures of this file; keep them in step. Errors are libext2fs's (errcode_t); 0 is success.
 * Blocks are file-system blocks, counted from the start of the device unless they are called logical.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

#include <com_err.h>
#include <ext2fs.h>

/* The kernel's EXT4_MAX_EXTENT_DEPTH: no valid tree is deeper. */
#define MAX_EXTENT_DEPTH 5

/* The kernel's EXT4_HTREE_EOF_32BIT, as it appears in a hash: no name has it. */
#define HASH_EOF 0xfffffffeU

/* An error of this file's own; libext2fs's are all positive. */
#define TOO_MANY_NODES (-1)

/* libext2fs's own struct, which is opaque to the Rust side. */
typedef struct struct_ext2_filsys pf_ext4;

/* What stays the same while a file system is open. */
struct pf_info {
	uint64_t blocks;       /* size, in blocks */
	uint32_t block_size;   /* in bytes */
	uint8_t dir_index;     /* 1 if directories may have an index */
	uint8_t large_dir;     /* 1 if the index may have three levels */
	uint8_t metadata_csum; /* 1 if blocks of an index end in a checksum */
};

/* What one must know of an inode to find its blocks. */
struct pf_inode {
	uint64_t size;  /* in bytes */
	uint32_t flags; /* EXT4_*_FL of the kernel */
	uint32_t mode;  /* file type and permissions */
};

/* A block outside of the inode that maps logical blocks of a file to the disk. */
struct pf_node {
	uint64_t first;    /* first logical block that it maps */
	uint64_t len;      /* number of logical blocks from there on, at least 1 */
	uint64_t physical; /* where the node itself lies */
	uint32_t depth;    /* 0: the inode points to it; 1: a node of depth 0 does; and so on */
};

/* The caller's array. */
struct sink {
	struct pf_node *out;
	size_t cap;
	size_t count;
};

/*
 * Who is asked before each read of the device. A mounted file system may be an image that a user has made or is
 * changing: in its trees, blocks may point to themselves, and its superblock may claim any size. Whatever libext2fs
 * walks, it reads, so that this bounds every walk.
 */
struct pf_guard {
	int (*may_read)(void *context);
	void *context;
};

/* Largest read, in bytes: the group descriptors of a file system of 128 TiB. */
#define MAX_READ (64 << 20)

/* Of the call that the thread is making; the Rust side sets it before each. */
static _Thread_local struct pf_guard guard;

void pf_ext4_guard(int (*may_read)(void *), void *context)
{
	guard.may_read = may_read;
	guard.context = context;
}

static errcode_t guarded_read64(io_channel channel, unsigned long long block, int count, void *data)
{
	/* A negative count is in bytes. */
	int64_t bytes = count < 0 ? -(int64_t)count : (int64_t)count * channel->block_size;

	if (bytes > MAX_READ)
		return EXT2_ET_CORRUPT_SUPERBLOCK;
	if (!guard.may_read || !guard.may_read(guard.context))
		return EXT2_ET_CANCEL_REQUESTED;
	return unix_io_manager->read_blk64(channel, block, count, data);
}

static errcode_t guarded_read(io_channel channel, unsigned long block, int count, void *data)
{
	return guarded_read64(channel, block, count, data);
}

static struct struct_io_manager guarded;

static errcode_t guarded_open(const char *name, int flags, io_channel *channel)
{
	errcode_t error = unix_io_manager->open(name, flags, channel);

	if (!error)
		(*channel)->manager = &guarded;
	return error;
}

static void make_guarded(void)
{
	guarded = *unix_io_manager;
	guarded.open = guarded_open;
	guarded.read_blk = guarded_read;
	guarded.read_blk64 = guarded_read64;
}

/* Opens the file system on a block device or in an image, read-only. It may be mounted. */
long pf_ext4_open(const char *path, pf_ext4 **out, struct pf_info *info)
{
	/*
	 * Buffered and not exclusive: the kernel changes a mounted file system's metadata in the block
	 * device's page cache, and that is where we read it. Checksums may be caught in mid-change.
	 */
	int flags = EXT2_FLAG_64BITS | EXT2_FLAG_SKIP_MMP | EXT2_FLAG_IGNORE_CSUM_ERRORS;
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct ext2_super_block *super;
	errcode_t error;

	pthread_once(&once, make_guarded);
	error = ext2fs_open2(path, NULL, flags, 0, 0, &guarded, out);
	if (error)
		return error;
	super = (*out)->super;
	info->blocks = ext2fs_blocks_count(super);
	info->block_size = (*out)->blocksize;
	info->dir_index = ext2fs_has_feature_dir_index(super) != 0;
	info->large_dir = ext2fs_has_feature_largedir(super) != 0;
	info->metadata_csum = ext2fs_has_feature_metadata_csum(super) != 0;
	return 0;
}

void pf_ext4_close(pf_ext4 *fs)
{
	ext2fs_free(fs);
}

/* Whether a block of this number can hold anything. */
static int is_inside(pf_ext4 *fs, uint64_t block)
{
	return block >= fs->super->s_first_data_block && block < ext2fs_blocks_count(fs->super);
}

/* The block of the inode table that holds an inode. */
long pf_ext4_inode_block(pf_ext4 *fs, uint32_t ino, uint64_t *block)
{
	uint32_t per_group = EXT2_INODES_PER_GROUP(fs->super);
	uint64_t in_table;

	if (ino == 0 || ino > fs->super->s_inodes_count || per_group == 0 ||
	    (ino - 1) / per_group >= fs->group_desc_count)
		return EXT2_ET_BAD_INODE_NUM;
	in_table = (uint64_t)((ino - 1) % per_group) * EXT2_INODE_SIZE(fs->super);
	*block = ext2fs_inode_table_loc(fs, (ino - 1) / per_group) + in_table / fs->blocksize;
	return is_inside(fs, *block) ? 0 : EXT2_ET_GDESC_BAD_INODE_TABLE;
}

/*
 * 1: part of an inode table; 2: a block bitmap; 3: an inode bitmap; 0: anything else. Takes time linear in the
 * number of block groups: with flex_bg, each may have its tables anywhere.
 */
uint32_t pf_ext4_block_kind(pf_ext4 *fs, uint64_t block)
{
	dgrp_t group;

	for (group = 0; group < fs->group_desc_count; group++) {
		uint64_t table = ext2fs_inode_table_loc(fs, group);

		if (block >= table && block < table + fs->inode_blocks_per_group)
			return 1;
		if (block == ext2fs_block_bitmap_loc(fs, group))
			return 2;
		if (block == ext2fs_inode_bitmap_loc(fs, group))
			return 3;
	}
	return 0;
}

/* The first inode in a block of an inode table; 0 for other blocks. Takes time linear in the number of groups. */
static uint64_t first_inode(pf_ext4 *fs, uint64_t block)
{
	uint32_t per_block = fs->blocksize / EXT2_INODE_SIZE(fs->super);
	dgrp_t group;

	for (group = 0; group < fs->group_desc_count; group++) {
		uint64_t table = ext2fs_inode_table_loc(fs, group);

		if (block >= table && block < table + fs->inode_blocks_per_group)
			return (uint64_t)group * EXT2_INODES_PER_GROUP(fs->super) +
			       (block - table) * per_block + 1;
	}
	return 0;
}

/*
 * Who uses a block: PF_UNUSED, PF_BY_FILES for a block of an inode table with the inodes of regular files
 * alone, PF_IN_USE for everything else.
 */
enum { PF_UNUSED, PF_BY_FILES, PF_IN_USE };

long pf_ext4_block_use(pf_ext4 *fs, uint64_t block, uint32_t *use)
{
	uint32_t per_block = fs->blocksize / EXT2_INODE_SIZE(fs->super);
	uint64_t first = first_inode(fs, block);
	struct ext2_inode inode;
	errcode_t error = 0;
	uint64_t group_start;
	uint8_t *bitmap;
	dgrp_t group;
	uint32_t i;

	*use = PF_UNUSED;
	for (i = 0; first && !error && i < per_block && first + i <= fs->super->s_inodes_count; i++) {
		error = ext2fs_read_inode(fs, first + i, &inode);
		if (error || !inode.i_links_count)
			continue;
		if (!LINUX_S_ISREG(inode.i_mode))
			*use = PF_IN_USE;
		else if (*use == PF_UNUSED)
			*use = PF_BY_FILES;
	}
	if (first || !is_inside(fs, block))
		return first ? error : EXT2_ET_BAD_BLOCK_NUM;
	group = ext2fs_group_of_blk2(fs, block);
	group_start = ext2fs_group_first_block2(fs, group);
	bitmap = malloc(fs->blocksize);
	if (!bitmap)
		return EXT2_ET_NO_MEMORY;
	error = io_channel_read_blk64(fs->io, ext2fs_block_bitmap_loc(fs, group), 1, bitmap);
	/* The kernel writes no bitmap where it has never allocated anything: such groups count as in use. */
	if (error || ext2fs_bg_flags_test(fs, group, EXT2_BG_BLOCK_UNINIT) ||
	    ext2fs_test_bit((block - group_start) >> fs->cluster_ratio_bits, bitmap))
		*use = PF_IN_USE;
	free(bitmap);
	return error;
}

long pf_ext4_inode(pf_ext4 *fs, uint32_t ino, struct pf_inode *out)
{
	struct ext2_inode inode;
	errcode_t error = ext2fs_read_inode(fs, ino, &inode);

	if (error)
		return error;
	out->mode = inode.i_mode;
	out->flags = inode.i_flags;
	out->size = EXT2_I_SIZE(&inode);
	/* Of directories, the upper half counts with large_dir only (ext4_isize of the kernel). */
	if (LINUX_S_ISDIR(inode.i_mode) && !ext2fs_has_feature_largedir(fs->super))
		out->size = inode.i_size;
	return 0;
}

static errcode_t emit(pf_ext4 *fs, struct sink *sink, const struct pf_node *node)
{
	if (!is_inside(fs, node->physical))
		return EXT2_ET_BAD_BLOCK_NUM;
	if (sink->count == sink->cap)
		return TOO_MANY_NODES;
	sink->out[sink->count++] = *node;
	return 0;
}

/*
 * Walks the index entries of an extent tree, depth first. An index entry names its node, so that the
 * leaves, by far the most nodes, need not be read.
 */
static errcode_t walk_extents(pf_ext4 *fs, ext2_extent_handle_t handle, struct sink *sink)
{
	struct ext2_extent_info info;
	struct ext2fs_extent extent;
	int op = EXT2_EXTENT_ROOT;
	errcode_t error = ext2fs_extent_get_info(handle, &info);

	if (error)
		return error;
	if (info.max_depth > MAX_EXTENT_DEPTH)
		return EXT2_ET_EXTENT_HEADER_BAD;
	if (info.max_depth == 0)
		return 0;
	for (;;) {
		struct pf_node node;

		error = ext2fs_extent_get(handle, op, &extent);
		if (error == EXT2_ET_EXTENT_NO_NEXT) {
			error = ext2fs_extent_get(handle, EXT2_EXTENT_UP, &extent);
			if (error == EXT2_ET_EXTENT_NO_UP)
				return 0;
			op = EXT2_EXTENT_NEXT_SIB;
			if (!error)
				continue;
		}
		if (!error)
			error = ext2fs_extent_get_info(handle, &info);
		if (error)
			return error;
		node.first = extent.e_lblk;
		node.len = extent.e_len ? extent.e_len : 1;
		node.physical = extent.e_pblk;
		node.depth = info.curr_level;
		error = emit(fs, sink, &node);
		if (error)
			return error;
		op = info.curr_level < info.max_depth - 1 ? EXT2_EXTENT_DOWN : EXT2_EXTENT_NEXT_SIB;
	}
}

/*
 * Indirect block `block` (0: a hole), which maps logical blocks from `first` on through `levels`
 * levels, itself included. Those of the last level are named by their parents and are not read.
 */
static errcode_t walk_indirect(pf_ext4 *fs, struct sink *sink, uint32_t block, uint64_t first,
			       int levels, uint32_t depth)
{
	uint32_t fanout = fs->blocksize / sizeof(uint32_t);
	struct pf_node node = { .first = first, .len = 1, .physical = block, .depth = depth };
	uint32_t *children;
	uint64_t child_len;
	errcode_t error;
	uint32_t i;
	int level;

	if (block == 0)
		return 0;
	for (level = 0; level < levels; level++)
		node.len *= fanout;
	error = emit(fs, sink, &node);
	if (error || levels == 1)
		return error;
	children = malloc(fs->blocksize);
	if (!children)
		return EXT2_ET_NO_MEMORY;
	error = io_channel_read_blk64(fs->io, block, 1, children);
	child_len = node.len / fanout;
	for (i = 0; !error && i < fanout; i++)
		error = walk_indirect(fs, sink, ext2fs_le32_to_cpu(children[i]), first + i * child_len,
				      levels - 1, depth + 1);
	free(children);
	return error;
}

static errcode_t walk_block_map(pf_ext4 *fs, const struct ext2_inode *inode, struct sink *sink)
{
	uint64_t first = EXT2_NDIR_BLOCKS;
	uint64_t len = 1;
	int levels;

	for (levels = 1; levels <= 3; levels++) {
		errcode_t error = walk_indirect(fs, sink, inode->i_block[EXT2_IND_BLOCK + levels - 1],
						first, levels, 0);

		if (error)
			return error;
		len *= fs->blocksize / sizeof(uint32_t);
		first += len;
	}
	return 0;
}

/* Whether i_block maps blocks: it may hold a short link's target, a device's number or inline data. */
static int has_block_map(struct ext2_inode *inode)
{
	if (inode->i_flags & EXT4_INLINE_DATA_FL)
		return 0;
	return LINUX_S_ISREG(inode->i_mode) || LINUX_S_ISDIR(inode->i_mode) ||
	       (LINUX_S_ISLNK(inode->i_mode) && !ext2fs_is_fast_symlink(inode));
}

/*
 * The extent-tree nodes or indirect blocks of a regular file, directory or symbolic link, parents before
 * children. Writes the first `cap` of them to `out` and their number to `count`. A file with more than
 * `cap` nodes is an error (TOO_MANY_NODES): a caller's bound on a damaged tree that runs in circles.
 */
long pf_ext4_nodes(pf_ext4 *fs, uint32_t ino, struct pf_node *out, size_t cap, size_t *count)
{
	struct sink sink = { .out = out, .cap = cap };
	ext2_extent_handle_t handle;
	struct ext2_inode inode;
	errcode_t error = ext2fs_read_inode(fs, ino, &inode);

	*count = 0;
	if (error)
		return error;
	if (!has_block_map(&inode))
		return 0;
	if (inode.i_flags & EXT4_EXTENTS_FL) {
		error = ext2fs_extent_open2(fs, ino, &inode, &handle);
		if (error)
			return error;
		error = walk_extents(fs, handle, &sink);
		ext2fs_extent_free(handle);
	} else {
		error = walk_block_map(fs, &inode, &sink);
	}
	*count = sink.count;
	return error;
}

/* The place of a logical block of the inode; 0 in holes and where nothing was written yet. */
long pf_ext4_map(pf_ext4 *fs, uint32_t ino, uint64_t logical, uint64_t *physical)
{
	struct ext2_inode inode;
	blk64_t block = 0;
	int flags = 0;
	errcode_t error = ext2fs_read_inode(fs, ino, &inode);

	*physical = 0;
	if (error)
		return error;
	if (!has_block_map(&inode))
		return 0;
	error = ext2fs_bmap2(fs, ino, &inode, NULL, 0, logical, &flags, &block);
	if (error || block == 0 || (flags & BMAP_RET_UNINIT))
		return error;
	if (!is_inside(fs, block))
		return EXT2_ET_BAD_BLOCK_NUM;
	*physical = block;
	return 0;
}

/* Reads one block into `out`, which has room for a block. */
long pf_ext4_read_block(pf_ext4 *fs, uint64_t block, void *out)
{
	return is_inside(fs, block) ? io_channel_read_blk64(fs->io, block, 1, out) :
				      EXT2_ET_BAD_BLOCK_NUM;
}

/* Whether the file system's hashes take the bytes of names as unsigned. */
static int has_unsigned_hash(const struct ext2_super_block *super)
{
	if (super->s_flags & EXT2_FLAGS_UNSIGNED_HASH)
		return 1;
	if (super->s_flags & EXT2_FLAGS_SIGNED_HASH)
		return 0;
	/* Without either flag, the kernel takes them as its own C compiler does. */
	return (char)-1 > 0;
}

/*
 * The hash of a name in a directory whose index root names hash `version`, as ext4fs_dirhash of the kernel
 * computes it.
 */
long pf_ext4_name_hash(const pf_ext4 *fs, uint8_t version, const char *name, size_t len, uint32_t *hash)
{
	ext2_dirhash_t major;
	errcode_t error;

	if (len > EXT2_NAME_LEN || version > EXT2_HASH_TEA)
		return EXT2_ET_DIRHASH_UNSUPP;
	if (has_unsigned_hash(fs->super))
		version += EXT2_HASH_LEGACY_UNSIGNED;
	error = ext2fs_dirhash(version, name, len, fs->super->s_hash_seed, &major, NULL);
	if (error)
		return error;
	*hash = major == HASH_EOF ? HASH_EOF - 2 : major;
	return 0;
}

/* The error's text, in static memory. libext2fs keeps a list of texts without a lock: one call at a time. */
const char *pf_ext4_error(long error)
{
	initialize_ext2_error_table();
	return error_message(error);
}
