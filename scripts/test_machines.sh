#!/usr/bin/env bash
# The long tier of tests: what needs other machines, or many minutes.
#
#   scripts/test_machines.sh [PART…]
#
# PART is one or more of
#   vm          Debian 12's and Debian 13's kernels learn and prefetch, in virtual machines
#   installed   the installed service on whole systems of both, with systemd, dbus-daemon and polkit
#   new_user    a new user's way over reboots, from an earlier package to a purged one, on both
#   packages    packages are installed, upgraded and removed in minimal systems: piuparts, rpm, pacman
#   fuzz        each fuzz target for FUZZ_SECONDS (60)
#   lab         short sessions of the laboratory's experiments
#
# Without one, all parts that have not passed with this commit yet: what was interrupted goes on. Each part says how long it
# took last. What has passed is noted in tests/long-tier. Needs root or sudo, Debian 12 for x86-64 and the network.

# shellcheck source=scripts/parts.sh
source "$(dirname "${BASH_SOURCE[0]}")/parts.sh"

# Systems are booted one after the other in one test program.
PROGRAM_MINUTES=50
FUZZ_SECONDS=${FUZZ_SECONDS:-60}

# programs PART: what of this tier belongs to it: a line for each, as tiers.py has them.
programs() {
    case $1 in
        lab) "$REPO/scripts/tiers.py" programs machines | grep -vE '^(vm|installed|new_user)( |$)' ;;
        *) "$REPO/scripts/tiers.py" programs machines | grep -E "^$1( |\$)" ;;
    esac
}

# run_tests PART: all of a part's programs, whole or by the names of their tests. A machine test that `make test` runs, too,
# is run again here, so that one run shows both kernels.
run_tests() {
    local name filter status=0
    while read -r name filter; do
        run_program "$(test_program "$name")" ${filter:+"$filter"} || status=1
    done < <(programs "$1")
    return "$status"
}

run_vm() { run_program "$(test_program vm)"; }

run_packages() {
    "$REPO/scripts/setup.sh" deb rpm arch piuparts
    "$REPO/scripts/test_packages.sh"
    "$REPO/scripts/piuparts.sh"
}

run_part() {
    case $1 in
        vm) run_vm ;;
        packages) run_packages ;;
        fuzz) "$REPO/scripts/fuzz.sh" "$FUZZ_SECONDS" ;;
        *) run_tests "$1" ;;
    esac
}

# run PART: and notes that it has passed.
run() {
    local name=$1 started=$SECONDS failed=${#FAILED[@]}
    "$REPO/scripts/tiers.py" last "$name"
    part "$name" run_part "$name"
    ((${#FAILED[@]} > failed)) || as_invoker "$REPO/scripts/tiers.py" record "$name" $((SECONDS - started))
}

build_machines() {
    as_root "$REPO/scripts/vm.sh" image || die "the virtual machines could not be built: see above"
}

main() {
    local wanted=("$@") name
    for name; do
        [[ " $("$REPO/scripts/tiers.py" parts) " == *" $name "* ]] ||
            die "there is no part '$name': $("$REPO/scripts/tiers.py" parts)"
    done
    [[ $# -gt 0 ]] || read -ra wanted < <("$REPO/scripts/tiers.py" unpassed)
    [[ ${#wanted[@]} -gt 0 ]] || { say "All parts have passed with this commit" && exit 0; }
    "$REPO/scripts/vm.sh" possible || die "the long tier needs Debian 12 for x86-64"
    export PARALFETCH_REQUIRE_PRIVILEGED=1
    "$REPO/scripts/setup.sh" build deb test vm lab
    choose_test_user
    begin_log
    part "Build of the release tests" build_programs
    ((${#FAILED[@]} == 0)) || finish
    part "Virtual machines" build_machines
    pause_reclaim
    for name in "${wanted[@]}"; do
        run "$name"
    done
    finish
}

main "$@"
