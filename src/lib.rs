//! Paralfetch: an application prefetcher for stock Linux kernels.
//!
//! The modules are the pipeline, in the order in which a launch flows through it:
//! [`launch`] starts an application and says when its launch is over, [`trace`] watches which blocks
//! the launch reads, [`resolve`] turns what was seen into a launch sequence with its metadata
//! dependencies and disk positions, [`schedule`] orders and merges it for the drive that [`device`]
//! describes, [`profile`] stores the result, and [`prefetch`] reads it ahead at every later launch.
//! [`judge`] says what a prefetched launch still had to read itself, and why, and [`phases`] what is
//! done with the app's next launch after that: learn, prefetch, schedule anew, or leave it alone.
//! [`manager`] ties the phases together; the command line stands on top of it. [`config`] is what the
//! administrator may set, [`history`] keeps what became of launches, and [`doctor`] says what of all
//! this the running system allows.
//!
//! [`schedule`], [`phases`] and the profile format are plain functions over plain data: they know
//! nothing of kernels and root.

pub mod bench;
pub mod cli;
pub mod config;
pub mod device;
pub mod doctor;
pub mod history;
pub mod judge;
pub mod launch;
pub mod manager;
pub mod phases;
pub mod prefetch;
pub mod profile;
pub mod resolve;
pub mod schedule;
pub mod trace;
mod trusted;
