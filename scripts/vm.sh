#!/usr/bin/env bash
# Runs a program in a virtual machine with Debian 12 or Debian 13 and its kernel: with everything in it that hosts may
# lack (fentry, debugfs, file systems as modules, kernel lockdown off).
#
#   scripts/vm.sh image [SYSTEM]                 builds the machine's disk, once
#   scripts/vm.sh possible                       succeeds if this system can build and run it
#   scripts/vm.sh ready [SYSTEM]                 succeeds if it has been built
#   scripts/vm.sh run SECONDS PROGRAM [FILE…]    boots it and executes PROGRAM, named `guest`, as root
#
# SYSTEM is `debian12` (Linux 6.1) or `debian13` (6.12); without it, both.
#
# PARALFETCH_VM_SYSTEM says which is booted (debian12 when it is not set), PARALFETCH_VM_INIT what is process 1: `guest`,
# PROGRAM alone (also when it is not set), or `systemd`, which starts PROGRAM as a service of its own when all others have
# been started.
#
# PARALFETCH_VM_BOOTS is how often the machine may be booted (1 when it is not set). With more than one, PROGRAM ends with
# status 75 when it wants a reboot: processes and file systems are ended as on any machine, and PROGRAM is executed again
# after the next boot. What is on the disks stays from one boot to the next.
#
# PARALFETCH_VM_DISK_MIB gives the machine another disk of so many MiB, /dev/vdc: empty, and as slow as
# PARALFETCH_VM_DISK_MB_S says, in MB (10⁶ bytes) a second (20 when it is not set). It takes 32 requests at a
# time, as SATA drives do. It is a sparse file in TMPDIR that is removed with the machine.
#
# PROGRAM is executed in a directory in memory that holds it and the FILEs; the machine's own disk is
# an ext4 that can be written to and forgets everything in the end. What PROGRAM prints is printed, its exit
# status is passed through. Where /dev/kvm boots a kernel within seconds it is used, otherwise the machine is emulated: slow,
# and the same everywhere.
# It has no network. After SECONDS, all boots together, it is switched off.

# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"

VM_DIR=$(realpath -ms "${PARALFETCH_VM_DIR:-/var/tmp/paralfetch-vm}")
IMAGE_GIB=2
# The systems' names for Debian's releases.
declare -A SUITES=([debian12]=bookworm [debian13]=trixie)

# choose_system SYSTEM: sets IMAGE and PACKAGES: the kernel; what our binary is linked with; Python, as an app with many
# files and libraries; and what the installed service is tested with.
choose_system() {
    SYSTEM=$1
    IMAGE=$VM_DIR/$SYSTEM.img
    PACKAGES=(linux-image-amd64 zstd)
    case $SYSTEM in
        debian12) PACKAGES+=(libext2fs2 libelf1) ;;
        # There, the base system has no mkfs.ext4.
        debian13) PACKAGES+=(e2fsprogs libext2fs2t64 libelf1t64) ;;
        *) die "the system is '$SYSTEM': debian12 and debian13 are known" ;;
    esac
    PACKAGES+=(zlib1g python3 systemd-sysv dbus polkitd bubblewrap)
}

MEMORY_MIB=2048
# Requests that the other disk takes at a time.
DISK_DEPTH=32
# Exit status when the machine has not come to an end of its own, as timeout(1) has it.
TIMED_OUT=124
# Exit status with which the program asks for a reboot.
REBOOT=75

# is_debian_12: whether this system's packages, and programs built here, are Debian 12's.
is_debian_12() { (
    # shellcheck source=/dev/null
    source /etc/os-release
    [[ $ID == debian && $VERSION_ID == 12 && $(uname -m) == x86_64 ]]
); }

# take_out FILE: copies what is at /boot/FILE-RELEASE in the image to FILE-SYSTEM beside it.
take_out() {
    local name
    name=$(debugfs -R 'ls -p /boot' "$IMAGE" 2>/dev/null | cut -d / -f 6 | grep -xE "$1-[0-9].*" | sort -V | tail -n 1)
    [[ -n $name ]] || die "there is no $1 in $IMAGE: remove it, and build it again"
    debugfs -R "dump /boot/$name $VM_DIR/$1-$SYSTEM" "$IMAGE" 2>/dev/null
}

