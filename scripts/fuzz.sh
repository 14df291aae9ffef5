#!/usr/bin/env bash
# Fuzzes every target for a while.
#
#   scripts/fuzz.sh [SECONDS]     (60 for each target)
#
# The sanitizers need the compiler's unstable options: a nightly toolchain where rustup has one, or
# the stable one told to accept them.

# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"

FUZZ_SECONDS=${1:-60}

main() {
    [[ $FUZZ_SECONDS =~ ^[1-9][0-9]*$ ]] || die "usage: fuzz.sh [SECONDS]"
    [[ -d $REPO/fuzz/fuzz_targets ]] || die "there are no fuzz targets in $REPO/fuzz"
    "$REPO/scripts/setup.sh" build
    if ! cargo fuzz --version >/dev/null 2>&1; then
        say "Installing cargo-fuzz"
        cargo install --locked cargo-fuzz
    fi
    if ! cargo -V | grep -q nightly; then
        export RUSTC_BOOTSTRAP=1
    fi
    local target corpus=()
    for target in "$REPO"/fuzz/fuzz_targets/*.rs; do
        target=$(basename "$target" .rs)
        # New inputs go to the first directory; the seeds in the second are only read.
        corpus=("fuzz/corpus/$target")
        as_invoker mkdir -p "$REPO/${corpus[0]}"
        [[ ! -d $REPO/fuzz/seeds/$target ]] || corpus+=("fuzz/seeds/$target")
        say "Fuzzing $target for $FUZZ_SECONDS s"
        cargo fuzz run "$target" "${corpus[@]}" -- -max_total_time="$FUZZ_SECONDS"
    done
}

main
