//! Paralfetch: an application prefetcher for stock Linux kernels.
//!
//! The rooms stand on floors, and a room imports only from the floors below its own and from its neighbours,
//! never in a circle (`scripts/floors.py` checks it):
//!
//! | floor | rooms |
//! |---|---|
//! | 4 | [`cli`], the command line; [`mod@bench`] and [`doctor`] beside it |
//! | 3 | [`service`], which does by itself what the command line does on request |
//! | 2 | [`learn`], [`prefetch`], [`profile`], [`judge`], [`apps`], [`shield`] |
//! | 1 | [`kernel`], [`fs`], [`drive`], [`process`], and the pure functions of [`schedule`] and [`policy`] |
//! | 0 | [`model`], plain data that all floors share |
//!
//! The way of one page, from the first launch that needs it to the next: [`process`] starts the app and says
//! when its launch is over. A BPF program of [`kernel`] reports that the page was added to the page cache, or
//! used in it, as a [`model::Access`]. [`learn`] groups the launch's accesses by file, asks [`fs`] where the
//! page lies on the disk and which metadata it depends on, and makes it part of the launch sequence.
//! [`schedule`] merges and orders the sequence for the drive that [`drive`] describes, and [`profile`] stores
//! it. At the next launch, [`prefetch`] reads the page ahead while the app starts. [`judge`] lists the pages
//! that the app had to read itself nevertheless, and [`policy`] decides whether the app is tuned, learned again
//! or left alone.
//!
//! [`apps`] says which app a launch belongs to. [`model`], [`schedule`] and [`policy`] are plain functions
//! over plain data: they know nothing of kernels, files and root.

pub mod apps;
pub mod bench;
pub mod cli;
pub mod doctor;
pub mod drive;
pub mod fs;
pub mod judge;
pub mod kernel;
pub mod learn;
pub mod model;
pub mod policy;
pub mod prefetch;
pub mod process;
pub mod profile;
pub mod schedule;
pub mod service;
pub mod shield;
