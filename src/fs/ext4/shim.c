/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "shim.h"

#include <stdlib.h>
#include <string.h>

#include <com_err.h>
#include <ext2fs.h>

#include "shim_fs.h"

/* The kernel's EXT4_MAX_EXTENT_DEPTH: no valid tree is deeper. */
#define MAX_EXTENT_DEPTH 5

/* The caller's array. */
struct sink {
	struct pf_node *out;
	size_t cap;
	size_t count;
};

long pf_ext4_open(const char *path, struct pf_ext4 **out)
{
	/*
	 * Buffered and not exclusive: the kernel changes a mounted file system's metadata in the block
	 * device's page cache, and that is where we read it. Checksums may be caught in mid-change.
	 */
	int flags = EXT2_FLAG_64BITS | EXT2_FLAG_SKIP_MMP | EXT2_FLAG_IGNORE_CSUM_ERRORS;
	struct pf_ext4 *opened = calloc(1, sizeof(*opened));
	errcode_t error;

	if (!opened)
		return EXT2_ET_NO_MEMORY;
	error = ext2fs_open2(path, NULL, flags, 0, 0, unix_io_manager, &opened->fs);
	if (error) {
		free(opened);
		return error;
	}
	*out = opened;
	return 0;
}

void pf_ext4_close(struct pf_ext4 *fs)
{
	ext2fs_free(fs->fs);
	free(fs->journal);
	free(fs);
}

uint32_t pf_ext4_block_size(const struct pf_ext4 *fs)
{
	return fs->fs->blocksize;
}

uint64_t pf_ext4_blocks(const struct pf_ext4 *fs)
{
	return ext2fs_blocks_count(fs->fs->super);
}

void pf_ext4_uuid(const struct pf_ext4 *fs, uint8_t uuid[16])
{
	memcpy(uuid, fs->fs->super->s_uuid, 16);
}

long pf_ext4_inode_block(const struct pf_ext4 *fs, uint32_t ino, uint64_t *block,
			 uint32_t *offset)
{
	struct ext2_super_block *super = fs->fs->super;
	uint32_t per_group = EXT2_INODES_PER_GROUP(super);
	uint64_t in_table;

	if (ino == 0 || ino > super->s_inodes_count || per_group == 0 ||
	    (ino - 1) / per_group >= fs->fs->group_desc_count)
		return EXT2_ET_BAD_INODE_NUM;
	in_table = (uint64_t)((ino - 1) % per_group) * EXT2_INODE_SIZE(super);
	*block = ext2fs_inode_table_loc(fs->fs, (ino - 1) / per_group) + in_table / fs->fs->blocksize;
	*offset = in_table % fs->fs->blocksize;
	return *block < ext2fs_blocks_count(super) ? 0 : EXT2_ET_GDESC_BAD_INODE_TABLE;
}

static int note_journal_block(ext2_filsys fs, blk64_t *block, e2_blkcnt_t index, blk64_t ref_block,
			      int ref_offset, void *data)
{
	struct pf_ext4 *owner = data;
	struct run *last = owner->journal_runs ? &owner->journal[owner->journal_runs - 1] : NULL;

	(void)fs;
	(void)index;
	(void)ref_block;
	(void)ref_offset;
	if (last && last->start + last->len == *block) {
		last->len++;
		return 0;
	}
	/* Room for 16 runs at a time. */
	if (owner->journal_runs % 16 == 0) {
		struct run *grown = realloc(owner->journal,
					    (owner->journal_runs + 16) * sizeof(*grown));

		if (!grown)
			return BLOCK_ABORT;
		owner->journal = grown;
	}
	owner->journal[owner->journal_runs++] = (struct run){ .start = *block, .len = 1 };
	return 0;
}

static errcode_t find_journal(struct pf_ext4 *fs)
{
	ext2_ino_t ino = fs->fs->super->s_journal_inum;
	errcode_t error;

	if (fs->journal_known)
		return 0;
	if (ino) {
		error = ext2fs_block_iterate3(fs->fs, ino, BLOCK_FLAG_READ_ONLY | BLOCK_FLAG_DATA_ONLY,
					      NULL, note_journal_block, fs);
		if (error)
			return error;
	}
	fs->journal_known = 1;
	return 0;
}

