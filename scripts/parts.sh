# shellcheck shell=bash
# Sourced by what runs many checks: parts that are timed and go on after a failure, and the test programs.

# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# What the test programs print, for the sum of their results.
TESTS_LOG=$TARGET_DIR/tests.log
# A line for each test program that the release build has made.
TEST_PROGRAMS=$TARGET_DIR/test-programs
# A line for each part: seconds, verdict, name.
PARTS=()
FAILED=()
# Longest time that one test program may take, in minutes: several times what the slowest one needs.
PROGRAM_MINUTES=15

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
    PARTS+=("$(minutes $((SECONDS - started)))  $name$( ((status == 0)) || echo ' (FAILED)')")
    return 0
}

# minutes SECONDS: as min:s.
minutes() { printf '%4d:%02d' $(($1 / 60)) $(($1 % 60)); }

# begin_log: empties the log of results.
begin_log() {
    as_invoker mkdir -p "$TARGET_DIR"
    as_invoker tee "$TESTS_LOG" </dev/null >/dev/null
}

# finish: prints the parts' times and the sum of all test programs' results; the exit status of the run. After a failure
# also how busy the processors are, which is one of the things to know of it.
finish() {
    say "Time of each part (min:s)"
    printf '%s\n' "${PARTS[@]}"
    echo "$(minutes "$SECONDS")  in total"
    # libtest and our own harnesses end with the same line.
    awk '/^test result:/ { passed += $4; failed += $6 }
        END { print passed + 0 " passed, " failed + 0 " failed" }' "$TESTS_LOG"
    ((${#FAILED[@]} == 0)) || {
        cat /proc/loadavg /proc/pressure/cpu 2>/dev/null || true
        die "failed: $(printf '%s; ' "${FAILED[@]}" | sed 's/; $//')"
    }
}

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

# build_programs: the program as users run it, the laboratory, and what tests them: the compiler's optimizations are part
# of what is tested. All in one call of cargo, so that each crate is compiled once. Compiled as the invoking user, whose
# files the build must stay.
build_programs() {
    cargo build --workspace --bins --test '*' --release --locked --message-format=json-render-diagnostics |
        test_programs >"$TEST_PROGRAMS"
    [[ -s $TEST_PROGRAMS ]] || die "cargo named no test program"
}

# test_program NAME: the file of a test program that build_programs has made.
test_program() {
    grep -E "/$1-[0-9a-f]+\$" "$TEST_PROGRAMS" || die "there is no test program $1"
}

# run_program PROGRAM [ARGUMENT…]: where cargo runs tests, and as root, as which cargo itself would not run them. One that
# hangs fails, and what it leaves behind cannot hold this script by keeping its output open.
run_program() {
    cd "$REPO"
    "${TEST_USER[@]}" timeout --kill-after=30 "${PROGRAM_MINUTES}m" "$@" |
        timeout "$((PROGRAM_MINUTES + 1))m" tee -a "$TESTS_LOG"
}

# Parts that go on beside others: process of each name.
declare -A BEHIND=()
# Last line of the log of one that has passed; no tool ends with it.
BEHIND_PASSED="==> this part has passed"

# behind NAME COMMAND…: begins a part that goes on beside others; what it says goes into a log of its own.
behind() {
    trap end_run EXIT
    (
        set -e
        "${@:2}"
        echo "$BEHIND_PASSED"
    ) >"$TARGET_DIR/$1.log" 2>&1 </dev/null &
    BEHIND[$1]=$!
}

# finish_behind NAME: waits for its verdict, which is read from its log: parts are subshells, which cannot wait for another's
# child. The limit is for one that hangs, and for a process id that has passed to another process meanwhile.
finish_behind() {
    local log=$TARGET_DIR/$1.log limit=$((PROGRAM_MINUTES + 2)) status=0
    timeout "${limit}m" tail --pid="${BEHIND[$1]}" --lines=+1 --follow "$log" || status=$?
    ((status != 124)) || die "it has not ended in $limit minutes: $log has what it says"
    ((status == 0)) || return "$status"
    [[ $(tail --lines=1 "$log") == "$BEHIND_PASSED" ]]
}

# hurry_tree PID: lets a process and all that it has started have the processors as others have. Parents first: what they
# start later inherits it. What has ended meanwhile needs nothing.
hurry_tree() {
    local child
    chrt --all-tasks --other --pid 0 "$1" 2>/dev/null || true
    ionice --class none --pid "$1" 2>/dev/null || true
    for child in $(cat /proc/"$1"/task/*/children 2>/dev/null || true); do hurry_tree "$child"; done
}

# hurry: the same for all parts that go on beside others.
hurry() {
    local pid
    for pid in $(jobs -rp); do hurry_tree "$pid"; done
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

# end_run: at the end of the script, whatever ends it.
end_run() {
    local pid
    # Those of ours alone: the number of one that has ended may be another process's.
    for pid in $(jobs -rp); do end_tree "$pid"; done
    resume_reclaim
}

# What pause_reclaim switched off.
PAUSED=()

# pause_reclaim: lets no DAMON scheme of the kernel run until this script ends. Some hosts page out idle
# cache by them, every few seconds, and tests count what a launch reads although it was prefetched.
pause_reclaim() {
    local state
    for state in /sys/kernel/mm/damon/admin/kdamonds/*/state; do
        [[ -e $state && $(cat "$state") == on ]] || continue
        trap end_run EXIT
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
