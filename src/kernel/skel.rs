//! The generated skeleton of the BPF object; the only file that includes it.

include!(concat!(env!("OUT_DIR"), "/paralfetch.skel.rs"));
