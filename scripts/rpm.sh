#!/usr/bin/env bash
# Builds the rpm package, for Fedora, openSUSE and others with systemd and glibc at least as new as this system's.
#
#   scripts/rpm.sh [--binary FILE] [DIRECTORY]
#
# The package goes to DIRECTORY (target/rpm if none is given); its name is printed. The program is built first, unless
# --binary names one. packaging/rpm has the specification, dist/installed-files what is installed where, and
# CHANGELOG.md the version's date. The same program makes the same package, byte for byte.

# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"

# settings: macros that make the package independent of the time, the system and its user.
settings() {
    printf '%s\n' \
        "%_topdir $WORK" "%_rpmdir $WORK" "%_builddir $WORK/build" "%_buildrootdir $WORK/root" "%_sourcedir $WORK" \
        "%_rpmfilename %%{NAME}-%%{VERSION}-%%{RELEASE}.%%{ARCH}.rpm" "%_dbpath $WORK/db" "%_buildhost localhost" \
        "%packager Paralfetch authors <maintainers@paralfetch.org>" \
        "%use_source_date_epoch_as_buildtime 1" "%clamp_mtime_to_source_date_epoch 1" \
        "%source_date_epoch_from_changelog 0" "%_binary_payload w19.zstdio" "%_build_id_links none" \
        "%__strip $(binutil "$1" strip)"
}

# macro_path: where this system's macros are. What --load adds is forgotten at --target.
macro_path() { LC_ALL=C rpm --showrc | sed -n 's/^Macro path: //p'; }

build_package() {
    local program=$1 directory=$2 machine macros name
    command -v rpmbuild >/dev/null || die "rpmbuild is missing: run 'scripts/setup.sh rpm'"
    machine=$(machine_of "$program")
    WORK=$(mktemp -d)
    trap 'rm -rf "$WORK"' EXIT
    umask 022
    mkdir "$WORK/build"
    "$REPO/scripts/tarball.sh" --binary "$program" "$WORK" >/dev/null
    cat "$REPO/packaging/rpm/paralfetch.spec" <("$REPO/scripts/versions.py" --rpm) >"$WORK/paralfetch.spec"
    macros=$WORK/macros
    settings "$machine" >"$macros"
    [[ $(rpm --eval '%systemd_post') != %* ]] || cat "$REPO/packaging/rpm/macros" >>"$macros"
    # Nothing is compiled here, so that nothing that compiling needs has to be there.
    SOURCE_DATE_EPOCH=$("$REPO/scripts/versions.py" --epoch) LC_ALL=C.UTF-8 \
        rpmbuild -bb --macros="$(macro_path):$macros" --target "$machine-linux" --with prebuilt --nodeps "$WORK/paralfetch.spec" >"$WORK/log" 2>&1 </dev/null || {
        cat "$WORK/log" >&2
        die "rpmbuild failed: see above"
    }
    name=$(basename "$WORK"/*.rpm)
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
    [[ $# -le 1 ]] || die "usage: rpm.sh [--binary FILE] [DIRECTORY]"
    if [[ -z $program ]]; then
        "$REPO/scripts/setup.sh" rpm >&2
        "$REPO/scripts/build.sh" >&2
        program=$PARALFETCH
    fi
    if [[ $# -eq 0 ]]; then
        set -- "$TARGET_DIR/rpm"
        as_invoker mkdir -p "$1"
    fi
    mkdir -p "$1"
    build_package "$program" "$1"
}

main "$@"
