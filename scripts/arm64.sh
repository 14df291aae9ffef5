#!/usr/bin/env bash
# Builds the program for arm64 on another processor, and tries it under emulation. Needs Debian 12 or newer.
#
#   scripts/arm64.sh [--tests]
#
# It becomes target/aarch64-unknown-linux-gnu/release/paralfetch, of which `scripts/deb.sh --binary` and the like make
# packages. What needs a kernel of that processor (BPF) is not tried. --tests runs the unit tests, too.

# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"

TARGET=aarch64-unknown-linux-gnu
PROGRAM=$TARGET_DIR/$TARGET/release/paralfetch
EMULATOR=qemu-aarch64-static

# libext2fs-dev cannot be installed for two processors. This is what of it is for one.
EXT2FS=$TARGET_DIR/$TARGET/libext2fs
EXT2FS_LIBRARIES=$EXT2FS/usr/lib/aarch64-linux-gnu

# fetch_ext2fs: its pkg-config file, and the library's name for the linker.
fetch_ext2fs() {
    as_invoker rm -rf "$EXT2FS"
    as_invoker mkdir -p "$EXT2FS"
    (cd "$EXT2FS" && as_invoker apt-get -q download libext2fs-dev:arm64 && as_invoker dpkg-deb --extract libext2fs-dev_*.deb .) ||
        die "apt-get could not fetch libext2fs-dev:arm64: see its message above"
    as_invoker ln -sf /usr/lib/aarch64-linux-gnu/libext2fs.so.2 "$EXT2FS_LIBRARIES/libext2fs.so"
}

# cross ARGUMENTS…: cargo, with the compiler and the libraries of arm64.
cross() {
    local settings=(
        CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
        CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="$EMULATOR"
        CC_aarch64_unknown_linux_gnu=aarch64-linux-gnu-gcc
        PKG_CONFIG_ALLOW_CROSS=1
        PKG_CONFIG_LIBDIR="$EXT2FS_LIBRARIES/pkgconfig:/usr/lib/aarch64-linux-gnu/pkgconfig"
        RUSTFLAGS="${RUSTFLAGS:-} -Lnative=$EXT2FS_LIBRARIES"
    )
    find_cargo || die "no cargo $(rust_floor) or newer: run 'make setup'"
    (cd "$REPO" && as_invoker env "${settings[@]}" "$CARGO" "$@" --locked --target "$TARGET" --package paralfetch)
}

# try: the program, and what is in its BPF objects.
try() {
    local version
    version=$("$EMULATOR" "$PROGRAM" --version)
    [[ $version == "paralfetch $("$REPO/scripts/versions.py" --version)"* ]] ||
        die "under $EMULATOR, the program says '$version'"
    "$EMULATOR" "$PROGRAM" --help >/dev/null
    # Where there is no kernel of its processor, it says what is missing and ends.
    "$EMULATOR" "$PROGRAM" doctor >/dev/null || [[ $? -eq 1 ]] || die "under $EMULATOR, doctor failed"
    say "It runs under $EMULATOR: $version"
}

main() {
    [[ $# -eq 0 || $* == --tests ]] || die "usage: arm64.sh [--tests]"
    "$REPO/scripts/setup.sh" build arm64
    fetch_ext2fs
    say "Building Paralfetch for arm64"
    cross build --release
    try
    [[ $# -eq 0 ]] || cross test --lib
    say "Built $PROGRAM"
}

main "$@"
