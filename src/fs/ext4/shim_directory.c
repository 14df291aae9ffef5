/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What reading directories takes: raw blocks, and names hashed and compared as the kernel does. */
#include "shim.h"

#include <ext2fs.h>

#include "shim_fs.h"

/* SB_ENC_NO_COMPAT_FALLBACK_FL of the kernel, which headers of libext2fs may not have. */
#define NO_COMPAT_FALLBACK 0x2

/* EXT4_HTREE_EOF_32BIT of the kernel, as it appears in a hash: no name has it. */
#define HASH_EOF 0xfffffffeU

void pf_ext4_traits(const struct pf_ext4 *fs, struct pf_traits *traits)
{
	struct ext2_super_block *super = fs->fs->super;

	traits->first_block = super->s_first_data_block;
	traits->inode_size = EXT2_INODE_SIZE(super);
	traits->cluster_size = EXT2_CLUSTER_SIZE(super);
	traits->flags = 0;
	if (ext2fs_has_feature_dir_index(super))
		traits->flags |= PF_DIR_INDEX;
	if (ext2fs_has_feature_largedir(super))
		traits->flags |= PF_LARGE_DIR;
	if (ext2fs_has_feature_metadata_csum(super))
		traits->flags |= PF_METADATA_CSUM;
	if (ext2fs_has_feature_ea_inode(super))
		traits->flags |= PF_EA_INODE;
	if (ext2fs_has_feature_64bit(super))
		traits->flags |= PF_64BIT;
	if (ext2fs_has_feature_casefold(super) && fs->fs->encoding)
		traits->flags |= PF_CASEFOLD;
	if (super->s_encoding_flags & EXT4_ENC_STRICT_MODE_FL)
		traits->flags |= PF_STRICT_NAMES;
	if (super->s_encoding_flags & NO_COMPAT_FALLBACK)
		traits->flags |= PF_NO_LINEAR_RETRY;
}

long pf_ext4_read_block(struct pf_ext4 *fs, uint64_t block, void *out)
{
	if (block < fs->fs->super->s_first_data_block || block >= ext2fs_blocks_count(fs->fs->super))
		return EXT2_ET_BAD_BLOCK_NUM;
	return io_channel_read_blk64(fs->fs->io, block, 1, out);
}

/* Whether the hashes of the file system take the bytes of names as unsigned. */
static int unsigned_hash(const struct ext2_super_block *super)
{
	if (super->s_flags & EXT2_FLAGS_UNSIGNED_HASH)
		return 1;
	if (super->s_flags & EXT2_FLAGS_SIGNED_HASH)
		return 0;
	/* A kernel that finds neither takes them as its own C compiler does. */
	return (char)-1 > 0;
}

long pf_ext4_name_hash(const struct pf_ext4 *fs, uint8_t version, const char *name, size_t len, int fold,
		       uint32_t *hash)
{
	const struct ext2_super_block *super = fs->fs->super;
	ext2_dirhash_t major;
	errcode_t error;

	if (len > EXT2_NAME_LEN || version > EXT2_HASH_TEA)
		return EXT2_ET_DIRHASH_UNSUPP;
	if (unsigned_hash(super))
		version += EXT2_HASH_LEGACY_UNSIGNED;
	error = ext2fs_dirhash2(version, name, len, fs->fs->encoding, fold ? EXT4_CASEFOLD_FL : 0,
				super->s_hash_seed, &major, NULL);
	/* A name that cannot be folded (an errno says so) is hashed as it is. */
	if (error < 0)
		error = ext2fs_dirhash(version, name, len, super->s_hash_seed, &major, NULL);
	if (error)
		return error;
	*hash = major == HASH_EOF ? HASH_EOF - 2 : major;
	return 0;
}

int pf_ext4_same_folded(const struct pf_ext4 *fs, const char *a, size_t a_len, const char *b,
			size_t b_len)
{
	return ext2fs_casefold_cmp(fs->fs->encoding, (const unsigned char *)a, a_len,
				   (const unsigned char *)b, b_len) == 0;
}

int pf_ext4_valid_name(const struct pf_ext4 *fs, const char *name, size_t len)
{
	char *invalid;

	/* It only reads the name. */
	return ext2fs_check_encoded_name(fs->fs->encoding, (char *)name, len, &invalid) == 0;
}
