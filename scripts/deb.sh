#!/usr/bin/env bash
# Builds the Debian package, for Debian 12 or newer and Ubuntu 24.04 or newer.
#
#   scripts/deb.sh [--binary FILE] [DIRECTORY]
#
# The package goes to DIRECTORY (target/debian if none is given); its name is printed. The program is built first,
# unless --binary names one. What is built on the oldest of these systems can be installed on all of them: the
# libraries that it needs have kept their names, or provide them.
#
# debhelper does the work, in a copy of the tree, so that the tree stays as it is: packaging/debian has its files,
# dist/installed-files what is installed where, and CHANGELOG.md the version's date. The same program makes the same
# package, byte for byte.

# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"

# What of the tree goes into the package or is needed for making it.
TREE=(CHANGELOG.md dist docs man packaging scripts)

# copy_tree PROGRAM DIRECTORY: as packaging/debian/rules expects it.
copy_tree() {
    mkdir "$2"
    (cd "$REPO" && cp -R "${TREE[@]}" "$2")
    install -m 755 "$1" "$2/program"
    cp -R "$2/packaging/debian" "$2/debian"
    "$REPO/scripts/versions.py" --debian >"$2/debian/changelog"
    # debhelper takes these for executables to be run.
    find "$2/debian" -type f ! -name rules -exec chmod 644 {} +
}

build_package() {
    local program=$1 directory=$2 name log machine status=0
    command -v dpkg-buildpackage >/dev/null || die "dpkg-dev is missing: run 'scripts/setup.sh deb'"
    machine=$(machine_of "$program")
    WORK=$(mktemp -d)
    trap 'rm -rf "$WORK"' EXIT
    umask 022
    copy_tree "$program" "$WORK/paralfetch"
    log=$WORK/log
    # What the package asks for has to be there, but no build-essential: nothing is compiled here.
    (cd "$WORK/paralfetch" && dpkg-checkbuilddeps -I &&
        LC_ALL=C.UTF-8 dpkg-buildpackage --build=binary --host-type="$machine-linux-gnu" -d -us -uc) >"$log" 2>&1 </dev/null || status=$?
    if ((status != 0)); then
        cat "$log" >&2
        die "dpkg-buildpackage failed: see above; 'scripts/setup.sh deb' installs what is missing"
    fi
    name=$(basename "$WORK"/paralfetch_*.deb)
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
    [[ $# -le 1 ]] || die "usage: deb.sh [--binary FILE] [DIRECTORY]"
    if [[ -z $program ]]; then
        "$REPO/scripts/setup.sh" deb >&2
        "$REPO/scripts/build.sh" >&2
        program=$PARALFETCH
    fi
    if [[ $# -eq 0 ]]; then
        set -- "$TARGET_DIR/debian"
        as_invoker mkdir -p "$1"
    fi
    mkdir -p "$1"
    build_package "$program" "$1"
}

main "$@"
