/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the parts of the shim share; not for the Rust side. */
#ifndef PARALFETCH_EXT4_SHIM_FS_H
#define PARALFETCH_EXT4_SHIM_FS_H

#include <ext2fs.h>

struct pf_ext4 {
	ext2_filsys fs;
};

#endif
