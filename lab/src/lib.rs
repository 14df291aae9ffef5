//! Paralfetch's laboratory: where we stand against a cold start, a warm start, the theoretical bound
//! and other prefetchers, on drives that people have.
//!
//! A session mounts the [`image`] with its [`apps`] on a [`drive`], and performs an [`experiment`]:
//! launches in [`scenarios`] on a [`display`], with one of the [`methods`] or with Paralfetch prefetching. Each launch
//! leaves a [`record`]. The [`report`] is made from records alone. [`writes`] measures single operations while the drive
//! is being written, and [`predict`] how often the next launch is foreseen.

pub mod apps;
mod child;
pub mod cli;
mod clock;
mod data_file;
mod dialogue;
pub mod display;
pub mod drive;
pub mod experiment;
pub mod image;
mod journal;
mod machine;
pub mod methods;
mod namespace;
mod noise;
pub mod predict;
mod processes;
mod random;
pub mod record;
pub mod report;
pub mod scenarios;
pub mod tables;
pub mod writes;
