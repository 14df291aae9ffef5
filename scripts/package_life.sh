#!/usr/bin/env bash
# Installs, upgrades and removes a package for rpm or pacman by the package manager itself, in a system that is this one
# with a layer above it, and checks what the package's scripts ask of systemd and what is left behind.
#
#   scripts/package_life.sh FILE.rpm|FILE.pkg.tar.zst
#
# Needs root, overlayfs, and rpm or pacman. Nothing of this system is changed. scripts/test_packages.sh runs it.

# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"

# In a mount namespace of its own, so that no mount is left whatever happens. It has to be there on every system.
PLACE=/mnt
UNITS='paralfetch.socket paralfetch.service'

# make_system: at $SYSTEM, with what it changes in $LAYER. Its systemctl only notes what it is asked.
make_system() {
    mount -t tmpfs tmpfs "$PLACE"
    LAYER=$PLACE/layer SYSTEM=$PLACE/system
    mkdir "$LAYER" "$PLACE/work" "$SYSTEM"
    mount -t overlay overlay -o "lowerdir=/,upperdir=$LAYER,workdir=$PLACE/work" "$SYSTEM" ||
        die "no layer can be put above this system's root"
    mount -t tmpfs tmpfs "$SYSTEM/run"
    mount -t tmpfs tmpfs "$SYSTEM/tmp"
    # This system's own service may be in use.
    rm -rf "$SYSTEM/var/lib/paralfetch" "$SYSTEM/etc/paralfetch"
    mount --bind /dev "$SYSTEM/dev"
    mount -t proc proc "$SYSTEM/proc"
    rm -f "$SYSTEM/usr/bin/systemctl"
    cat >"$SYSTEM/usr/bin/systemctl" <<'SCRIPT'
#!/bin/sh
echo "$*" >>/run/asked
SCRIPT
    chmod 755 "$SYSTEM/usr/bin/systemctl"
}

# manage ARGUMENTS…: the package manager, for the system. Neither manager's status tells that a script of the package has
# failed; what they print does.
manage() {
    : >"$SYSTEM/run/asked"
    case $PACKAGE in
        *.rpm) rpm --root "$SYSTEM" --nodeps "$@" ;;
        *) pacman --root "$SYSTEM" --dbpath "$SYSTEM/var/lib/pacman" --config "$PLACE/pacman.conf" --noconfirm "$@" ;;
    esac >"$PLACE/said" 2>&1 </dev/null || fail "$*: the package manager failed"
    ! grep -iE 'scriptlet.*fail|command failed|error:' "$PLACE/said" >&2 || fail "$*: a script failed"
}

fail() {
    cat "$PLACE/said" >&2
    die "${PACKAGE##*/}: $*"
}

# asked WHEN LINE…: what systemd was asked for then.
asked() {
    local when=$1
    shift
    diff <([[ $# -eq 0 ]] || printf '%s\n' "$@") "$SYSTEM/run/asked" >&2 || fail "$when, systemd is asked for something else"
}

# left: files and directories of ours that are there.
left() {
    (cd "$LAYER" && find . -name '*paralfetch*' ! -path './var/lib/rpm/*' ! -path './var/lib/pacman/*' ! -type c \
        ! -path './var/log/*' | sort)
    (cd "$SYSTEM" && find ./run -name '*paralfetch*')
}

# The states that a service leaves, and what an administrator changes.
use() {
    mkdir -p "$SYSTEM/var/lib/paralfetch" "$SYSTEM/run/paralfetch/shield"
    touch "$SYSTEM/var/lib/paralfetch/app.pf"
    echo '# mine' >>"$SYSTEM/etc/paralfetch/config.toml"
}

kept() {
    grep -qx '# mine' "$SYSTEM/etc/paralfetch/config.toml" || fail "$1 changes the configuration"
    [[ -e $SYSTEM/var/lib/paralfetch/app.pf ]] || fail "$1 removes profiles"
    [[ -d $SYSTEM/run/paralfetch/shield ]] || fail "$1 removes the records of a service that runs"
}

# life SAVED: the rest is what both managers have in common; SAVED is how changed configuration is called afterwards.
life() {
    local before
    before=$(left)
    [[ -z $before ]] || die "this system has Paralfetch already: $before"
    manage "${INSTALL[@]}" "$PACKAGE"
    asked 'at the installation' "${AT_INSTALLATION[@]}"
    [[ $(chroot "$SYSTEM" paralfetch --version) == "paralfetch $("$REPO/scripts/versions.py" --version)" ]] ||
        fail "the program that is installed has another version"
    use
    manage "${UPGRADE[@]}" "$PACKAGE"
    asked 'at an upgrade' "${AT_UPGRADE[@]}"
    kept 'an upgrade'
    manage "${REMOVE[@]}" paralfetch
    asked 'at the removal' "${AT_REMOVAL[@]}"
    diff <(printf '%s\n' ./etc/paralfetch ./var/lib/paralfetch) <(left) >&2 || fail "removing leaves the above"
    diff <(printf '%s\n' app.pf "config.toml.$1") <(find "$SYSTEM"/{etc,var/lib}/paralfetch -type f -printf '%f\n' | sort) >&2 ||
        fail "removing keeps the above of profiles and changed configuration"
}

main() {
    if [[ $# -eq 1 && -f $1 ]]; then
        [[ $EUID -eq 0 ]] || die "the system's layer needs root"
        exec unshare --mount --propagation private "$0" --in-namespace "$(realpath "$1")"
    fi
    [[ $# -eq 2 && $1 == --in-namespace ]] || die "usage: package_life.sh FILE.rpm|FILE.pkg.tar.zst"
    PACKAGE=$2
    make_system
    case $PACKAGE in
        *.rpm)
            INSTALL=(--install) UPGRADE=(--upgrade --replacepkgs) REMOVE=(--erase)
            AT_INSTALLATION=("--no-reload preset $UNITS" daemon-reload)
            AT_UPGRADE=(daemon-reload "try-restart paralfetch.service")
            AT_REMOVAL=("--no-reload disable --now ${UNITS#* } ${UNITS% *}" daemon-reload)
            life rpmsave
            ;;
        *)
            printf '[options]\nArchitecture = auto\nSigLevel = Never\n' >"$PLACE/pacman.conf"
            mkdir -p "$SYSTEM/var/lib/pacman"
            INSTALL=(--upgrade --nodeps --nodeps) UPGRADE=("${INSTALL[@]}") REMOVE=(--remove --nodeps --nodeps)
            AT_INSTALLATION=()
            AT_UPGRADE=(daemon-reload "try-restart paralfetch.service")
            AT_REMOVAL=("disable --now ${UNITS#* } ${UNITS% *}")
            life pacsave
            ;;
    esac
    say "${PACKAGE##*/} is installed, upgraded and removed as it should be"
}

main "$@"
