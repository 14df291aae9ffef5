/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the parts of the shim share; not for the Rust side. */
#ifndef PARALFETCH_EXT4_SHIM_FS_H
#define PARALFETCH_EXT4_SHIM_FS_H

#include <ext2fs.h>

/* Consecutive blocks. */
struct run {
	uint64_t start;
	uint64_t len;
};

struct pf_ext4 {
	ext2_filsys fs;
	/* Where the journal lies; looked up when it is first asked for. */
	struct run *journal;
	size_t journal_runs;
	int journal_known;
};

#endif
