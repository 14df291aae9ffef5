#!/usr/bin/env bash
# Runs the laboratory's benchmarks beside a writer (lab writes) in the virtual machine: a whole system, where the
# writer has a scope of systemd's own with a memory cgroup, on Debian 12's kernel and on that of Debian 13, which is
# the one of the backports.
#
#   scripts/vm-writes.sh [OPTION…]      options of `lab writes`
#
# The drive is a disk of the machine that transfers RATE (20000000) bytes in a second. KERNELS (stock backports) says
# which kernels, SECONDS_EACH (7200) how long each may take. The emulated processors are slow: believe what a
# benchmark takes under one measure beside what it takes under another, and no time by itself.

# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"

RATE=${RATE:-20000000}
KERNELS=${KERNELS:-stock backports}
SECONDS_EACH=${SECONDS_EACH:-7200}
LAB=$TARGET_DIR/release/lab
[[ -x $LAB ]] || die "$LAB is missing: make lab"
OPTIONS=("$@")
[[ $# -gt 0 ]] || OPTIONS=(--benchmarks 'm1,m2,m4' --measures 'group,shield' --runs 2 --limit 60)

WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
cat >"$WORK/writes" <<'GUEST'
#!/bin/sh
set -e
modprobe loop
# The measured drive is a loop device on this disk: what is queued here is the drive's own queue.
echo none >/sys/block/vdc/queue/scheduler
mke2fs -q -t ext4 /dev/vdc
mkdir /scratch
mount /dev/vdc /scratch
echo "$(uname -r)"
GUEST
{
    printf 'exec ./lab writes --device nvme --drive-scheduler mq-deadline --image-dir /scratch'
    printf ' %q' "${OPTIONS[@]}"
    echo
} >>"$WORK/writes"
chmod +x "$WORK/writes"

for kernel in $KERNELS; do
    say "Debian's $kernel kernel"
    PARALFETCH_VM_KERNEL=$kernel PARALFETCH_VM_INIT=systemd PARALFETCH_VM_SCRATCH=6:$RATE \
        "$REPO/scripts/vm.sh" run "$SECONDS_EACH" "$WORK/writes" "$LAB"
done
