#!/usr/bin/env bash
# The quick checks of a change: format, lints, floors, scripts, unit tests.
#
#   scripts/check.sh
#
# Needs neither root nor, once the dependencies have been fetched, the network. All parts run, also
# after one has failed. What is missing on a fresh system, `make setup` installs.

# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

FUZZ_MANIFEST=fuzz/Cargo.toml

# What the test programs print, for the sum of their results.
TESTS_LOG=$TARGET_DIR/tests.log
# A line for each part: seconds, verdict, name.
PARTS=()
FAILED=()

# part NAME COMMAND…: runs one part and notes how long it took. A failure is reported at the end.
part() {
    local name=$1 started=$SECONDS status
    say "$name"
    # In a condition, bash would ignore errexit in the functions that are called.
    set +e
    (
        set -e
        "${@:2}"
    )
    status=$?
    set -e
    # Ctrl-C ends the whole run, not one part.
    ((status != 130)) || exit 130
    ((status == 0)) || FAILED+=("$name")
    PARTS+=("$(printf '%4d:%02d  %s%s' $(((SECONDS - started) / 60)) $(((SECONDS - started) % 60)) \
        "$name" "$( ((status == 0)) || echo ' (FAILED)')")")
}

# finish: prints the parts' times and the sum of all test programs' results; the exit status of the run.
finish() {
    say "Time of each part (min:s)"
    printf '%s\n' "${PARTS[@]}"
    printf '%4d:%02d  in total\n' $((SECONDS / 60)) $((SECONDS % 60))
    # libtest and our own harnesses end with the same line.
    awk '/^test result:/ { passed += $4; failed += $6 }
        END { print passed + 0 " passed, " failed + 0 " failed" }' "$TESTS_LOG"
    ((${#FAILED[@]} == 0)) || die "failed: $(printf '%s; ' "${FAILED[@]}" | sed 's/; $//')"
}

format() {
    cargo fmt --all --check
    cargo fmt --manifest-path "$FUZZ_MANIFEST" --check
}

lints() { cargo clippy --workspace --all-targets --locked -- -D warnings; }

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
        cargo doc --workspace --no-deps --document-private-items --locked
}

# Debug builds, for the compiler's checks of arithmetic.
unit_tests() { cargo test --workspace --lib --locked --no-fail-fast 2>&1 | tee -a "$TESTS_LOG"; }

check() {
    find_cargo || die "no cargo $(rust_floor) or newer: run 'make setup'"
    command -v shellcheck >/dev/null || die "shellcheck is missing: run 'make setup'"
    as_invoker mkdir -p "$TARGET_DIR"
    as_invoker tee "$TESTS_LOG" </dev/null >/dev/null
    part "Format" format
    part "Floors of the source tree" "$REPO/scripts/floors.py"
    part "Words" "$REPO/scripts/check_words.sh"
    part "Names in the documentation" "$REPO/scripts/check_docs.py"
    part "Scripts" scripts
    part "Lints" lints
    part "Version and copyright" release_notes
    part "Links in the code's documentation" documentation
    part "Unit tests" unit_tests
}

# scripts/test.sh goes on from here.
if [[ ${BASH_SOURCE[0]} == "$0" ]]; then
    check
    finish
fi
