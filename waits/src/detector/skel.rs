//! The generated skeleton of the detector's BPF object; the only file that includes it.

include!(concat!(env!("OUT_DIR"), "/waits.skel.rs"));
