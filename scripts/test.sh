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

# Whether the machine can be built.
HAS_MACHINE=no

# start_machine: begins to build the machine that another kernel is tested in, where it can be built. That mostly waits
# for downloads, so it goes on beside the compiler.
start_machine() {
    if [[ ${#TEST_USER[@]} -gt 0 ]] && "$REPO/scripts/vm.sh" possible; then
        HAS_MACHINE=yes
        behind machine as_root "$REPO/scripts/vm.sh" image "$SYSTEM"
    fi
}

# finish_machine: waits until it has been built.
finish_machine() {
    if ! "$REPO/scripts/vm.sh" possible; then
        [[ ${PARALFETCH_REQUIRE_PRIVILEGED:-} != 1 ]] || die "the virtual machines need Debian 12 for x86-64"
        warn "SKIPPED: other kernels are only tested on Debian 12 for x86-64"
    fi
    [[ $HAS_MACHINE == no ]] || finish_behind machine
}

# The package is made of the program that the release tests are built with.
test_package() {
    if [[ ${#TEST_USER[@]} -gt 0 ]]; then
        "$REPO/scripts/test_deb.sh"
    else
        warn "SKIPPED: dpkg installs nothing without root"
    fi
}

# at_leisure COMMAND…: each, one after the other, with what the privileged tests leave of the processors: these mostly wait.
at_leisure() {
    local command
    # What it starts inherits both. A container may forbid them: the checks are the same without.
    chrt --idle --pid 0 "$BASHPID" || warn "$1 takes processor time from the tests"
    ionice --class idle --pid "$BASHPID" || warn "$1 delays reads of the tests"
    for command; do "$command"; done
}

# programs: every program of this tier. Of a program with tests in both tiers, those of this one, by their names.
programs() { "$REPO/scripts/tiers.py" programs fast; }

# boot: the machine, which has caches and settings of its own, beside the tests of this system.
boot() {
    local name filter
    read -r name filter < <(programs | grep '^vm ')
    run_program "$(test_program "$name")" "$filter"
}

# run_tests: those that run on this system, one after the other: they drop its caches and change its settings.
run_tests() {
    local name filter
    behind boot boot
    behind unit at_leisure unit_tests
    behind lints at_leisure lints documentation
    while read -r name filter; do
        part "Tests: $name${filter:+ $filter}" run_program "$(test_program "$name")" ${filter:+"$filter"}
    done < <(programs | grep -v '^vm ')
    # On a busy machine they might get nothing.
    hurry
    part "Tests: another kernel (what it took longer than the others)" finish_behind boot
    part "Unit tests (what they took longer)" finish_behind unit
    part "Lints and the code's documentation (what they took longer)" finish_behind lints
}

main() {
    local needs=(build deb test lab) failed
    if "$REPO/scripts/vm.sh" possible; then needs+=(vm); fi
    "$REPO/scripts/setup.sh" "${needs[@]}"
    choose_test_user
    as_invoker mkdir -p "$TARGET_DIR"
    start_machine
    check_quickly
    failed=${#FAILED[@]}
    part "Build of the release tests" build_programs
    # The programs of an earlier build would be no test of this tree.
    ((${#FAILED[@]} == failed)) || finish
    part "Tiers of the tests" "$REPO/scripts/tiers.py" check "$TEST_PROGRAMS"
    part "Debian package" test_package
    part "Virtual machine" finish_machine
    [[ ${#TEST_USER[@]} -eq 0 ]] || pause_reclaim
    run_tests
    "$REPO/scripts/tiers.py" due
    finish
}

main
