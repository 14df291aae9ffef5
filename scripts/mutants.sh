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
ROOMS=(schedule policy profile model)

"$REPO/scripts/setup.sh" build test
find_cargo || die "no cargo $(rust_floor) or newer: run 'make setup'"
cargo mutants --version >/dev/null 2>&1 || cargo install --locked cargo-mutants
files=()
for room in "${ROOMS[@]}"; do
    files+=(--file "src/$room/**")
done
cargo mutants --package paralfetch --no-shuffle "${files[@]}" --output "$TARGET_DIR" --timeout 300 "$@" -- --lib
