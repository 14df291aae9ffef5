//! What runs inside a virtual machine, as an administrator or a user would do it by hand.

pub mod journal;
pub mod system;