# build_image SYSTEM: its disk, and the kernel and initial file system beside it.
build_image() {
    choose_system "$1"
    need_room_for "$IMAGE" "$IMAGE_GIB"
    PARALFETCH_IMAGE_SUITE=${SUITES[$SYSTEM]} "$REPO/scripts/image.sh" "$IMAGE" "$IMAGE_GIB" "${PACKAGES[@]}"
    take_out vmlinuz
    take_out initrd.img
}

# build_images SYSTEM…: one after the other.
build_images() {
    local system
    is_debian_12 || die "the machines can only be built on Debian 12 for x86-64: programs built elsewhere would not run in them"
    trusted_directory "$VM_DIR"
    for system; do
        build_image "$system"
    done
}

# ready SYSTEM…: whether all that is booted is there.
ready() {
    local system
    for system; do
        choose_system "$system"
        [[ -f $IMAGE.stamp && -f $VM_DIR/vmlinuz-$SYSTEM && -f $VM_DIR/initrd.img-$SYSTEM ]] || return 1
    done
}

# Units that take time under emulation and have nothing to do with what is tested. The getty of the
# console would take it away from what is written there.
MASKED=(serial-getty@ttyS0.service getty@tty1.service apt-daily.timer apt-daily-upgrade.timer
    dpkg-db-backup.timer e2scrub_all.timer e2scrub_reap.service fstrim.timer systemd-pcrphase.service
    systemd-pcrphase-sysinit.service systemd-update-utmp.service systemd-update-utmp-runlevel.service)

# What the machine's first process does, from the directory that it is in.
write_init() {
    local file=$1 init=$2
    echo '#!/bin/sh' >"$file"
    case $init in
        guest)
            cat >>"$file" <<'INIT'
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount -t debugfs debugfs /sys/kernel/debug
mount -t securityfs securityfs /sys/kernel/security
exec ./run
INIT
            ;;
        systemd)
            cat >>"$file" <<INIT
for unit in ${MASKED[*]}; do
    ln -sf /dev/null /etc/systemd/system/\$unit
done
mkdir -p /etc/systemd/system/multi-user.target.wants
cat >/etc/systemd/system/guest.service <<UNIT
[Unit]
Description=The program that is run in this machine
After=multi-user.target
[Service]
WorkingDirectory=\$PWD
ExecStart=\$PWD/run
UNIT
ln -sf ../guest.service /etc/systemd/system/multi-user.target.wants/guest.service
exec /lib/systemd/systemd
INIT
            ;;
    esac
    chmod +x "$file"
}

# What executes the program. Its end is the machine's.
write_run() {
    cat >"$1" <<RUN
#!/bin/sh
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8
stty -F /dev/ttyS1 raw -echo
./guest </dev/null >/dev/ttyS1 2>&1
status=\$?
echo "exit status \$status" >/dev/ttyS1
# The device sends what it has before the machine is reset, which ends the emulator.
stty -F /dev/ttyS1 -a >/dev/null && sleep 1
if [ "\$status" = $REBOOT ]; then
    sync
    [ ! -d /run/systemd/system ] || exec systemctl --no-block reboot
fi
echo b >/proc/sysrq-trigger
RUN
    chmod +x "$1"
}

# pack FILE COPY: of programs without debugging information, which would only cost memory and time.
pack() { objcopy --strip-debug "$1" "$2" 2>/dev/null || cp "$1" "$2"; }

# pack_payload WORK INIT PROGRAM FILE…: what the machine executes, as WORK/payload.tar.
pack_payload() {
    local work=$1 init=$2 program=$3 payload=$1/payload file
    mkdir "$payload"
    write_init "$payload/init" "$init"
    write_run "$payload/run"
    pack "$program" "$payload/guest"
    for file in "${@:4}"; do
        pack "$file" "$payload/$(basename "$file")"
    done
    tar -C "$payload" -cf "$work/payload.tar" .
}

