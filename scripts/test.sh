#!/usr/bin/env bash
# Checks the project as a change has to pass it: format, lints, scripts, tests.
#
#   scripts/test.sh
#
# Tests that need root (loop devices, mounts, tracing) run when this is started as root, or through
# sudo. Without either they say SKIPPED; PARALFETCH_REQUIRE_PRIVILEGED=1 makes that a failure.

# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"

# use_root_for_tests: compiles as the invoking user and runs only the test programs through sudo.
use_root_for_tests() {
    [[ $EUID -ne 0 ]] || return 0
    if command -v sudo >/dev/null && { sudo -n true 2>/dev/null || { [[ -t 0 ]] && sudo -v; }; }; then
        local triple
        triple=$(cargo_host_triple)
        triple=${triple^^}
        export "CARGO_TARGET_${triple//-/_}_RUNNER=sudo -E"
    elif [[ ${PARALFETCH_REQUIRE_PRIVILEGED:-} == 1 ]]; then
        die "the tests that need root cannot run: become root, or allow sudo"
    else
        warn "SKIPPED: the tests that need root do not run, because there is neither root nor sudo"
    fi
}

cargo_host_triple() { cargo -vV | sed -n 's/^host: //p'; }

main() {
    "$REPO/scripts/setup.sh" build test
    say "Format"
    cargo fmt --all --check
    say "Lints"
    cargo clippy --workspace --all-targets --locked -- -D warnings
    say "Scripts"
    (cd "$REPO" && shellcheck -x scripts/*.sh .ci/run)
    say "Tests"
    use_root_for_tests
    cargo test --workspace --locked
    say "All checks passed"
}

main
