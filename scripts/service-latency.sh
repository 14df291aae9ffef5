#!/usr/bin/env bash
# Measures the time from execve to the service's first prefetch request, and what prefetching saves, with a
# small app on an ext4 image that is launched as usual from empty caches.
#
#   scripts/service-latency.sh
#
# Needs root, and no service running. About a minute.

# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"

LAUNCHES=${LAUNCHES:-40}

[[ $EUID -eq 0 ]] || die "it needs root: sudo scripts/service-latency.sh"
BIN=$TARGET_DIR/release/paralfetch
[[ -x $BIN ]] || die "$BIN is missing: make build"
mkdir -p "$TARGET_DIR/tmp"
# On the drive that the build is on: tmpfs has no direct I/O.
WORK=$(mktemp -d -p "$TARGET_DIR/tmp")
SERVICE=
DEVICE=
LOG=
clean_up() {
    [[ -z $SERVICE ]] || kill "$SERVICE" 2>/dev/null || true
    umount -l "$WORK/mnt" 2>/dev/null || true
    [[ -z $DEVICE ]] || losetup --detach "$DEVICE"
    rm -rf "$WORK" "$LOG"
}
trap clean_up EXIT

# In memory, as the journal's socket is: a log on the drive would be read back after each drop.
LOG=$(mktemp -p /dev/shm)
mkdir -m 700 "$WORK/state"
mkdir "$WORK/etc" "$WORK/mnt"
# No launch is withheld for comparison: all are to be prefetched.
printf 'mode = "manual"\nlog.level = "debug"\n[prefetch]\nwithhold = false\n' >"$WORK/etc/config.toml"
truncate -s 512M "$WORK/image"
mke2fs -q -F -t ext4 "$WORK/image"
DEVICE=$(losetup --find --show --direct-io=on "$WORK/image")
echo 128 >"/sys/block/${DEVICE##*/}/queue/read_ahead_kb"
mount "$DEVICE" "$WORK/mnt"
# An app of many files in many directories: metadata and data.
for ((i = 0; i < 400; i++)); do
    mkdir -p "$WORK/mnt/data/$((i % 40))"
    head -c 65536 /dev/urandom >"$WORK/mnt/data/$((i % 40))/$i"
done
APP=$WORK/mnt/app
printf '#!/bin/sh\ncat %s/mnt/data/*/* >/dev/null\n' "$WORK" >"$APP"
chmod 755 "$APP"
# Or the journal would keep the new metadata cached.
umount "$WORK/mnt"
mount -o noatime "$DEVICE" "$WORK/mnt"
export DBUS_SYSTEM_BUS_ADDRESS=unix:path=/nonexistent
"$BIN" --state-dir "$WORK/state" enable "$APP" >/dev/null
"$BIN" --state-dir "$WORK/state" service --no-bus --config-dir "$WORK/etc" --run-dir "$WORK/run" 2>"$LOG" &
SERVICE=$!

# said TIMES PATTERN: waits until the log has so many lines like this.
said() {
    until [[ $(grep -c "$2" "$LOG") -ge $1 ]]; do
        kill -0 "$SERVICE" 2>/dev/null || die "the service has ended: $(tail -3 "$LOG")"
        sleep 0.02
    done
}

said 1 'ready to learn'
"$APP"
said 1 'INFO launch '
grep -q 'kind=Learned' "$LOG" || die "nothing was learned: $(tail -2 "$LOG")"
for ((i = 0; i < LAUNCHES; i++)); do
    sync
    echo 3 >/proc/sys/vm/drop_caches
    # The kernel frees dropped pages a while later; the launch waits until the machine is idle.
    sleep 0.5
    "$APP"
    said "$((i + 2))" 'INFO launch '
done
kill "$SERVICE"
wait "$SERVICE" || true
SERVICE=
"$BIN" --state-dir "$WORK/state" stats --json "$APP" >"$WORK/stats"
python3 -c '
import json, sys
launches = json.load(open(sys.argv[1]))["launches"]
times = [l["until_first_us"] for l in launches if l["kind"] == "prefetched" and l.get("until_first_us")]
print(*sorted(times), sep="\n")' "$WORK/stats" | awk '{ v[NR] = $1 } END {
    printf "execve to the first prefetch request, %d launches: median %d us, quartiles %d to %d, 99th percentile %d us\n",
        NR, v[int((NR + 1) / 2)], v[int(NR / 4) + 1], v[int(NR * 3 / 4) + 1], v[int(NR * 0.99 + 0.999)] }'
