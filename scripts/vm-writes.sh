#!/usr/bin/env bash
# Measures in virtual machines what the shield does for operations beside a writer: `lab writes` on an ext4 on a slow
# disk of its own, in a whole system with cgroups of version 2, once in each virtual machine (scripts/vm.sh).
#
#   scripts/vm-writes.sh [SYSTEM…]
#
# SYSTEM is `debian12` or `debian13`; both without. BENCHMARKS (m1,m2,m4) and MEASURES (group,shield) are as `lab writes`
# has them; LIMIT (20) seconds is the longest that a benchmark goes on, MB_S (20) what the disk writes in a second. Prints
# the tables. Needs the machines (`scripts/vm.sh image`) and the laboratory (`make lab`).

# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"

BENCHMARKS=${BENCHMARKS:-m1,m2,m4}
MEASURES=${MEASURES:-group,shield}
LIMIT=${LIMIT:-20}
export PARALFETCH_VM_INIT=systemd
export PARALFETCH_VM_DISK_MIB=4096
export PARALFETCH_VM_DISK_MB_S=${MB_S:-20}
# The writer's file takes the disk two minutes. One that is removed before most of it was written costs the disk little,
# and hardly anybody waits.
WRITER_MIB=2560
# Longest time for a machine, in seconds: twelve runs take ten minutes.
PATIENCE=1800

LAB=$TARGET_DIR/release/lab
[[ -x $LAB ]] || die "$LAB is missing: make lab"
"$REPO/scripts/vm.sh" ready || die "there is no machine: run 'scripts/vm.sh image'"
SYSTEMS=("$@")
((${#SYSTEMS[@]} > 0)) || SYSTEMS=(debian12 debian13)

WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
# What the machine executes. Its working directory is in memory. The words are quoted for its shell.
words=(--disk /dev/vdc --drive-scheduler mq-deadline --benchmarks "$BENCHMARKS" --measures "$MEASURES" --runs 1
    --writer-mib "$WRITER_MIB" --limit "$LIMIT")
cat >"$WORK/guest" <<GUEST
#!/bin/sh
echo "Linux \$(uname -r)"
exec ./lab writes ${words[*]@Q} --image-dir "\$PWD"
GUEST
chmod +x "$WORK/guest"

for system in "${SYSTEMS[@]}"; do
    say "$system, a disk of $PARALFETCH_VM_DISK_MB_S MB/s"
    PARALFETCH_VM_SYSTEM=$system "$REPO/scripts/vm.sh" run "$PATIENCE" "$WORK/guest" "$LAB"
done
