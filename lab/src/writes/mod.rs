//! Single operations while the drive is being written: the experiments of the QASIO paper (FAST '15).
//!
//! A [`session`] makes an empty file system on a drive. Each run of its [`plan`] has a [`benchmark`] in a
//! process of its own ([`mod@run`], [`work`]), beside a [`background`] writer or on a quiet drive, with one of
//! the [`measures`] against waits in force: the product's shield ([`shielding`]), or none, with or without the
//! detector of who waits. What came of it is shown in [`tables`].

pub mod background;
pub mod benchmark;
pub mod dirty;
pub mod latencies;
pub mod measures;
pub mod plan;
pub mod run;
pub mod session;
pub mod shielding;
pub mod tables;
#[cfg(test)]
mod tables_test;
mod wait_tables;
mod work;
pub mod writer;
