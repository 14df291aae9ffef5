#!/usr/bin/env bash
# Builds an ext4 image that holds this distribution's base system and some packages.
#
#   scripts/image.sh IMAGE SIZE_GIB PACKAGE…
#
# PARALFETCH_IMAGE_SUITE names another release of the distribution than this system's, such as trixie: the image holds
# that one's base system and packages, from the same servers.
#
# The file is sparse: SIZE_GIB bounds it, the disk pays for what is in it. A second call with the
# same packages finds the image complete and returns at once. The work is done on IMAGE.part, which
# becomes IMAGE only when it is complete; it is done in mount and process namespaces that die with
# this script, however it ends.

# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"

# Raise when a change below makes images that were built before it unfit.
RECIPE=1
SECONDS_BETWEEN_REPORTS=5

# The distribution as apt names it in "Origin:", for example Debian.
distribution() { (
    # shellcheck source=/dev/null
    source /etc/os-release
    case $ID in
        debian) echo Debian ;;
        ubuntu) echo Ubuntu ;;
        *) die "images can be built on Debian and Ubuntu; this is $ID" ;;
    esac
); }

# The host's own sources that belong to the distribution, as one-line entries. What other
# repositories offer has no place in the image.
distribution_sources() {
    local origin=$1 keyring options=
    keyring=/usr/share/keyrings/${origin,,}-archive-keyring.gpg
    [[ ! -r $keyring ]] || options="[signed-by=$keyring] "
    apt-get indextargets --format "deb $options\$(REPO_URI) \$(RELEASE) \$(COMPONENT)" \
        'Created-By: Packages' "Origin: $origin" | sort -u
}

# of_suite: these sources, read from standard input, for the image's suite: its own, its updates, its security updates.
of_suite() { sed -E "s/^(deb .*) $HOST_SUITE(-[a-z]+)? ([^ ]*)\$/\1 $SUITE\2 \3/"; }

# How the host's apt reaches its sources: proxies, certificates, leniency about dates.
host_apt_options() { apt-config dump --no-empty Acquire | grep -E '^Acquire::(http|https|Check-|Retries|ForceIPv)' || true; }

stamp() { printf 'recipe %s\nsuite %s\nsize %s GiB\npackages %s\n' "$RECIPE" "$SUITE" "$SIZE_GIB" "${PACKAGES[*]}"; }

# Runs inside the namespaces, where it may mount what it likes.
fill() {
    local mount_point=$1 work=$2
    mount -o loop "$IMAGE.part" "$mount_point"
    # Documentation and translations are never read by the launches that are measured.
    # Host paths work in the hooks: they run on the host.
    # shellcheck disable=SC2016 # $1 is for the hooks
    LC_ALL=C.UTF-8 mmdebstrap --mode=root --variant=minbase --skip=check/empty \
        --aptopt='APT::Install-Recommends "false"' \
        --aptopt='Acquire::Languages "none"' \
        --aptopt="$work/apt.conf" \
        --dpkgopt='path-exclude=/usr/share/doc/*' \
        --dpkgopt='path-exclude=/usr/share/man/*' \
        --dpkgopt='path-exclude=/usr/share/locale/*' \
        --dpkgopt=force-unsafe-io \
        --setup-hook='cp -a /etc/apt/auth.conf /etc/apt/auth.conf.d "$1/etc/apt/" 2>/dev/null || true' \
        --customize-hook='rm -rf "$1"/etc/apt/auth.conf* "$1"/etc/apt/apt.conf.d/99mmdebstrap "$1"/var/cache/apt/*.bin' \
        --customize-hook='rm -f "$1/etc/resolv.conf" "$1/etc/hostname" && echo paralfetch >"$1/etc/hostname"' \
        --customize-hook='echo LANG=C.UTF-8 >"$1/etc/default/locale"' \
        --customize-hook='tr -d - </proc/sys/kernel/random/uuid >"$1/etc/machine-id"' \
        --include="$(IFS=,; echo "${PACKAGES[*]}")" \
        "$SUITE" "$mount_point" "$work/sources.list"
    # Gives the room of deleted packages back to the disk; not every file system can.
    fstrim "$mount_point" || true
    umount "$mount_point"
}

