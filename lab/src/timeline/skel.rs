//! The generated skeleton of the BPF object; the only file that includes it.
#![allow(
    missing_docs,
    clippy::all,
    reason = "generated code is not ours to improve"
)]

include!(concat!(env!("OUT_DIR"), "/timeline.skel.rs"));
