#!/usr/bin/env bash
# Fuzzes every target for a while, from its seeds on, as many targets at a time as there are processors.
#
#   scripts/fuzz.sh [SECONDS]     (60 for each target)
#
# What is found goes to fuzz/corpus and fuzz/artifacts. Sanitizers and coverage need the compiler's unstable
# options, which the stable compiler is told to accept.

# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"

FUZZ_SECONDS=${1:-60}
# As cargo-fuzz has them.
FLAGS="--cfg fuzzing -Zsanitizer=address -Cdebug-assertions -Cpasses=sancov-module"
for option in level=4 inline-8bit-counters pc-table trace-compares; do
    FLAGS+=" -Cllvm-args=-sanitizer-coverage-$option"
done

# fuzz_target NAME: prints the log only when something is found.
fuzz_target() {
    local name=$1 corpus log status=0
    corpus=$REPO/fuzz/corpus/$name
    log=$(mktemp)
    mkdir -p "$corpus" "$REPO/fuzz/artifacts/$name"
    # New inputs go to the first directory; the seeds in the second are only read.
    PARALFETCH_FUZZ_TARGET=$name "$PROGRAM" -max_total_time="$FUZZ_SECONDS" -timeout=60 -artifact_prefix="$REPO/fuzz/artifacts/$name/" \
        "$corpus" "$REPO/fuzz/seeds/$name" >"$log" 2>&1 || status=$?
    if ((status == 0)); then
        say "$name: $(sed -n 's/^Done \([0-9]*\) runs in \(.*\) second.*/\1 inputs in \2 s/p' "$log")"
    else
        tail -n 60 "$log"
        warn "the fuzz target $name has failed"
    fi
    rm -f "$log"
    return "$status"
}

main() {
    [[ $FUZZ_SECONDS =~ ^[1-9][0-9]*$ ]] || die "usage: fuzz.sh [SECONDS]"
    "$REPO/scripts/setup.sh" build
    # libfuzzer is C++. setup.sh installs clang, and perhaps nothing else that is called c++.
    command -v c++ >/dev/null || export CXX=${CXX:-clang++}
    local host scratch targets
    host=$(rustc -vV | sed -n 's/^host: //p')
    # With a target named, build scripts and macros are compiled without the flags.
    CARGO_PROFILE_DEV_DEBUG=line-tables-only RUSTC_BOOTSTRAP=1 RUSTFLAGS=$FLAGS \
        cargo build --manifest-path "$REPO/fuzz/Cargo.toml" --bins --locked --target "$host" \
        --target-dir "$TARGET_DIR/fuzz"
    PROGRAM=$TARGET_DIR/fuzz/$host/debug/fuzz
    mapfile -t targets < <(ls "$REPO/fuzz/seeds")
    # Targets may leave files of their own behind.
    scratch=$(mktemp -d)
    # shellcheck disable=SC2064 # its name now
    trap "rm -rf '$scratch'" EXIT
    export TMPDIR=$scratch REPO FUZZ_SECONDS PROGRAM
    export -f fuzz_target say warn die
    say "Fuzzing ${#targets[@]} targets for $FUZZ_SECONDS s each"
    printf '%s\n' "${targets[@]}" | xargs -P "$(nproc)" -I TARGET bash -euc 'fuzz_target TARGET'
}

main