# Longest boot to the initial file system by /dev/kvm, in seconds, and what the kernel says there.
PROBE_SECONDS=5
BOOTED='Run /init as init process'

# boots_by_kvm: whether /dev/kvm boots the machine's kernel. Virtual machines may offer it and not carry it through.
boots_by_kvm() {
    local console
    console=$(mktemp)
    timeout --kill-after=1 "$PROBE_SECONDS" qemu-system-x86_64 -nodefaults -no-reboot -display none -accel kvm -cpu host \
        -m "$MEMORY_MIB" -kernel "$VM_DIR/vmlinuz-$SYSTEM" -initrd "$VM_DIR/initrd.img-$SYSTEM" -serial "file:$console" \
        -append 'console=ttyS0 panic=-1 root=/dev/none' </dev/null >/dev/null 2>&1 || true
    grep -q "$BOOTED" "$console"
    local booted=$?
    rm -f "$console"
    return "$booted"
}

# choose_accelerator: sets ACCELERATOR and PROCESSORS. What the probe found is kept until this system is booted again.
choose_accelerator() {
    local file=$VM_DIR/accelerator boot found=tcg
    boot=$(cat /proc/sys/kernel/random/boot_id)
    if [[ -w /dev/kvm && $(cat "$file" 2>/dev/null) != *"$boot" ]]; then
        if boots_by_kvm; then found=kvm; fi
        echo "$found $boot" >"$file"
    elif [[ -w /dev/kvm ]]; then
        read -r found _ <"$file"
    fi
    if [[ $found == kvm ]]; then
        ACCELERATOR=(-accel kvm -cpu host) PROCESSORS=2
        return 0
    fi
    # A processor that is emulated by a thread of its own may go on executing a breakpoint that another one has removed
    # from the code, for ever: Linux sets them while tracepoints are attached and detached. All processors take turns in
    # one thread instead; a whole system, which would then be too slow, has one.
    # Without cmpxchg16b: under QEMU 7.2, Linux 6.12 has crashed right behind that instruction.
    ACCELERATOR=(-accel "tcg,thread=single" -cpu "max,-cx16") PROCESSORS=2
    [[ $1 == guest ]] || PROCESSORS=1
}

# boot WORK SECONDS: with what run has prepared there. What the program printed goes to WORK/out, and what the kernel and
# process 1 did to WORK/console. Sets ENDED to the emulator's status.
boot() {
    local work=$1 seconds=$2
    ENDED=0
    # no_timer_check: where the host is busy, the emulated timer fires too late for the check at boot.
    # A disk's readahead is the kernel's usual 128 KiB.
    setpriv --pdeathsig TERM timeout --kill-after=5 "$seconds" \
        setpriv --pdeathsig KILL qemu-system-x86_64 \
        -nodefaults -no-reboot -display none "${ACCELERATOR[@]}" -smp "$PROCESSORS" -m "$MEMORY_MIB" \
        -kernel "$VM_DIR/vmlinuz-$SYSTEM" -initrd "$VM_DIR/initrd.img-$SYSTEM" \
        -drive "$ROOT_DISK" \
        -drive "file=$work/payload.tar,format=raw,if=virtio,readonly=on" \
        "${OTHER_DISK[@]}" \
        -serial "file:$work/console" -serial "file:$work/out" \
        -append "root=/dev/vda rw fsck.mode=skip console=ttyS0 quiet panic=-1 mitigations=off no_timer_check$PARAMETERS init=/bin/sh -- -c \"mount -t tmpfs tmpfs /mnt && tar -C /mnt -xf /dev/vdb && cd /mnt && exec ./init\"" \
        </dev/null || ENDED=$?
    touch "$work/out"
}

