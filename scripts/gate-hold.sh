#!/usr/bin/env bash
# Measures how long programs wait at the exec gate: a marked program is executed again and again while a launch of it is
# learned, so that each execve passes the gate and the event loop, in turns with a copy that is not marked. The time is
# from the call of execve to the first instruction of main, as the program itself sees it.
#
#   scripts/gate-hold.sh [SCENARIO…]
#
# plain     nothing else
# fuse      a managed app lies on a FUSE file system that never answers, and the service looks for it all the time
# worker    the file system of the state directory is frozen: the worker hangs in its first write
# compile   a compiler runs on every processor, twice over
#
# HOLDS is the number of programs of each scenario, 10000 as it comes. Needs root, cc and no service running. About a
# minute a scenario. Fails if a program was held for longer than 100 ms plus the longest time of an unmarked one, or was
# refused.

# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"

HOLDS=${HOLDS:-10000}
# Executions while one launch is learned: fewer than 30 s of them.
BATCH=500

[[ $EUID -eq 0 ]] || die "it needs root: sudo scripts/gate-hold.sh"
BIN=${PARALFETCH_BIN:-$PARALFETCH}
[[ -x $BIN ]] || die "$BIN is missing: make build"
mkdir -p "$TARGET_DIR/tmp"
WORK=$(mktemp -d -p "$TARGET_DIR/tmp")
SERVICE=
LOAD=()
DEVICES=()
clean_up() {
    fsfreeze --unfreeze "$WORK/state" 2>/dev/null || true
    # The dead file system goes first: what waits for it is let go.
    exec 9>&- || true
    umount -l "$WORK/apps/dead" 2>/dev/null || true
    for pid in "${LOAD[@]}" $SERVICE; do kill "$pid" 2>/dev/null || true; done
    wait 2>/dev/null || true
    for mounted in apps state; do umount -l "$WORK/$mounted" 2>/dev/null || true; done
    for device in "${DEVICES[@]}"; do losetup --detach "$device"; done
    rm -rf "$WORK"
}
trap clean_up EXIT

cat >"$WORK/program.c" <<'C'
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <fcntl.h>

/* Tells descriptor 3 the time at which it begins. `program stay FILE` reads pages of a file until it is killed. */
int main(int argc, char **argv)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	if (argc == 3 && !strcmp(argv[1], "stay")) {
		int fd = open(argv[2], O_RDONLY);
		off_t at = 0;
		char byte;

		for (;; at += 1 << 20) {
			if (pread(fd, &byte, 1, at) != 1)
				at = 0;
			usleep(20000);
		}
	}
	return write(3, &now, sizeof(now)) != sizeof(now);
}
C
cat >"$WORK/launcher.c" <<'C'
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double launch(char *program)
{
	struct timespec before, begun;
	char *args[] = { program, NULL };
	int ends[2], status;
	pid_t pid;

	if (pipe(ends))
		exit(1);
	pid = fork();
	if (!pid) {
		close(ends[0]);
		if (ends[1] != 3) {
			dup2(ends[1], 3);
			close(ends[1]);
		}
		clock_gettime(CLOCK_MONOTONIC, &before);
		if (write(3, &before, sizeof(before)) == sizeof(before))
			execv(program, args);
		_exit(127);
	}
	close(ends[1]);
	if (read(ends[0], &before, sizeof(before)) != sizeof(before) ||
	    read(ends[0], &begun, sizeof(begun)) != sizeof(begun) ||
	    waitpid(pid, &status, 0) != pid || status) {
		fprintf(stderr, "%s could not be executed\n", program);
		exit(1);
	}
	close(ends[0]);
	return (begun.tv_sec - before.tv_sec) * 1e6 + (begun.tv_nsec - before.tv_nsec) / 1e3;
}

/* launcher COUNT MARKED OTHER: microseconds that each takes from execve to main, in turns. */
int main(int argc, char **argv)
{
	int i;

	for (i = 0; argc == 4 && i < atoi(argv[1]); i++) {
		double marked = launch(argv[2]);

		printf("%.1f %.1f\n", marked, launch(argv[3]));
	}
	return argc != 4;
}
C
cc -O2 -static -o "$WORK/program" "$WORK/program.c"
cc -O2 -o "$WORK/launcher" "$WORK/launcher.c"

# image NAME SIZE: an ext4 file system at $WORK/NAME.
image() {
    truncate -s "$2" "$WORK/$1.image"
    mke2fs -q -F -t ext4 "$WORK/$1.image"
    DEVICES+=("$(losetup --find --show "$WORK/$1.image")")
    mkdir "$WORK/$1"
    mount "${DEVICES[-1]}" "$WORK/$1"
}
image apps 1G
image state 128M
chmod 700 "$WORK/state"
mkdir "$WORK/etc" "$WORK/apps/dead"
head -c 300M /dev/urandom >"$WORK/apps/data"
cp "$WORK/program" "$WORK/apps/unmarked"
cp "$WORK/program" "$WORK/apps/dead/program"
printf 'mode = "manual"\nlog.level = "debug"\n' >"$WORK/etc/config.toml"
export DBUS_SYSTEM_BUS_ADDRESS=unix:path=/nonexistent

