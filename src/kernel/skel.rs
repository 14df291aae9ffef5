//! The generated skeletons of the BPF objects; the only file that includes them.

pub mod learn {
    include!(concat!(env!("OUT_DIR"), "/learn.skel.rs"));
}

pub mod meter {
    include!(concat!(env!("OUT_DIR"), "/meter.skel.rs"));
}

pub mod probe {
    include!(concat!(env!("OUT_DIR"), "/probe.skel.rs"));
}
