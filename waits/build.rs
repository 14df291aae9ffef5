//! Compiles the detector's BPF programs, with a Rust skeleton generated from them.

use std::env;
use std::path::PathBuf;

use libbpf_cargo::SkeletonBuilder;

fn main() {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("set by cargo"));
    let own = root.join("src/bpf");
    // The kernel's types and the layout of bios come from the product's headers.
    let shared = root.join("../src/kernel/bpf");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("set by cargo")).join("waits.skel.rs");
    println!("cargo:rerun-if-changed={}", own.display());
    println!("cargo:rerun-if-changed={}", shared.display());
    let include = format!("-I{}", shared.display());
    if let Err(error) = SkeletonBuilder::new()
        .source(own.join("waits.bpf.c"))
        .clang_args(["-mcpu=v3", "-Wall", "-Werror", &include])
        // Nobody reads the skeleton, and a minimal toolchain has no rustfmt: name one that does not
        // exist, and formatting is skipped.
        .rustfmt("no-rustfmt")
        .build_and_generate(&out)
    {
        // A panic is how a build script fails; the message is what the person building sees.
        panic!("cannot compile waits.bpf.c: {error:#}");
    }
}
