//! Announcements by real processes of real users, through real sockets and pipes.

#[path = "../common/mod.rs"]
mod common;

mod activation;
mod file;
mod place;
mod server;
mod socket;
