#!/usr/bin/env bash
# Packs the program with what scripts/install.sh installs, or the sources. The packages for rpm and pacman are made of
# these.
#
#   scripts/tarball.sh --binary FILE DIRECTORY    paralfetch-VERSION-linux-ARCH.tar.xz; there,
#                                                 `sudo scripts/install.sh` installs it
#   scripts/tarball.sh --sources DIRECTORY        paralfetch-VERSION.tar.xz: the files that git knows, as they are
#
# The name of the file is printed. The same files make the same tarball: owners are left out, and times are those of
# CHANGELOG.md.

# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"

# pack DIRECTORY NAME: what lies in $WORK/NAME.
pack() {
    tar -C "$WORK" --sort=name --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX \
        --mtime="@$("$REPO/scripts/versions.py" --epoch)" -cf - "$2" | xz -6 >"$1/$2.tar.xz"
    # Under sudo, the build's files are the user's.
    [[ $EUID -ne 0 ]] || chown --reference="$1" "$1/$2.tar.xz"
    echo "$(realpath "$1")/$2.tar.xz"
}

# installed: the files that are installed, and what installs them.
installed() {
    "$REPO/scripts/install.sh" list | awk '$1 != "dir" && $1 != "link" && $2 != "-" { print $2 }'
    printf '%s\n' dist/installed-files scripts/install.sh scripts/common.sh \
        README.md CHANGELOG.md SECURITY.md LICENSE-MIT LICENSE-APACHE
}

# sources: tracked files that have not been removed. git trusts only trees of the user who calls it.
sources() {
    git -c safe.directory="$REPO" -C "$REPO" ls-files |
        while read -r file; do [[ ! -e $REPO/$file ]] || echo "$file"; done
}

main() {
    local version name machine
    WORK=$(mktemp -d)
    trap 'rm -rf "$WORK"' EXIT
    umask 022
    version=$("$REPO/scripts/versions.py" --version)
    if [[ ${1:-} == --binary && $# -eq 3 ]]; then
        [[ -x $2 ]] || die "there is no $2"
        machine=$(machine_of "$2")
        name=paralfetch-$version-linux-$machine
        mkdir -p "$WORK/$name" "$3"
        (cd "$REPO" && installed | xargs cp --parents -t "$WORK/$name")
        install -m 755 "$2" "$WORK/$name/paralfetch"
        "$(binutil "$machine" strip)" "$WORK/$name/paralfetch"
    elif [[ ${1:-} == --sources && $# -eq 2 ]]; then
        name=paralfetch-$version
        mkdir -p "$WORK/$name" "$2"
        (cd "$REPO" && sources | xargs cp --parents -t "$WORK/$name")
    else
        die "usage: tarball.sh --binary FILE DIRECTORY | tarball.sh --sources DIRECTORY"
    fi
    pack "${@: -1}" "$name"
}

main "$@"