# prepare_disks WORK BOOTS: sets ROOT_DISK, OTHER_DISK and PARAMETERS of the kernel that belong to them.
prepare_disks() {
    local work=$1 boots=$2
    local disk_mib=${PARALFETCH_VM_DISK_MIB:-0} disk_mb_s=${PARALFETCH_VM_DISK_MB_S:-20}
    [[ $disk_mib =~ ^(0|[1-9][0-9]{0,5})$ ]] || die "PARALFETCH_VM_DISK_MIB is '$disk_mib': a size in MiB is wanted"
    [[ $disk_mb_s =~ ^[1-9][0-9]{0,4}$ ]] || die "PARALFETCH_VM_DISK_MB_S is '$disk_mb_s': MB a second are wanted"
    # The image is not written to.
    ROOT_DISK="file=$IMAGE,format=raw,if=virtio,snapshot=on"
    if ((boots > 1)); then
        # The emulator's snapshot ends with it. The machine's copy takes as much room as is in the image, and shares it
        # where the file system can.
        cp --sparse=always --reflink=auto "$IMAGE" "$work/root"
        ROOT_DISK="file=$work/root,format=raw,if=virtio,cache=unsafe"
    fi
    OTHER_DISK=() PARAMETERS=
    if ((disk_mib > 0)); then
        truncate -s "${disk_mib}M" "$work/disk"
        # Nothing outlives the machine, so flushes need not reach the host's drive, which would set the pace.
        OTHER_DISK=(-drive "file=$work/disk,format=raw,if=virtio,cache=unsafe,throttling.bps-total=${disk_mb_s}000000")
        # Otherwise as many as fit into the device's ring: 256, seconds of such a disk.
        PARAMETERS=" virtio_blk.queue_depth=$DISK_DEPTH"
    fi
}

run() {
    local seconds=$1 boots=${PARALFETCH_VM_BOOTS:-1} init=${PARALFETCH_VM_INIT:-guest} work status boot end
    [[ $init == guest || $init == systemd ]] || die "PARALFETCH_VM_INIT is '$init': guest and systemd are known"
    [[ $boots =~ ^[1-9]$ ]] || die "PARALFETCH_VM_BOOTS is '$boots': a number from 1 to 9 is wanted"
    ready "${PARALFETCH_VM_SYSTEM:-debian12}" || die "there is no machine: run 'scripts/vm.sh image $SYSTEM'"
    work=$(mktemp -d)
    # shellcheck disable=SC2064 # its name now
    trap "rm -rf '$work'" EXIT
    pack_payload "$work" "$init" "${@:2}"
    prepare_disks "$work" "$boots"
    choose_accelerator "$init"
    end=$((SECONDS + seconds))
    for ((boot = 1; boot <= boots; boot++)); do
        ((end > SECONDS)) || break
        boot "$work" $((end - SECONDS))
        status=$(sed -nE '$s/^exit status ([0-9]+)$/\1/p' "$work/out")
        [[ -n $status ]] || break
        head -n -1 "$work/out"
        # Also where the machine has not gone down by itself in time, which it says.
        if ((ENDED == 0)) && ((status != REBOOT || boot == boots)); then
            exit "$status"
        fi
        ((ENDED == 0)) || break
    done
    [[ -n $status ]] || cat "$work/out"
    warn "the machine with $SYSTEM did not come to its end (boot $boot, status $ENDED, limit $seconds s); its console said last:"
    tail -n 80 "$work/console" >&2 || true
    exit "$TIMED_OUT"
}

SYSTEMS=("${@:2}")
((${#SYSTEMS[@]} > 0)) || SYSTEMS=(debian12 debian13)
case ${1:-}:$# in
    possible:1) is_debian_12 ;;
    image:[12]) build_images "${SYSTEMS[@]}" ;;
    ready:[12]) ready "${SYSTEMS[@]}" ;;
    run:[3-9] | run:[1-9][0-9])
        [[ $2 =~ ^[1-9][0-9]*$ ]] || die "a number of seconds is wanted, not '$2'"
        run "${@:2}"
        ;;
    *) die "usage: vm.sh possible | vm.sh image [SYSTEM] | vm.sh ready [SYSTEM] | vm.sh run SECONDS PROGRAM [FILE…]" ;;
esac
