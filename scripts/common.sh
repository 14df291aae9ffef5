# shellcheck shell=bash
# Sourced by the other scripts: messages, where things are, who runs what.

set -euo pipefail

# Where losetup and mke2fs are; su and users' shells may leave it out.
PATH=$PATH:/usr/sbin:/sbin
REPO=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# The build; cargo honours the same variable. Absolute, because sudo and unshare come in between.
TARGET_DIR=$(realpath -m "${CARGO_TARGET_DIR:-$REPO/target}")
export CARGO_TARGET_DIR=$TARGET_DIR
# shellcheck disable=SC2034 # used by the scripts that source this file
PARALFETCH=$TARGET_DIR/release/paralfetch
# Images, states and logs of the demonstration and of the measurements.
# shellcheck disable=SC2034
CACHE_DIR=$(realpath -ms "${PARALFETCH_DEMO_DIR:-/var/tmp/paralfetch-demo}")

# Environment that survives the change of user.
KEPT_ENV=CARGO_TARGET_DIR,PARALFETCH_DEMO_DIR,PARALFETCH_VM_DIR,PARALFETCH_REQUIRE_PRIVILEGED
KEPT_ENV+=,PARALFETCH_NEW_USER,CXX,CFLAGS,RUSTFLAGS,RUST_BACKTRACE,RUSTC_BOOTSTRAP,http_proxy,https_proxy,no_proxy

say() { printf '==> %s\n' "$*"; }
warn() { printf '%s: %s\n' "${0##*/}" "$*" >&2; }
die() {
    warn "$*"
    exit 1
}

# as_root COMMAND…: directly when root, through sudo otherwise.
as_root() {
    if [[ $EUID -eq 0 ]]; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo --preserve-env="$KEPT_ENV" -- "$@"
    else
        die "'$1' needs root: become root, or install sudo"
    fi
}

# as_invoker COMMAND…: as the user behind sudo when the source tree is theirs, so that a build under
# sudo leaves no files of root in it; directly otherwise.
as_invoker() {
    if [[ $EUID -eq 0 && -n ${SUDO_USER:-} && $(stat -c %U "$REPO") == "$SUDO_USER" ]]; then
        sudo -u "$SUDO_USER" -H --preserve-env="$KEPT_ENV" -- "$@"
    else
        "$@"
    fi
}

# version_at_least HAVE WANTED
version_at_least() { printf '%s\n%s\n' "$2" "$1" | sort -V -C; }

# The oldest cargo that builds the project, from its manifest.
rust_floor() { sed -n 's/^rust-version = "\(.*\)"/\1/p' "$REPO/Cargo.toml"; }

# cargo_version CARGO: for example 1.95.0; nothing when it does not run.
cargo_version() { as_invoker "$1" --version 2>/dev/null | sed -n 's/^cargo \([0-9.]*\).*/\1/p' || true; }

# The homes whose .cargo/bin may hold cargo: rustup puts it there, and sudo's PATH leaves it out.
cargo_homes() {
    printf '%s\n' "${HOME:-/root}"
    if [[ -n ${SUDO_USER:-} ]]; then
        getent passwd "$SUDO_USER" | cut -d: -f6
    fi
}

# find_cargo: sets CARGO to the first cargo that is new enough; fails when there is none.
find_cargo() {
    local candidates=() home candidate
    mapfile -t candidates < <(type -P cargo || true)
    while read -r home; do
        candidates+=("$home/.cargo/bin/cargo")
    done < <(cargo_homes)
    candidates+=(/usr/bin/cargo)
    for candidate in "${candidates[@]}"; do
        if [[ -x $candidate ]] && version_at_least "$(cargo_version "$candidate")" "$(rust_floor)"; then
            CARGO=$candidate
            return 0
        fi
    done
    return 1
}

# cargo ARGUMENTS…: the one that find_cargo finds, as the invoking user, in the source tree.
cargo() {
    [[ -n ${CARGO:-} ]] || find_cargo || die "no cargo $(rust_floor) or newer: run 'make setup'"
    (cd "$REPO" && as_invoker "$CARGO" "$@")
}

# trusted_directory DIRECTORY: makes it if it is missing; ends unless only root and the invoking user
# can change what is in it. The default place is one where everybody may make directories, and root
# locks, mounts and runs what lies in it.
trusted_directory() {
    local dir=$1 owner mode type
    [[ -e $dir || -L $dir ]] || as_root mkdir -p -m 0755 -- "$dir"
    read -r owner mode type < <(LC_ALL=C stat -c '%u %a %F' -- "$dir") || die "cannot look at $dir"
    [[ $type == directory ]] ||
        die "$dir is a $type, not a directory: remove it, or set PARALFETCH_DEMO_DIR to a directory elsewhere"
    [[ $owner == 0 || $owner == "${SUDO_UID:-$EUID}" ]] ||
        die "$dir belongs to user $owner: remove it, or set PARALFETCH_DEMO_DIR to a directory of your own"
    (((8#$mode & 8#022) == 0)) ||
        die "others than its owner can write to $dir: check what is in it, then run 'chmod go-w $dir'"
}

# need_room_for IMAGE GIB: nothing, when the image has been built. Its directory need not exist yet.
need_room_for() {
    [[ ! -f $1 || ! -f $1.stamp ]] || return 0
    need_free_gib "$(dirname "$1")" "$2"
}

# need_free_gib DIRECTORY GIB: the directory need not exist yet.
need_free_gib() {
    local dir=$1 kib
    while [[ ! -d $dir ]]; do dir=$(dirname "$dir"); done
    kib=$(df --output=avail -k "$dir" | tail -n 1)
    ((kib >= $2 * 1024 * 1024)) ||
        die "$1 has $((kib / 1024)) MiB free, $2 GiB are needed: make room, or set PARALFETCH_DEMO_DIR to a directory elsewhere"
}

# lock_image IMAGE: until this script and all that it started have ended.
lock_image() {
    local lock
    exec {lock}>"$1.lock"
    flock --nonblock "$lock" || die "$1 is in use: wait until the other measurement has ended"
}

# machine_of PROGRAM: the processor that it is built for, as uname -m names it.
machine_of() {
    local machine
    machine=$(LC_ALL=C readelf -h -- "$1" | sed -n 's/^ *Machine: *//p')
    case $machine in
        *X86-64) echo x86_64 ;;
        AArch64) echo aarch64 ;;
        RISC-V) echo riscv64 ;;
        *) die "$1 is built for no processor that is packaged: ${machine:-it is no ELF file}" ;;
    esac
}

# binutil MACHINE TOOL: the name of the binary utility for programs of this processor.
binutil() { if [[ $1 == "$(uname -m)" ]]; then echo "$2"; else echo "$1-linux-gnu-$2"; fi; }
