#!/usr/bin/env bash
# Measures what it costs to see who waits: the share of a processor that `paralfetch-waits` takes under a writer, by
# its own count and the kernel's, and what the drive writes with and without it, in turns.
#
#   scripts/waits-cost.sh [DIR]
#
# DIR is where the writer writes, on the drive in question; /var/tmp without. Needs root, and room there for a quarter
# of what is free. PAIRS (5) pairs of SPAN (20) seconds with and SPAN seconds without.

# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"

PAIRS=${PAIRS:-5}
SPAN=${SPAN:-20}

[[ $EUID -eq 0 ]] || die "it needs root: sudo scripts/waits-cost.sh"
BIN=${PARALFETCH_WAITS:-$TARGET_DIR/release/paralfetch-waits}
[[ -x $BIN ]] || die "$BIN is missing: cargo build --release --package paralfetch-waits"
PLACE=${1:-/var/tmp}
[[ -d $PLACE ]] || die "$PLACE is no directory"
DRIVE=/sys/dev/block/$(stat -c %Hd:%Ld "$PLACE")/stat
[[ -r $DRIVE ]] || die "$PLACE is on no block device: name a directory on the drive"
STATS=/proc/sys/kernel/bpf_stats_enabled
had_stats=$(cat "$STATS")
WRITER=
WORK=$(TMPDIR=$PLACE mktemp -d)

end_writer() {
    if [[ -n $WRITER ]]; then
        kill -KILL "$WRITER" 2>/dev/null || true
        wait "$WRITER" 2>/dev/null || true
    fi
    WRITER=
}
trap 'end_writer; echo "$had_stats" >"$STATS"; rm -rf "$WORK"' EXIT

# A large file, written again and again: twice what may be dirty, so that the drive sets the pace, but no more than a
# quarter of the room.
limit=$(($(awk '$1 == "nr_dirty_threshold" { print $2 }' /proc/vmstat) * 4096 * 2))
room=$(($(df --output=avail -B1 "$PLACE" | tail -n 1) / 4))
SIZE=$((limit < room ? limit : room))
cat >"$WORK/write.py" <<'PY'
import os
import sys

chunk = b"Z" * (1 << 20)
target = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT, 0o600)
while True:
    os.lseek(target, 0, os.SEEK_SET)
    for _ in range(max(1, int(sys.argv[2]) // len(chunk))):
        os.write(target, chunk)
PY

# Bytes that the drive has written (Documentation/block/stat.rst).
written() {
    local fields
    read -r -a fields <"$DRIVE"
    echo $((fields[6] * 512))
}

# with: MB/s that the drive writes, and the detector's share of a processor in percent.
with() {
    local before
    before=$(written)
    timeout -k 10 $((SPAN + 60)) "$BIN" --json --for "$SPAN" >"$WORK/waits"
    awk -v bytes=$(($(written) - before)) -v span="$SPAN" '
        match($0, /"share":[0-9.e-]+/) { share = substr($0, RSTART + 8, RLENGTH - 8) }
        END { if (share == "") exit 1; printf "%.2f %.4f\n", bytes / 1e6 / span, share * 100 }' \
        <(tail -n 1 "$WORK/waits") || die "the detector does not say what it cost"
}

# without: MB/s that the drive writes.
without() {
    local before
    before=$(written)
    sleep "$SPAN"
    awk -v bytes=$(($(written) - before)) -v span="$SPAN" 'BEGIN { printf "%.2f\n", bytes / 1e6 / span }'
}

echo 1 >"$STATS"
python3 "$WORK/write.py" "$WORK/file" "$SIZE" &
WRITER=$!
say "The writer fills what may be dirty"
sleep "$SPAN"
for ((pair = 0; pair < PAIRS; pair++)); do
    kill -0 "$WRITER" 2>/dev/null || die "the writer has ended"
    # In alternating order, so that drift of the drive affects both alike.
    if ((pair % 2)); then
        plain=$(without)
        seen=$(with)
    else
        seen=$(with)
        plain=$(without)
    fi
    echo "$seen $plain"
done >"$WORK/pairs"
end_writer

# Median and quartiles of numbers, a line each, in printf's FORMAT.
spread() {
    sort -n | awk -v format="$1" '{ v[NR] = $1 }
        END { printf format, (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2, v[int((NR + 3) / 4)], v[int((3 * NR + 3) / 4)] }'
}
awk '{ print $2 }' "$WORK/pairs" |
    spread 'share of a processor, percent: median %.3f, quartiles %.3f to %.3f\n'
awk '$3 > 0 { print $1 / $3 }' "$WORK/pairs" |
    spread "what the drive writes, with by without, $PAIRS pairs of $SPAN s: median %.3f, quartiles %.3f to %.3f\n"
