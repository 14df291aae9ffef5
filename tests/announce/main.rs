//! Announcements by real processes of real users, through real sockets and pipes.

mod activation;
mod file;
mod place;
mod server;
mod socket;
