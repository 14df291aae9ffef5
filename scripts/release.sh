#!/usr/bin/env bash
# Builds what a release consists of, into target/artefacts: the packages for Debian, rpm and pacman and a tarball for other
# distributions, each for this system's processor and for arm64, the sources, and their checksums.
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

# build_programs: with names in place of the directories of the tree and of cargo.
build_programs() {
    local home
    find_cargo || die "no cargo $(rust_floor) or newer: run 'make setup'"
    # shellcheck disable=SC2016 # for the inner shell
    home=$(as_invoker sh -c 'echo "${CARGO_HOME:-$HOME/.cargo}"')
    export CARGO_TARGET_DIR=$BUILD
    export RUSTFLAGS="--remap-path-prefix=$REPO=paralfetch --remap-path-prefix=$home=cargo"
    export CFLAGS="-ffile-prefix-map=$REPO=paralfetch -ffile-prefix-map=$home=cargo"
    cargo build --release --locked --package paralfetch
    PROGRAMS=("$BUILD/release/paralfetch")
    if [[ $(uname -m) != aarch64 ]]; then
        "$REPO/scripts/arm64.sh"
        PROGRAMS+=("$BUILD/aarch64-unknown-linux-gnu/release/paralfetch")
    fi
}

main() {
    local program kind
    "$REPO/scripts/setup.sh" build deb rpm arch
    "$REPO/scripts/versions.py"
    # The sources are packed as they are. Outside of git, they are somebody's packed sources.
    if [[ -e $REPO/.git && -n $(as_invoker git -C "$REPO" status --porcelain --untracked-files=no) ]]; then
        die "the tree has changes that are not committed: a release is what a commit has"
    fi
    [[ ! -e $REPO/.git ]] || as_invoker "$REPO/scripts/tiers.py" released
    build_programs
    rm -rf "$ARTEFACTS"
    mkdir -p "$ARTEFACTS"
    for program in "${PROGRAMS[@]}"; do
        for kind in deb rpm arch tarball; do
            "$REPO/scripts/$kind.sh" --binary "$program" "$ARTEFACTS" >/dev/null
        done
    done
    "$REPO/scripts/tarball.sh" --sources "$ARTEFACTS" >/dev/null
    (cd "$ARTEFACTS" && sha256sum -- *.deb *.rpm *.pkg.tar.zst *.tar.xz >SHA256SUMS)
    [[ $EUID -ne 0 ]] || chown -R --reference="$BUILD" "$ARTEFACTS"
    say "Built in $ARTEFACTS:"
    cat "$ARTEFACTS/SHA256SUMS"
}

main
