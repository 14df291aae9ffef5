# shellcheck shell=bash
# Sourced by scripts that measure launches in an image, after common.sh.
#
# A measurement needs a drive of its own: the image stands on a loop device with direct I/O, so that
# the cache of the file below it does not serve reads. Nothing of it outlives the script:
#   - the mounts are made in a private mount namespace, and go with its last process;
#   - the loop device is made by mount(8), which marks it to go with its last mount;
#   - what the script starts gets SIGTERM when the script dies (PR_SET_PDEATHSIG), and whatever else
#     is left in the namespace is killed on the way out.

# What the stock distributions set, 128 KiB; loop devices inherit other values from their kernels.
READ_AHEAD_KB=128
SECONDS_TO_END=5

# require_kernel: what learning and the image need of the kernel, checked before anything is built.
require_kernel() {
    [[ -r /sys/kernel/btf/vmlinux ]] ||
        die "the kernel has no type information (/sys/kernel/btf/vmlinux): it needs CONFIG_DEBUG_INFO_BTF, as the distributions' kernels have"
    [[ -e /dev/loop-control ]] || as_root modprobe loop 2>/dev/null ||
        die "there are no loop devices here (/dev/loop-control): load the module 'loop', or leave the container"
    grep -qw ext4 /proc/filesystems || as_root modprobe ext4 2>/dev/null ||
        die "the kernel has no ext4"
    as_root unshare --mount --propagation private -- test -w /proc/sys/vm/drop_caches 2>/dev/null ||
        die "mounting and dropping caches is not allowed here: run on the machine itself, not in a container"
}

# require_direct_io DIRECTORY: images in it must reach the drive, not a cache. An existing parent
# stands in for a directory that is still to be made.
require_direct_io() {
    local dir=$1 type
    while [[ ! -d $dir ]]; do dir=$(dirname "$dir"); done
    type=$(stat -f -c %T "$dir")
    case $type in
        tmpfs | ramfs | zfs | overlayfs | nfs | fuseblk)
            die "$1 is on $type, whose reads are not the drive's: set PARALFETCH_DEMO_DIR to a directory on ext4, xfs or btrfs"
            ;;
    esac
}

# private_mounts STAGE SCRIPT [ARGUMENT…]: goes on as root in a mount namespace of its own, running
# SCRIPT with PARALFETCH_STAGE=STAGE.
private_mounts() {
    local stage=$1 sudo=()
    shift
    if [[ $EUID -ne 0 ]]; then
        command -v sudo >/dev/null || die "measuring needs root: become root, or install sudo"
        sudo=(sudo "--preserve-env=$KEPT_ENV" --)
    fi
    exec "${sudo[@]}" env PARALFETCH_STAGE="$stage" PARALFETCH_LEFT="$(readlink /proc/$$/ns/mnt)" \
        unshare --mount --propagation private -- "$@"
}

# begin_measuring IMAGE: to be called after private_mounts; from here on the end is clean. Sets MNT,
# where the image will be mounted.
begin_measuring() {
    # The end kills every process of the namespace: be sure that it is ours alone.
    [[ -n ${PARALFETCH_LEFT:-} && $(readlink /proc/$$/ns/mnt) != "$PARALFETCH_LEFT" ]] ||
        die "this stage needs a mount namespace of its own: start the script without PARALFETCH_STAGE"
    trusted_directory "$(dirname "$1")"
    IMAGE=$1
    MNT=$IMAGE.mnt
    trap end_image EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP
}

# mount_image: mounts the image as a system to chroot into, until the script ends.
mount_image() {
    local device queue directory
    lock_image "$IMAGE"
    mkdir -p "$MNT"
    mount -o loop "$IMAGE" "$MNT" || die "cannot mount $IMAGE: delete it and run this again"
    device=$(findmnt -n -o SOURCE --mountpoint "$MNT")
    require_direct_loop "$device" "$IMAGE"
    queue=/sys/block/${device#/dev/}/queue
    # The same knob as the read_ahead_kb of the device's bdi, where ext4 takes it from.
    echo "$READ_AHEAD_KB" >"$queue/read_ahead_kb"
    mount -t proc proc "$MNT/proc"
    mount --rbind /sys "$MNT/sys"
    mount --rbind /dev "$MNT/dev"
    for directory in dev/shm tmp run; do
        mount -t tmpfs -o mode=1777 tmpfs "$MNT/$directory"
    done
    say "Mounted $IMAGE on $device: direct I/O, read_ahead_kb $READ_AHEAD_KB"
}

# require_direct_loop DEVICE IMAGE: direct I/O on, or an end with the reason.
require_direct_loop() {
    local why="the cache of $2 would serve reads, and every figure would be wrong"
    losetup --direct-io=on "$1" 2>/dev/null ||
        die "$1 refuses direct I/O, so $why: set PARALFETCH_DEMO_DIR to a directory on ext4, xfs or btrfs on a drive with 512-byte sectors"
    [[ $(losetup --list --noheadings --output DIO "$1" | tr -d ' ') == 1 ]] ||
        die "direct I/O did not take on $1, so $why"
}

# in_image COMMAND…: runs it with the image as its root directory; waits, and hands on its status.
in_image() { guarded env "${IMAGE_ENV[@]}" chroot "$MNT" "$@"; }

# with_paralfetch ARGUMENT…: our program, with the environment that the launches need.
with_paralfetch() { guarded env "${IMAGE_ENV[@]}" "$PARALFETCH" "$@"; }

IMAGE_ENV=(-i HOME=/root LANG=C.UTF-8 PATH=/usr/sbin:/usr/bin:/sbin:/bin "TERM=${TERM:-dumb}")

# guarded COMMAND…: in the background, so that our traps run at once when a signal comes. A shell
# starts background commands with SIGINT ignored; Ctrl-C is to reach this one.
guarded() {
    setpriv --pdeathsig TERM env --default-signal=INT,QUIT "$@" &
    wait $!
}

# signal_others SIGNAL: to every other process of our mount namespace; fails when there is none.
# Without a subshell, which would be in the namespace too.
signal_others() {
    local process pids=()
    for process in /proc/[0-9]*; do
        if [[ ${process#/proc/} -ne $$ && $process/ns/mnt -ef /proc/$$/ns/mnt ]]; then
            pids+=("${process#/proc/}")
        fi
    done
    [[ ${#pids[@]} -gt 0 ]] && kill -"$1" "${pids[@]}" 2>/dev/null
}

# end_image: ends what still runs in it and undoes the mounts. Harmless when repeated.
end_image() {
    local started=$SECONDS
    trap '' INT TERM HUP
    signal_others TERM || true
    while signal_others 0 && ((SECONDS - started < 2 * SECONDS_TO_END)); do
        ((SECONDS - started < SECONDS_TO_END)) || signal_others KILL || true
        sleep 0.05
    done
    if mountpoint -q "$MNT"; then
        umount --recursive "$MNT" || umount --recursive --lazy "$MNT" || true
    fi
    rmdir "$MNT" 2>/dev/null || true
    [[ -z $(losetup --associated "$IMAGE") ]] || warn "$IMAGE is still attached: $(losetup --associated "$IMAGE")"
}
