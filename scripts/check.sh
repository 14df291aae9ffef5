#!/usr/bin/env bash
# The quick checks of a change: format, lints, floors, scripts, unit tests.
#
#   scripts/check.sh
#
# Needs neither root nor, once the dependencies have been fetched, the network. All parts run, also
# after one has failed. What is missing on a fresh system, `make setup` installs.

# shellcheck source=scripts/parts.sh
source "$(dirname "${BASH_SOURCE[0]}")/parts.sh"

FUZZ_MANIFEST=fuzz/Cargo.toml

# Longest time of one program of unit tests, in seconds: a hundred times what it needs on a quiet machine.
UNIT_SECONDS=600

# members: the names of our crates.
members() { cargo metadata --no-deps --offline --locked --format-version=1 | grep -o '"name":"[a-z-]*","version"' | cut -d '"' -f 4; }

format() {
    cargo fmt --all --check
    cargo fmt --manifest-path "$FUZZ_MANIFEST" --check
}

# In the release build's profile, here and below, so that lints, documentation, unit tests and the release tests share the
# crates of others, with their C code.
lints() { cargo clippy --workspace --all-targets --release --locked -- -D warnings; }

scripts() {
    cd "$REPO"
    shellcheck -x scripts/*.sh .ci/run
    scripts/test_install.sh
    scripts/test_desktop.py
}

# What a release says of itself: its version, and whose work is in it.
release_notes() {
    cd "$REPO"
    scripts/versions.py
    as_invoker env CARGO="$CARGO" scripts/copyright.py --check
}

# Private items, too, whose comments name each other as often.
documentation() {
    RUSTDOCFLAGS="-D warnings -A rustdoc::private_intra_doc_links" \
        cargo doc --workspace --no-deps --document-private-items --release --locked
}

# Our own crates as debug builds have them, for the compiler's checks of arithmetic. A test that waits for ever fails like
# any other.
unit_tests() {
    local programs program crates crate status=0 debug=()
    # First into variables: in the loops, a failure would go unseen, and these checks or all tests be left out.
    crates=$(members)
    for crate in $crates; do
        debug+=(--config "profile.release.package.$crate.opt-level=0"
            --config "profile.release.package.$crate.debug=\"line-tables-only\""
            --config "profile.release.package.$crate.debug-assertions=true"
            --config "profile.release.package.$crate.overflow-checks=true")
    done
    programs=$(cargo test --workspace --lib --release --locked "${debug[@]}" --no-run \
        --message-format=json-render-diagnostics | test_programs)
    [[ -n $programs ]] || die "cargo named no test program"
    while read -r program; do
        (cd "$REPO" && as_invoker timeout --kill-after=10 "$UNIT_SECONDS" "$program") 2>&1 | tee -a "$TESTS_LOG" || status=1
    done <<<"$programs"
    return "$status"
}

# What needs no compiler.
check_quickly() {
    find_cargo || die "no cargo $(rust_floor) or newer: run 'make setup'"
    command -v shellcheck >/dev/null || die "shellcheck is missing: run 'make setup'"
    begin_log
    part "Format" format
    part "Floors of the source tree" "$REPO/scripts/floors.py"
    part "Words" "$REPO/scripts/check_words.sh"
    part "Names in the documentation" "$REPO/scripts/check_docs.py"
    part "Scripts" scripts
    part "Version and copyright" release_notes
}

# scripts/test.sh goes on after check_quickly, and does the others beside its tests.
if [[ ${BASH_SOURCE[0]} == "$0" ]]; then
    check_quickly
    part "Unit tests" unit_tests
    part "Lints" lints
    part "Links in the code's documentation" documentation
    finish
fi
