//! What may be watched, or kept open, when no launch needs it.
//!
//! A watch (inotify) and a descriptor keep an inode in memory. As long as one of an encrypted directory is, its key stays in
//! use: a home that is locked when its user logs out (`FS_IOC_REMOVE_ENCRYPTION_KEY`) is locked in part, and its files stay
//! readable. A descriptor keeps the file system mounted besides. So what is a user's is looked at when it is needed, and let
//! go.

use super::node::OpenNode;

/// Whether this file or directory may be kept: it is the administrator's, or that of whom this program runs as.
pub fn may_be_kept(node: &OpenNode) -> bool {
    let own = rustix::process::geteuid().as_raw();
    is_nobody_elses(node.uid, own, node.is_encrypted)
}

/// What is encrypted is a user's, whoever owns it: its key may be.
fn is_nobody_elses(owner: u32, own: u32, is_encrypted: bool) -> bool {
    !is_encrypted && (owner == 0 || owner == own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_a_users_or_encrypted_is_not_kept() {
        for (owner, is_encrypted, expected) in [
            (0, false, true),
            (7, false, true),
            (1000, false, false),
            (0, true, false),
            (7, true, false),
        ] {
            assert_eq!(is_nobody_elses(owner, 7, is_encrypted), expected, "{owner}");
        }
    }
}