cli() { "$BIN" --state-dir "$WORK/state" "$@" >/dev/null; }

start() {
    NOTIFY_SOCKET='' "$BIN" --state-dir "$WORK/state" service --no-bus --config-dir "$WORK/etc" \
        --run-dir "$WORK/run" 2>"$WORK/log" 9>&- &
    SERVICE=$!
    until grep -q 'ready to learn' "$WORK/log"; do
        kill -0 "$SERVICE" 2>/dev/null || die "the service does not start: $(cat "$WORK/log")"
        sleep 0.05
    done
}

# load COMMAND…: runs it again and again beside the measurement.
load() {
    (while :; do "$@"; done) >/dev/null 2>&1 9>&- &
    LOAD+=($!)
}

# Times that the gate's thread was woken.
wake_ups() {
    local task
    for task in /proc/"$SERVICE"/task/*; do
        [[ $(<"$task/comm") != pf-gate ]] || awk '/^voluntary_ctxt/ { print $2 }' "$task/status"
    done
}

# measure NAME: the times of HOLDS executions, in $WORK/times.
measure() {
    local batch stay before woken=0
    : >"$WORK/times"
    for ((batch = 0; batch * BATCH < HOLDS; batch++)); do
        "$WORK/apps/$1-$batch" stay "$WORK/apps/data" &
        stay=$!
        sleep 0.3
        before=$(wake_ups)
        "$WORK/launcher" "$BATCH" "$WORK/apps/$1-$batch" "$WORK/apps/unmarked" >>"$WORK/times"
        woken=$((woken + $(wake_ups) - before))
        kill "$stay"
        wait "$stay" 2>/dev/null || true
    done
    # Two events may come with one wake-up, and no more come without the mark.
    ((woken * 2 > batch * BATCH)) || die "$1: the gate was woken $woken times by $((batch * BATCH)) programs"
    # Median, 99.9th percentile and longest of each column.
    awk '{ print $1 }' "$WORK/times" | sort -n >"$WORK/marked"
    awk '{ print $2 }' "$WORK/times" | sort -n >"$WORK/unmarked"
    awk -v name="$1" -v limit_ms=100 '
        FILENAME ~ /unmarked$/ { other[++m] = $1; next }
        { marked[++n] = $1 }
        END {
            printf "%-8s %d programs, execve to main: median %.0f us, 99.9th percentile %.0f us, longest %.2f ms; ",
                name, n, marked[int((n + 1) / 2)], marked[int(n * 0.999)], marked[n] / 1000
            printf "not marked %.0f us, %.0f us, %.2f ms\n",
                other[int((m + 1) / 2)], other[int(m * 0.999)], other[m] / 1000
            exit marked[n] > limit_ms * 1000 + other[m]
        }' "$WORK/marked" "$WORK/unmarked" || die "$1: a program was held for too long"
}

[[ $# -gt 0 ]] || set -- plain fuse worker compile
for name in "$@"; do
    for ((batch = 0; batch * BATCH < HOLDS; batch++)); do
        cp "$WORK/program" "$WORK/apps/$name-$batch"
        cli enable "$WORK/apps/$name-$batch"
    done
    case $name in
    plain) start ;;
    fuse)
        cli enable "$WORK/apps/dead/program"
        exec 9<>/dev/fuse
        mount -i -t fuse -o fd=9,rootmode=40755,user_id=0,group_id=0 dead "$WORK/apps/dead"
        start
        # Each has the service look for all apps anew.
        load bash -c "kill -HUP $SERVICE; sleep 0.2"
        ;;
    worker)
        cp "$WORK/program" "$WORK/apps/first"
        cli enable "$WORK/apps/first"
        start
        fsfreeze --freeze "$WORK/state"
        # The worker cannot write down this launch.
        "$WORK/apps/first" 3>/dev/null
        until grep -q 'INFO launch .*apps/first' "$WORK/log"; do sleep 0.05; done
        ;;
    compile)
        start
        for ((i = 0; i < 2 * $(nproc); i++)); do load cc -O2 -o "/dev/null" "$WORK/launcher.c"; done
        ;;
    *) die "there is no scenario $name" ;;
    esac
    measure "$name"
    fsfreeze --unfreeze "$WORK/state" 2>/dev/null || true
    for pid in "${LOAD[@]}"; do kill "$pid"; wait "$pid" 2>/dev/null || true; done
    LOAD=()
    kill "$SERVICE"
    wait "$SERVICE" || true
    SERVICE=
    if [[ $name == fuse ]]; then
        exec 9>&-
        umount -l "$WORK/apps/dead"
    fi
done
