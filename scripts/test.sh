#!/usr/bin/env bash
# Everything that a change has to pass and that runs on this system's kernel: the quick checks, the
# privileged and end-to-end tests of the release build, and one boot of another kernel, Debian 12's.
#
#   scripts/test.sh
#
# Tests that need root (loop devices, mounts, tracing) run when this is started as root, or through
# sudo. Without either they say SKIPPED; PARALFETCH_REQUIRE_PRIVILEGED=1 makes that a failure.
# What needs more machines is done by scripts/test_machines.sh. tests/tiers says which test belongs where.

# shellcheck source=scripts/check.sh
source "$(dirname "$0")/check.sh"

# The machine that is booted here.
SYSTEM=debian12

# start_machine: begins to build the machine that another kernel is tested in, where it can be built. That mostly waits
# for downloads, so it goes on beside the compiler, into a log of its own.
start_machine() {
    MACHINE=
    if [[ ${#TEST_USER[@]} -eq 0 ]] || ! "$REPO/scripts/vm.sh" possible; then return 0; fi
    MACHINE_LOG=$TARGET_DIR/machine.log
    as_root "$REPO/scripts/vm.sh" image "$SYSTEM" >"$MACHINE_LOG" 2>&1 </dev/null &
    MACHINE=$!
    # Ctrl-C does not reach what runs in the background.
    trap 'as_root kill "$MACHINE" 2>/dev/null || true' EXIT
}

# build_machine: waits until it has been built.
build_machine() {
    if ! "$REPO/scripts/vm.sh" possible; then
        [[ ${PARALFETCH_REQUIRE_PRIVILEGED:-} != 1 ]] || die "the virtual machines need Debian 12 for x86-64"
        warn "SKIPPED: other kernels are only tested on Debian 12 for x86-64"
    fi
    [[ -n $MACHINE ]] || return 0
    tail --pid="$MACHINE" --lines=+1 --follow "$MACHINE_LOG"
    "$REPO/scripts/vm.sh" ready "$SYSTEM" || die "the virtual machine could not be built: see above"
}

# The package is made of the program that the release tests are built with.
test_package() {
    if [[ ${#TEST_USER[@]} -gt 0 ]]; then
        "$REPO/scripts/test_deb.sh"
    else
        warn "SKIPPED: dpkg installs nothing without root"
    fi
}

# programs: every program of this tier. Of a program with tests in both tiers, those of this one, by their names.
programs() { "$REPO/scripts/tiers.py" programs fast; }

# start_boot: boots the machine, which has caches and settings of its own, beside the tests of this system.
start_boot() {
    local name filter
    read -r name filter < <(programs | grep '^vm ')
    BOOT_LOG=$TARGET_DIR/boot.log
    run_program "$(test_program "$name")" "$filter" >"$BOOT_LOG" 2>&1 </dev/null &
    BOOT=$!
    trap 'end_tree "$BOOT"; exit 130' INT
    trap 'end_tree "$BOOT"; exit 143' TERM
}

# end_tree PID: asks a process and all that it has started to end. Ctrl-C does not reach what runs in the background, and
# timeout(1) only passes on what reaches itself.
end_tree() {
    local children=() child
    # The line has no end, and is missing where the process has ended.
    { read -ra children <"/proc/$1/task/$1/children"; } 2>/dev/null || true
    for child in "${children[@]}"; do end_tree "$child"; done
    # It may have ended with its child.
    as_root kill "$1" 2>/dev/null || true
}

# finish_boot: waits for its verdict, which is read from its log: parts are subshells, which cannot wait for another's child.
# The limit is for a process id that has passed to another process meanwhile.
finish_boot() {
    timeout "$((PROGRAM_MINUTES + 2))m" tail --pid="$BOOT" --lines=+1 --follow "$BOOT_LOG"
    grep -q '^test result: ok' "$BOOT_LOG"
}

# run_tests: those that run on this system, one after the other: they drop its caches and change its settings.
run_tests() {
    local name filter
    start_boot
    while read -r name filter; do
        part "Tests: $name${filter:+ $filter}" run_program "$(test_program "$name")" ${filter:+"$filter"}
    done < <(programs | grep -v '^vm ')
    part "Tests: another kernel (what it took longer than the others)" finish_boot
    trap - INT TERM
}

main() {
    local needs=(build deb test lab)
    if "$REPO/scripts/vm.sh" possible; then needs+=(vm); fi
    "$REPO/scripts/setup.sh" "${needs[@]}"
    choose_test_user
    as_invoker mkdir -p "$TARGET_DIR"
    start_machine
    check
    part "Build of the release tests" build_programs
    part "Tiers of the tests" "$REPO/scripts/tiers.py" check "$TEST_PROGRAMS"
    part "Debian package" test_package
    part "Virtual machine" build_machine
    trap - EXIT
    [[ ${#TEST_USER[@]} -eq 0 ]] || pause_reclaim
    run_tests
    "$REPO/scripts/tiers.py" due
    finish
}

main
