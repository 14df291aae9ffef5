//! Compiles the C parts: the BPF programs, with Rust skeletons generated from them, and the shim to
//! libext2fs.

use std::env;
use std::path::PathBuf;

use libbpf_cargo::SkeletonBuilder;

fn main() {
    build_skeleton("kernel", "learn");
    build_skeleton("kernel", "meter");
    build_skeleton("kernel", "probe");
    build_skeleton("kernel/watch", "watch");
    build_ext4_shim();
}

/// `src/MODULE/bpf/NAME.bpf.c` → `$OUT_DIR/NAME.skel.rs`.
fn build_skeleton(module: &str, name: &str) {
    let source =
        PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("set by cargo")).join("src");
    let dir = source.join(module).join("bpf");
    // The kernel's types are declared once.
    let include = format!("-I{}", source.join("kernel/bpf").display());
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("set by cargo"))
        .join(format!("{name}.skel.rs"));
    println!("cargo:rerun-if-changed={}", dir.display());
    if let Err(error) = SkeletonBuilder::new()
        .source(dir.join(format!("{name}.bpf.c")))
        .clang_args(["-mcpu=v3", "-Wall", "-Werror", &include])
        // Nobody reads the skeleton, and rustup's minimal profile has a rustfmt that only fails: name
        // one that does not exist, and formatting is skipped.
        .rustfmt("no-rustfmt")
        .build_and_generate(&out)
    {
        // A panic is how a build script fails; the message is what the person building sees.
        panic!("cannot compile {name}.bpf.c: {error:#}");
    }
}

/// The narrow interface to libext2fs.
fn build_ext4_shim() {
    for name in ["shim.c", "shim.h"] {
        println!("cargo:rerun-if-changed=src/fs/ext4/{name}");
    }
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
