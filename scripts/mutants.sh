#!/usr/bin/env bash
# Changes the pure code in many small ways, one at a time, and shows which changes no unit test notices.
#
#   scripts/mutants.sh [cargo-mutants options, such as --shard 0/8]
#
# Takes hours: each change is compiled and tested. What survives is listed in target/mutants.out/missed.txt. Installs
# cargo-mutants, if it is missing, for the invoking user.

# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"

# The rooms that are plain functions over plain data.
ROOMS=(model policy profile schedule)

# What of other crates they use.
CRATES=(crc32fast miniz_oxide postcard serde serde_json thiserror)
TEST_CRATES=(proptest)

# Those rooms as a crate of their own, which is compiled in a tenth of the time of the whole.
PURE=$TARGET_DIR/pure

# dependencies CRATE…: their lines in the product's manifest.
dependencies() {
    local crate
    for crate; do
        grep -m 1 "^$crate = " "$REPO/Cargo.toml" || die "Cargo.toml does not name $crate"
    done
}

manifest() {
    printf '[package]\nname = "pure"\nversion = "0.0.0"\nedition = "2024"\n'
    printf '[workspace]\n[dependencies]\n'
    dependencies "${CRATES[@]}"
    printf '[dev-dependencies]\n'
    dependencies "${TEST_CRATES[@]}"
    # Our own code is compiled for each change, proptest once.
    printf '[profile.dev]\ndebug = "line-tables-only"\n[profile.dev.package."*"]\nopt-level = 3\n'
}

# copy: without profile's store, which is all about files.
copy() {
    local room
    as_invoker rm -rf "$PURE/src" "$PURE/fuzz"
    as_invoker mkdir -p "$PURE/src" "$PURE/fuzz"
    for room in "${ROOMS[@]}"; do
        as_invoker cp -r "$REPO/src/$room" "$PURE/src/"
    done
    as_invoker rm -r "$PURE"/src/profile/store*
    as_invoker sed -i '/^mod store;$/d; /^pub use store::/d' "$PURE/src/profile/mod.rs"
    as_invoker cp -r "$REPO/fuzz/seeds" "$PURE/fuzz/"
    as_invoker cp "$REPO/Cargo.lock" "$PURE/"
    { echo '#![allow(dead_code)]' && printf 'pub mod %s;\n' "${ROOMS[@]}"; } | as_invoker tee "$PURE/src/lib.rs" >/dev/null
    manifest | as_invoker tee "$PURE/Cargo.toml" >/dev/null
}

"$REPO/scripts/setup.sh" build test
find_cargo || die "no cargo $(rust_floor) or newer: run 'make setup'"
cargo mutants --version >/dev/null 2>&1 || cargo install --locked cargo-mutants
copy
# The copy is in a directory that git ignores. Each job compiles in a directory of its own: in one for all, a job's tests would be
# those of another one's change.
unset CARGO_TARGET_DIR
cargo mutants --dir "$PURE" --gitignore=false --no-shuffle --output "$TARGET_DIR" --timeout 300 "$@" -- --lib
