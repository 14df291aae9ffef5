#!/usr/bin/env bash
# Measures what the running service costs programs that it does not manage: fork+exec of /bin/true, and
# calls of execve alone, with and without the service, in turns; how much of that its BPF programs take, by
# the kernel's own count; and its memory and its wake-ups when idle.
#
#   scripts/service-cost.sh [PROFILES]
#
# PROFILES is a state directory whose profiles the service is to hold (it is copied); without, it has
# none. Needs root, and no service running. About three minutes.

# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"

PAIRS=${PAIRS:-20}
EXECS=${EXECS:-2500}

[[ $EUID -eq 0 ]] || die "it needs root: sudo scripts/service-cost.sh"
BIN=$TARGET_DIR/release/paralfetch
[[ -x $BIN ]] || die "$BIN is missing: make build"
WORK=$(mktemp -d)
SERVICE=
STATS=/proc/sys/kernel/bpf_stats_enabled
had_stats=$(cat "$STATS")
trap 'echo "$had_stats" >"$STATS"; [[ -z $SERVICE ]] || kill "$SERVICE" 2>/dev/null; rm -rf "$WORK"' EXIT
mkdir "$WORK/etc"
echo 'mode = "manual"' >"$WORK/etc/config.toml"
mkdir -m 700 "$WORK/state"
[[ $# -eq 0 ]] || cp -r "$1/." "$WORK/state/"

cat >"$WORK/execs.c" <<'C'
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Microseconds that one fork+exec of /bin/true takes, on average. */
int main(int argc, char **argv)
{
	int count = atoi(argv[1]), i;
	struct timespec a, b;
	char *args[] = { "true", NULL };

	(void)argc;
	clock_gettime(CLOCK_MONOTONIC, &a);
	for (i = 0; i < count; i++) {
		pid_t pid = fork();

		if (!pid) {
			execv("/bin/true", args);
			_exit(127);
		}
		if (pid < 0 || waitpid(pid, NULL, 0) != pid)
			return 1;
	}
	clock_gettime(CLOCK_MONOTONIC, &b);
	printf("%.3f\n", ((b.tv_sec - a.tv_sec) * 1e9 + (b.tv_nsec - a.tv_nsec)) / 1e3 / count);
	return 0;
}
C
cc -O2 -o "$WORK/execs" "$WORK/execs.c"

cat >"$WORK/calls.c" <<'C'
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* Nanoseconds that a call of execve takes that finds no program, on average. */
int main(int argc, char **argv)
{
	int count = atoi(argv[1]), i;
	struct timespec a, b;
	char *args[] = { "program", NULL };

	(void)argc;
	clock_gettime(CLOCK_MONOTONIC, &a);
	for (i = 0; i < count; i++)
		execve("/nonexistent/program", args, args);
	clock_gettime(CLOCK_MONOTONIC, &b);
	printf("%.1f\n", ((b.tv_sec - a.tv_sec) * 1e9 + (b.tv_nsec - a.tv_nsec)) / count);
	return 0;
}
C
cc -O2 -o "$WORK/calls" "$WORK/calls.c"

# The results of both programs, in one line.
measure() { echo "$("$WORK/execs" "$EXECS") $("$WORK/calls" 100000)"; }

start() {
    NOTIFY_SOCKET='' "$BIN" --state-dir "$WORK/state" service --no-bus --config-dir "$WORK/etc" \
        --run-dir "$WORK/run" 2>"$WORK/log" &
    SERVICE=$!
    until grep -q ready "$WORK/log"; do
        kill -0 "$SERVICE" 2>/dev/null || die "the service does not start: $(cat "$WORK/log")"
        sleep 0.05
    done
}

stop() {
    kill "$SERVICE"
    wait "$SERVICE" || true
    SERVICE=
}

switches() { cat /proc/"$SERVICE"/task/*/status | awk '/^voluntary_ctxt/ { sum += $2 } END { print sum }'; }

"$WORK/execs" "$EXECS" >/dev/null
for ((pair = 0; pair < PAIRS; pair++)); do
    # In alternating order, so that drift of the machine affects both alike.
    if ((pair % 2)); then
        without=$(measure)
        start
        with=$(measure)
        stop
    else
        start
        with=$(measure)
        stop
        without=$(measure)
    fi
    echo "$with $without"
done >"$WORK/pairs"
# Median and quartiles of numbers, a line each, in printf's FORMAT.
spread() {
    sort -n | awk -v format="$1" '{ v[NR] = $1 }
        END { printf format, (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2, v[int(NR / 4) + 1], v[int(NR * 3 / 4) + 1] }'
}
awk '{ print $1 / $3 }' "$WORK/pairs" |
    spread "fork+exec of /bin/true, with the service by without, $PAIRS pairs of $EXECS: median %.4f, quartiles %.4f to %.4f\n"
awk '{ print $2 - $4 }' "$WORK/pairs" |
    spread "a call of execve that fails takes longer by: median %.0f ns, quartiles %.0f to %.0f\n"

# ns that the service's BPF programs have run, and how often, since the kernel counts that. The service keeps links; the
# programs behind them are opened by their numbers, as the kernel shows the counts of open programs.
bpf_time() {
    python3 - "$SERVICE" <<'PYTHON'
import ctypes, os, re, sys
SYS_BPF = {"x86_64": 321, "aarch64": 280, "riscv64": 280}[os.uname().machine]
PROG_GET_FD_BY_ID = 13
libc = ctypes.CDLL(None, use_errno=True)
fds = f"/proc/{sys.argv[1]}/fdinfo"
links = (open(f"{fds}/{fd}").read() for fd in os.listdir(fds))
numbers = {int(number) for text in links for number in re.findall(r"(?m)^prog_id:\s*(\d+)", text)}
ns = runs = 0
for number in numbers:
    attr = (ctypes.c_uint32 * 4)(number)
    fd = libc.syscall(SYS_BPF, PROG_GET_FD_BY_ID, ctypes.byref(attr), ctypes.sizeof(attr))
    if fd < 0:
        sys.exit(f"program {number} cannot be opened: {os.strerror(ctypes.get_errno())}")
    text = open(f"/proc/self/fdinfo/{fd}").read()
    ns += int(re.search(r"(?m)^run_time_ns:\s*(\d+)", text)[1])
    runs += int(re.search(r"(?m)^run_cnt:\s*(\d+)", text)[1])
if not numbers:
    sys.exit("the service has attached no program")
print(ns, runs)
PYTHON
}

start
echo 1 >"$STATS"
read -r ns runs < <(bpf_time)
"$WORK/execs" 20000 >/dev/null
read -r ns_after runs_after < <(bpf_time)
echo "$had_stats" >"$STATS"
awk -v ns="$((ns_after - ns))" -v runs="$((runs_after - runs))" 'BEGIN {
    printf "BPF programs in one fork+exec of /bin/true and its exit: %.0f ns, %.1f runs\n", ns / 20000, runs / 20000 }'
sleep 5
before=$(switches)
sleep 20
after=$(switches)
awk -v w="$((after - before))" '/^VmRSS/ { rss = $2 } /^RssAnon/ { anon = $2 }
    END { printf "idle: resident %.1f MiB (%.1f MiB of its own), %d wake-ups in 20 s\n", rss / 1024, anon / 1024, w }' \
    /proc/"$SERVICE"/status
stop
