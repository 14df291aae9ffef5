#!/usr/bin/env bash
# Everything that a change has to pass: the quick checks, the fuzz targets, and the privileged and
# end-to-end tests of the release build.
#
#   scripts/test.sh
#
# Tests that need root (loop devices, mounts, tracing) run when this is started as root, or through
# sudo. Without either they say SKIPPED; PARALFETCH_REQUIRE_PRIVILEGED=1 makes that a failure.

# shellcheck source=scripts/check.sh
source "$(dirname "$0")/check.sh"

# choose_test_user: sets TEST_USER to what runs a test program as root, where that is possible. The
# tests are to see plain root, not a user behind sudo.
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

# test_programs: paths of the test programs that cargo made, from its messages on standard input, a line of JSON
# for each.
test_programs() {
    sed -n '/"profile":{[^}]*"test":true/s/.*"executable":"\([^"]*\)".*/\1/p'
}

# The release build, as users run it: the compiler's optimizations are part of what is tested. Compiled as
# the invoking user, whose files the build must stay.
build_programs() {
    cargo test --workspace --test '*' --release --locked --no-run --message-format=json-render-diagnostics |
        test_programs >"$TEST_PROGRAMS"
    [[ -s $TEST_PROGRAMS ]] || die "cargo named no test program"
}

# Longest time that one test program may take, in minutes: several times what the slowest one needs.
PROGRAM_MINUTES=25

# run_program PROGRAM: where cargo runs tests, and as root, as which cargo itself would not run them. One that
# hangs fails, and what it leaves behind cannot hold this script by keeping its output open.
run_program() {
    cd "$REPO"
    "${TEST_USER[@]}" timeout --kill-after=30 "${PROGRAM_MINUTES}m" "$1" |
        timeout "$((PROGRAM_MINUTES + 1))m" tee -a "$TESTS_LOG"
}

# What pause_reclaim switched off.
PAUSED=()

# pause_reclaim: lets no DAMON scheme of the kernel run until this script ends. Some hosts page out idle
# cache by them, every few seconds, and tests count what a launch reads although it was prefetched.
pause_reclaim() {
    local state
    for state in /sys/kernel/mm/damon/admin/kdamonds/*/state; do
        [[ -e $state && $(cat "$state") == on ]] || continue
        trap resume_reclaim EXIT
        PAUSED+=("$state")
        as_root tee "$state" <<<off >/dev/null || warn "$state: cannot be switched off; the host may page out what tests read"
    done
}

resume_reclaim() {
    local state
    for state in "${PAUSED[@]}"; do
        as_root tee "$state" <<<on >/dev/null
    done
}

# start_machines: begins to build the machines that other kernels are tested in, where they can be built. That mostly waits
# for downloads, so it goes on beside the compiler, into a log of its own.
start_machines() {
    MACHINE=
    if [[ ${#TEST_USER[@]} -eq 0 ]] || ! "$REPO/scripts/vm.sh" possible; then return 0; fi
    MACHINE_LOG=$TARGET_DIR/machine.log
    as_root "$REPO/scripts/vm.sh" image >"$MACHINE_LOG" 2>&1 </dev/null &
    MACHINE=$!
    # Ctrl-C does not reach what runs in the background.
    trap 'as_root kill "$MACHINE" 2>/dev/null || true' EXIT
}

# build_machines: waits until they have been built.
build_machines() {
    if ! "$REPO/scripts/vm.sh" possible; then
        [[ ${PARALFETCH_REQUIRE_PRIVILEGED:-} != 1 ]] || die "the virtual machines need Debian 12 for x86-64"
        warn "SKIPPED: other kernels are only tested on Debian 12 for x86-64"
    fi
    [[ -n $MACHINE ]] || return 0
    tail --pid="$MACHINE" --lines=+1 --follow "$MACHINE_LOG"
    "$REPO/scripts/vm.sh" ready || die "the virtual machines could not be built: see above"
}

# The packages are made of the program that the release tests are built with.
test_packages() {
    if [[ ${#TEST_USER[@]} -gt 0 ]]; then
        "$REPO/scripts/test_deb.sh"
    else
        warn "SKIPPED: dpkg installs nothing without root"
    fi
    "$REPO/scripts/test_packages.sh"
}

main() {
    local needs=(build deb rpm arch test lab) programs program name
    if "$REPO/scripts/vm.sh" possible; then needs+=(vm); fi
    "$REPO/scripts/setup.sh" "${needs[@]}"
    choose_test_user
    as_invoker mkdir -p "$TARGET_DIR"
    start_machines
    check
    part "Fuzz targets, ten seconds each" "$REPO/scripts/fuzz.sh" 10
    TEST_PROGRAMS=$TARGET_DIR/test-programs
    part "Build of the release tests" build_programs
    part "Order of functions" "$REPO/scripts/run_order.py" --check
    part "Packages" test_packages
    part "Virtual machines" build_machines
    trap - EXIT
    [[ ${#TEST_USER[@]} -eq 0 ]] || pause_reclaim
    # Tests that boot a machine for many minutes then do so with both systems.
    [[ ${PARALFETCH_LONG_TESTS:-} != 1 ]] || PROGRAM_MINUTES=50
    mapfile -t programs <"$TEST_PROGRAMS"
    for program in "${programs[@]}"; do
        name=${program##*/}
        part "Tests: ${name%-*}" run_program "$program"
    done
    finish
}

main