report_progress() {
    local started=$SECONDS mib never
    # A pipe that nobody writes to: waiting on it needs no process that could be left behind.
    exec {never}<> <(:)
    while ! read -r -t "$SECONDS_BETWEEN_REPORTS" -u "$never"; do
        mib=$(($(stat -c %b "$IMAGE.part") * 512 / 1024 / 1024))
        printf '    %4d s  %5d MiB  %s\n' $((SECONDS - started)) "$mib" \
            "$(grep -a '^I: ' "$LOG" | tail -n 1 | cut -c 4-)"
    done
}

# Ends what runs and removes what is half done.
abandon() {
    trap '' INT TERM HUP
    if [[ -n ${BUILDER:-} ]]; then kill -KILL "$BUILDER" 2>/dev/null || true; fi
    if [[ -n ${REPORTER:-} ]]; then kill "$REPORTER" 2>/dev/null || true; fi
    # Quietly: the shell would report the kill.
    wait 2>/dev/null || true
    rm -rf "$IMAGE.part" "$WORK"
}

main() {
    [[ $EUID -eq 0 ]] || die "building an image needs root"
    trusted_directory "$(dirname "$IMAGE")"
    lock_image "$IMAGE"
    if [[ $(cat "$IMAGE.stamp" 2>/dev/null) == "$(stamp)" && -f $IMAGE ]]; then
        say "Image $IMAGE is there already"
        return 0
    fi
    local origin
    origin=$(distribution)
    WORK=$IMAGE.work
    LOG=$IMAGE.log
    trap abandon EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP
    rm -rf "$IMAGE" "$IMAGE.stamp" "$IMAGE.part" "$WORK"
    mkdir -p "$WORK/mnt"
    # The sources' origin is only known once their lists have been fetched.
    if [[ -z $(distribution_sources "$origin") ]]; then
        apt-get -q update || die "apt-get update failed: check the network and the sources in /etc/apt"
    fi
    distribution_sources "$origin" | of_suite >"$WORK/sources.list"
    [[ -s $WORK/sources.list ]] || die "apt has no source of $origin itself: see 'apt-cache policy'"
    host_apt_options >"$WORK/apt.conf"

    say "Building $IMAGE: $origin $SUITE with ${PACKAGES[*]} (a few minutes; log in $LOG)"
    : >"$LOG"
    truncate -s "${SIZE_GIB}G" "$IMAGE.part"
    # Without lazy initialisation, which would go on writing during the first measurements.
    mke2fs -q -t ext4 -F -E lazy_itable_init=0,lazy_journal_init=0 "$IMAGE.part"
    export -f fill
    # shellcheck disable=SC2016 # expanded by the inner shell
    IMAGE=$IMAGE SUITE=$SUITE PACKAGE_LIST=${PACKAGES[*]} \
        setpriv --pdeathsig KILL unshare --mount --propagation private --pid --fork --kill-child --mount-proc -- \
        bash -euc 'read -ra PACKAGES <<<"$PACKAGE_LIST"; fill "$@"' fill "$WORK/mnt" "$WORK" >>"$LOG" 2>&1 &
    BUILDER=$!
    report_progress &
    REPORTER=$!
    if ! wait "$BUILDER"; then
        tail -n 15 "$LOG" >&2
        die "building the image failed: the end of $LOG is above"
    fi
    BUILDER=
    sync "$IMAGE.part"
    mv "$IMAGE.part" "$IMAGE"
    stamp >"$IMAGE.stamp"
    say "Image $IMAGE is complete: $(du -h "$IMAGE" | cut -f1) on disk"
}

[[ $# -ge 3 && $2 =~ ^[1-9][0-9]*$ ]] || die "usage: image.sh IMAGE SIZE_GIB PACKAGE…"
# Symbolic links stay in it: trusted_directory is to see them.
IMAGE=$(realpath -ms "$1")
SIZE_GIB=$2
PACKAGES=("${@:3}")
HOST_SUITE=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
SUITE=${PARALFETCH_IMAGE_SUITE:-$HOST_SUITE}
main
