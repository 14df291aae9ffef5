//! Launching and measuring: the order of scenarios, what disturbs a run, and resuming.
//!
//! A [`session`] mounts the image on a drive and starts one process for each [`job`]: all launches of
//! one app. The job learns what its [`scenarios`](crate::scenarios) need, performs the launches that are missing (in
//! [`turns`]) with a [`launcher`], and adds a record of each to the [`journal`](crate::journal). Unprefixed launches
//! are left to a [`service`].

mod accuracy;
mod background;
mod disturbance;
mod dynamic;
mod effort;
pub mod job;
pub mod launcher;
pub mod learned_store;
mod learning;
mod lessons;
mod live;
mod meanwhile;
mod misses;
mod one_processor;
mod perf;
mod progress;
mod served;
pub mod service;
pub mod service_state;
pub mod session;
mod stretches;
mod together;
pub mod turns;
mod wait;
pub mod work;
pub mod writer;
