//! Compiles the C parts: the BPF object, with a Rust skeleton generated from it, and the shim to libext2fs.

use std::env;
use std::path::PathBuf;

use libbpf_cargo::SkeletonBuilder;

fn main() {
    build_skeleton();
    build_ext4_shim();
}

/// `src/kernel/bpf/paralfetch.bpf.c` → `$OUT_DIR/paralfetch.skel.rs`.
fn build_skeleton() {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("set by cargo"));
    let dir = root.join("src/kernel/bpf");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("set by cargo"));
    println!("cargo:rerun-if-changed={}", dir.display());
    // The lines of the sources are in the object, which becomes a part of the program: by names that say nothing of where
    // the tree lies, so that the same tree makes the same program everywhere.
    let names = format!("-ffile-prefix-map={}=paralfetch", root.display());
    if let Err(error) = SkeletonBuilder::new()
        .source(dir.join("paralfetch.bpf.c"))
        .clang_args(["-mcpu=v3", "-Wall", "-Werror", &names])
        // Nobody reads the skeleton, and rustup's minimal profile has a rustfmt that only fails: name
        // one that does not exist, and formatting is skipped.
        .rustfmt("no-rustfmt")
        .build_and_generate(out.join("paralfetch.skel.rs"))
    {
        // A panic is how a build script fails; the message is what the person building sees.
        panic!("cannot compile paralfetch.bpf.c: {error:#}");
    }
}

/// The narrow interface to libext2fs.
fn build_ext4_shim() {
    println!("cargo:rerun-if-changed=src/fs/ext4/shim.c");
    let mut shim = cc::Build::new();
    shim.file("src/fs/ext4/shim.c")
        .std("gnu11")
        .warnings(true)
        .warnings_into_errors(true);
    // The headers of the libraries come first, the libraries themselves after the shim: the linker
    // resolves from left to right.
    for library in ["ext2fs", "com_err"] {
        match pkg_config::Config::new()
            .cargo_metadata(false)
            .probe(library)
        {
            Ok(found) => shim.includes(found.include_paths),
            Err(error) => panic!(
                "cannot find {library}: {error}\ninstall libext2fs-dev (Debian, Ubuntu), e2fsprogs-devel \
                 (Fedora) or e2fsprogs (Arch), and pkg-config"
            ),
        };
    }
    shim.compile("pf_ext4_shim");
    for library in ["ext2fs", "com_err"] {
        if let Err(error) = pkg_config::Config::new().probe(library) {
            panic!("cannot link {library}: {error}");
        }
    }
}
