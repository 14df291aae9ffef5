#!/usr/bin/env bash
# Builds what a release consists of, into target/artefacts: the Debian package, a tarball for other distributions, and
# their checksums.
#
#   scripts/release.sh
#
# In the tarball lies the program with what scripts/install.sh installs; `sudo scripts/install.sh` there does so.
#
# The same tree, compiler and libraries make the same files, wherever the tree lies: the program is built in a target
# directory of its own, without the paths of this system in it, and times are those of CHANGELOG.md.

# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"

ARTEFACTS=$TARGET_DIR/artefacts
BUILD=$TARGET_DIR/artefacts-build

# build_program: with names in place of the directories of the tree and of cargo.
build_program() {
    local home
    find_cargo || die "no cargo $(rust_floor) or newer: run 'make setup'"
    # shellcheck disable=SC2016 # for the inner shell
    home=$(as_invoker sh -c 'echo "${CARGO_HOME:-$HOME/.cargo}"')
    CARGO_TARGET_DIR=$BUILD RUSTFLAGS="--remap-path-prefix=$REPO=paralfetch --remap-path-prefix=$home=cargo" \
        CFLAGS="-ffile-prefix-map=$REPO=paralfetch -ffile-prefix-map=$home=cargo" \
        cargo build --release --locked --package paralfetch
}

# sources: the files that are installed, and what installs them.
sources() {
    "$REPO/scripts/install.sh" list | awk '$1 != "dir" && $1 != "link" && $2 != "-" { print $2 }'
    printf '%s\n' dist/installed-files scripts/install.sh scripts/common.sh \
        README.md CHANGELOG.md SECURITY.md LICENSE-MIT LICENSE-APACHE
}

# build_tarball PROGRAM VERSION
build_tarball() {
    local name
    name=paralfetch-$2-linux-$(uname -m)
    mkdir "$WORK/$name"
    (cd "$REPO" && sources | sort | xargs cp --parents -t "$WORK/$name")
    install -m 755 "$1" "$WORK/$name/paralfetch"
    strip "$WORK/$name/paralfetch"
    tar -C "$WORK" --sort=name --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX \
        --mtime="@$("$REPO/scripts/versions.py" --epoch)" -cf - "$name" | xz -9 >"$ARTEFACTS/$name.tar.xz"
}

main() {
    local program=$BUILD/release/paralfetch version
    "$REPO/scripts/setup.sh" build deb
    "$REPO/scripts/versions.py"
    build_program
    version=$("$program" --version)
    WORK=$(mktemp -d)
    trap 'rm -rf "$WORK"' EXIT
    umask 022
    rm -rf "$ARTEFACTS"
    mkdir -p "$ARTEFACTS"
    "$REPO/scripts/deb.sh" --binary "$program" "$ARTEFACTS" >/dev/null
    build_tarball "$program" "${version#paralfetch }"
    (cd "$ARTEFACTS" && sha256sum -- *.deb *.tar.xz >SHA256SUMS)
    [[ $EUID -ne 0 ]] || chown -R --reference="$BUILD" "$ARTEFACTS"
    say "Built in $ARTEFACTS:"
    cat "$ARTEFACTS/SHA256SUMS"
}

main
