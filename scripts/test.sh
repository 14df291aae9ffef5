#!/usr/bin/env bash
# Checks the project as a change has to pass it: format, lints, scripts, fuzz targets, tests.
#
#   scripts/test.sh
#
# Tests that need root (loop devices, mounts, tracing) run when this is started as root, or through
# sudo. Without either they say SKIPPED; PARALFETCH_REQUIRE_PRIVILEGED=1 makes that a failure.

# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"

FUZZ_MANIFEST=fuzz/Cargo.toml

# The fuzz targets are a workspace of their own, which the checks of the product's leave out.
check_fuzz_targets() {
    # libfuzzer is C++. setup.sh installs clang, and perhaps nothing else that is called c++.
    command -v c++ >/dev/null || export CXX=${CXX:-clang++}
    cargo fmt --manifest-path "$FUZZ_MANIFEST" --check
    cargo check --manifest-path "$FUZZ_MANIFEST" --target-dir "$TARGET_DIR/fuzz" --locked
}

# choose_test_user: sets TEST_USER to what puts a test program under root where that can be had. The
# tests are to see root as such, not a user behind sudo.
choose_test_user() {
    TEST_USER=(as_root env -u SUDO_UID -u SUDO_GID -u SUDO_USER -u SUDO_COMMAND)
    [[ $EUID -ne 0 ]] || return 0
    if command -v sudo >/dev/null && { sudo -n true 2>/dev/null || { [[ -t 0 ]] && sudo -v; }; }; then
        return 0
    fi
    [[ ${PARALFETCH_REQUIRE_PRIVILEGED:-} != 1 ]] ||
        die "the tests that need root cannot run: become root, or allow sudo"
    warn "SKIPPED: the tests that need root do not run, because there is neither root nor sudo"
    TEST_USER=()
}

# Compiles the tests and prints the paths of the test programs, from cargo's messages about what it
# made, a line of JSON for each.
test_programs() {
    cargo test --workspace --locked --no-run --message-format=json-render-diagnostics |
        sed -n '/"profile":{[^}]*"test":true/s/.*"executable":"\([^"]*\)".*/\1/p'
}

# Compiles as the invoking user, whose files the build must stay, and runs the test programs as root:
# cargo itself would run them as the user that it runs as.
run_tests() {
    local list programs program log failed=()
    list=$(test_programs) || die "the tests do not compile: see the messages above"
    mapfile -t programs <<<"$list"
    [[ -n $list ]] || die "cargo named no test program"
    choose_test_user
    build_machine
    # Where cargo runs tests.
    cd "$REPO"
    log=$TARGET_DIR/tests.log
    : >"$log"
    for program in "${programs[@]}"; do
        say "Tests: ${program##*/}"
        # The others may have more to say.
        "${TEST_USER[@]}" "$program" | tee -a "$log" || failed+=("${program##*/}")
    done
    # The sum of libtest's closing lines; another harness counts its own.
    awk '/^test result:/ { passed += $4; failed += $6 } END { print passed " passed, " failed " failed" }' "$log"
    [[ ${#failed[@]} -eq 0 ]] || die "failed: ${failed[*]}"
}

# The machine that older kernels are tested in, where it can be had; elsewhere its test is skipped.
build_machine() {
    if ! "$REPO/scripts/vm.sh" possible; then
        [[ ${PARALFETCH_REQUIRE_PRIVILEGED:-} != 1 ]] || die "the virtual machine needs Debian 12 for x86-64"
        warn "SKIPPED: older kernels are only tested on Debian 12 for x86-64"
    elif [[ ${#TEST_USER[@]} -gt 0 ]]; then
        as_root "$REPO/scripts/vm.sh" image
    fi
}

main() {
    local needs=(build test lab)
    if "$REPO/scripts/vm.sh" possible; then needs+=(vm); fi
    "$REPO/scripts/setup.sh" "${needs[@]}"
    say "Format"
    cargo fmt --all --check
    say "Lints"
    cargo clippy --workspace --all-targets --locked -- -D warnings
    say "Scripts"
    (cd "$REPO" && shellcheck -x scripts/*.sh .ci/run)
    "$REPO/scripts/test_install.sh"
    say "Fuzz targets"
    check_fuzz_targets
    say "Building the tests"
    run_tests
}

main
