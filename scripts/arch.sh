#!/usr/bin/env bash
# Builds the package for Arch Linux and others with pacman.
#
#   scripts/arch.sh [--binary FILE] [DIRECTORY]
#
# The package goes to DIRECTORY (target/arch if none is given); its name is printed. The program is built first, unless
# --binary names one. packaging/arch has makepkg's files, dist/installed-files what is installed where. As root, the
# same program makes the same package, byte for byte.

# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"

# makepkg notes the directory that it worked in: always this, in a mount namespace. It has to be there on every system.
PLACE=/mnt

# run_makepkg MACHINE: in $WORK, where the program lies as if makepkg had built it. It refuses to work as root, and needs no
# right of its user. It wants a pacman to ask what is installed; none need be there, and the package is not to say so.
run_makepkg() {
    local makepkg=(env HOME=/ CARCH="$1" SOURCE_DATE_EPOCH="$("$REPO/scripts/versions.py" --epoch)" LC_ALL=C.UTF-8 PACMAN=true
        makepkg --repackage --nodeps --config makepkg.conf)
    if [[ $EUID -eq 0 ]]; then
        chown -R 65534:65534 "$WORK"
        # shellcheck disable=SC2016 # for the inner shell
        unshare --mount sh -c 'mount --bind "$1" "$2" && cd "$2" && shift 2 &&
            exec setpriv --reuid=65534 --regid=65534 --clear-groups -- "$@"' sh "$WORK" "$PLACE" "${makepkg[@]}"
    else
        (cd "$WORK" && "${makepkg[@]}")
    fi
}

build_package() {
    local program=$1 directory=$2 tarball name
    command -v makepkg >/dev/null || die "makepkg is missing: run 'scripts/setup.sh arch'"
    WORK=$(mktemp -d)
    trap 'rm -rf "$WORK"' EXIT
    umask 022
    tarball=$("$REPO/scripts/tarball.sh" --binary "$program" "$WORK")
    mkdir "$WORK/src"
    tar -C "$WORK/src" --no-same-owner -xf "$tarball"
    mv "$WORK"/src/paralfetch-* "$WORK/src/paralfetch-$("$REPO/scripts/versions.py" --version)"
    rm "$tarball"
    cp "$REPO"/packaging/arch/* "$WORK"
    run_makepkg "$(machine_of "$program")" >"$WORK/log" 2>&1 </dev/null || {
        cat "$WORK/log" >&2
        die "makepkg failed: see above"
    }
    name=$(basename "$WORK"/*.pkg.tar.zst)
    cp "$WORK/$name" "$directory"
    # Under sudo, the build's files are the user's.
    [[ $EUID -ne 0 ]] || chown --reference="$directory" "$directory/$name"
    echo "$(realpath "$directory")/$name"
}

main() {
    local program=
    if [[ ${1:-} == --binary && -n ${2:-} ]]; then
        program=$2
        [[ -x $program ]] || die "there is no $program"
        shift 2
    fi
    [[ $# -le 1 ]] || die "usage: arch.sh [--binary FILE] [DIRECTORY]"
    if [[ -z $program ]]; then
        "$REPO/scripts/setup.sh" arch >&2
        "$REPO/scripts/build.sh" >&2
        program=$PARALFETCH
    fi
    if [[ $# -eq 0 ]]; then
        set -- "$TARGET_DIR/arch"
        as_invoker mkdir -p "$1"
    fi
    mkdir -p "$1"
    build_package "$program" "$1"
}

main "$@"