/* The superblock of each group that has one, with the descriptors behind it. */
static int is_super_or_descriptors(ext2_filsys fs, dgrp_t group, uint64_t block)
{
	blk64_t super, old_desc, new_desc;
	uint64_t old_blocks = fs->desc_blocks + fs->super->s_reserved_gdt_blocks;

	ext2fs_super_and_bgd_loc2(fs, group, &super, &old_desc, &new_desc, NULL);
	/* Block 0 stands for "none", except in the first group. */
	if (block == super && (super || group == 0))
		return 1;
	return (old_desc && block >= old_desc && block < old_desc + old_blocks) ||
	       (new_desc && block == new_desc);
}

long pf_ext4_fixed(struct pf_ext4 *owner, uint64_t block, enum pf_fixed *kind)
{
	ext2_filsys fs = owner->fs;
	errcode_t error;
	dgrp_t group;
	size_t i;

	*kind = PF_FIXED_NONE;
	for (group = 0; group < fs->group_desc_count; group++) {
		/* With flex groups these lie anywhere: each group must be asked. */
		blk64_t table = ext2fs_inode_table_loc(fs, group);

		if (block == ext2fs_block_bitmap_loc(fs, group))
			*kind = PF_FIXED_BLOCK_BITMAP;
		else if (block == ext2fs_inode_bitmap_loc(fs, group))
			*kind = PF_FIXED_INODE_BITMAP;
		else if (block >= table && block < table + fs->inode_blocks_per_group)
			*kind = PF_FIXED_INODE_TABLE;
		else if (is_super_or_descriptors(fs, group, block))
			*kind = PF_FIXED_SUPER;
		else
			continue;
		return 0;
	}
	error = find_journal(owner);
	for (i = 0; !error && i < owner->journal_runs; i++) {
		if (block >= owner->journal[i].start &&
		    block < owner->journal[i].start + owner->journal[i].len)
			*kind = PF_FIXED_JOURNAL;
	}
	return error;
}

static errcode_t emit(const struct pf_ext4 *fs, struct sink *sink, const struct pf_node *node)
{
	if (node->physical < fs->fs->super->s_first_data_block ||
	    node->physical >= ext2fs_blocks_count(fs->fs->super))
		return EXT2_ET_BAD_BLOCK_NUM;
	if (sink->count == sink->cap)
		return EXT2_ET_NO_MEMORY;
	sink->out[sink->count++] = *node;
	return 0;
}

/*
 * Walks the index entries of an extent tree, depth first. Each names a node, so the leaves, which
 * are the most, need not be read.
 */
static errcode_t walk_extents(struct pf_ext4 *fs, ext2_extent_handle_t handle, struct sink *sink)
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
static errcode_t walk_indirect(struct pf_ext4 *fs, struct sink *sink, uint32_t block, uint64_t first,
			       int levels, uint32_t depth)
{
	uint32_t fanout = fs->fs->blocksize / sizeof(uint32_t);
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
	children = malloc(fs->fs->blocksize);
	if (!children)
		return EXT2_ET_NO_MEMORY;
	error = io_channel_read_blk64(fs->fs->io, block, 1, children);
	child_len = node.len / fanout;
	for (i = 0; !error && i < fanout; i++)
		error = walk_indirect(fs, sink, ext2fs_le32_to_cpu(children[i]), first + i * child_len,
				      levels - 1, depth + 1);
	free(children);
	return error;
}

static errcode_t walk_block_map(struct pf_ext4 *fs, const struct ext2_inode *inode, struct sink *sink)
{
	uint64_t first = EXT2_NDIR_BLOCKS;
	uint64_t len = 1;
	int levels;

	for (levels = 1; levels <= 3; levels++) {
		errcode_t error = walk_indirect(fs, sink, inode->i_block[EXT2_IND_BLOCK + levels - 1],
						first, levels, 0);

		if (error)
			return error;
		len *= fs->fs->blocksize / sizeof(uint32_t);
		first += len;
	}
	return 0;
}

long pf_ext4_nodes(struct pf_ext4 *fs, uint32_t ino, struct pf_node *out, size_t cap, size_t *count)
{
	struct sink sink = { .out = out, .cap = cap };
	ext2_extent_handle_t handle;
	struct ext2_inode inode;
	errcode_t error = ext2fs_read_inode(fs->fs, ino, &inode);

	*count = 0;
	if (error)
		return error;
	if (!LINUX_S_ISREG(inode.i_mode) || (inode.i_flags & EXT4_INLINE_DATA_FL))
		return 0;
	if (inode.i_flags & EXT4_EXTENTS_FL) {
		error = ext2fs_extent_open2(fs->fs, ino, &inode, &handle);
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

const char *pf_ext4_error(long error)
{
	initialize_ext2_error_table();
	return error_message(error);
}
