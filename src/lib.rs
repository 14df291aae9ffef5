//! Paralfetch: an application prefetcher for stock Linux kernels.
//!
//! The modules are the pipeline, in the order in which a launch flows through it:
//! [`launch`] starts an application and says when its launch is over, [`trace`] watches which blocks
//! the launch reads, [`resolve`] turns what was seen into a launch sequence with its metadata
//! dependencies and disk positions, [`schedule`] orders and merges it for the drive that [`device`]
//! describes, [`profile`] stores the result, and [`prefetch`] reads it ahead at every later launch.
//! [`judge`] says what a prefetched launch still had to read itself, and why.
//!
//! [`manager`] learns launches from these parts, and [`cli`] is the command line on top of it. [`doctor`]
//! says what of all this the running system allows, and [`bench`] what it gains.
//!
//! The system service does the same by itself, for launches that others start: [`watch`] sees them in
//! the kernel and counts what they cost, [`announce`] hears of those that happen without execve, [`apps`]
//! says which app a launch is, and [`phases`] what is done with the app's next one: learn, prefetch,
//! schedule anew, or leave it alone. [`service`] is the event loop that ties them together
//! (`docs/service.md`). [`config`] is what the administrator may set, [`history`] keeps what became of
//! launches, and over [`bus`] the command line and other programs talk to the service.
//!
//! [`schedule`], [`phases`] and the profile format are plain functions over plain data: they know
//! nothing of kernels and root.

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
