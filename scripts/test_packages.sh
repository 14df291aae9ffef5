#!/usr/bin/env bash
# Builds the packages for rpm and pacman from a program that has been built, and checks what is in them, what rpm's linter
# says of mistakes, and, where there is root or sudo, how they are installed, upgraded and removed. The Debian package has
# a test of its own (scripts/test_deb.sh).
#
#   scripts/test_packages.sh [PROGRAM]      (target/release/paralfetch)

# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"

PROGRAM=${1:-$PARALFETCH}
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
# What rpmlint 2 takes for mistakes and is none: packages are not signed here, groups and compressed manuals are other
# distributions' rules, and it reads the sections of paralfetch.toml.5 and paralfetch.service.8 from the first dot on.
ACCEPTED='no-signature|no-group-tag|bad-manual-page-folder .*paralfetch\.(toml\.5|service\.8)'

# wanted: the files that should be there.
wanted() {
    PREFIX=/usr UNITS=/usr/lib/systemd/system ZSH_FUNCTIONS=/usr/share/zsh/site-functions \
        "$REPO/scripts/install.sh" list | awk '$1 != "dir" { print $3 }'
}

# compare KIND: the files on standard input with those that should be there. Each distribution has its place for
# licences and compresses manuals in its way.
compare() {
    diff <(wanted | sort) <(sed -E '/\/share\/licenses\//d; s/\.(gz|zst)$//' | sort) ||
        die "the $1 package's files are not those of dist/installed-files"
}

main() {
    local rpm arch said
    [[ -x $PROGRAM ]] || die "there is no $PROGRAM"
    rpm=$("$REPO/scripts/rpm.sh" --binary "$PROGRAM" "$WORK")
    rpm -qp --qf '[%{FILEMODES:perms} %{FILENAMES}\n]' "$rpm" 2>/dev/null | awk '$1 !~ /^d/ { print $2 }' | compare rpm
    [[ $(rpm -qp --qf '%{VERSION}' "$rpm") == "$("$REPO/scripts/versions.py" --version)" ]] ||
        die "the rpm package has another version than Cargo.toml"
    said=$(rpmlint "$rpm" 2>&1 || true)
    ! grep ': E: ' <<<"$said" | grep -vE "$ACCEPTED" >&2 || die "rpmlint has something to say: see above"
    arch=$("$REPO/scripts/arch.sh" --binary "$PROGRAM" "$WORK")
    tar --zstd --list --file "$arch" | sed -E '/\/$/d; /^\./d; s|^|/|' | compare Arch
    if [[ $EUID -eq 0 ]] || sudo -n true 2>/dev/null; then
        as_root "$REPO/scripts/package_life.sh" "$rpm"
        as_root "$REPO/scripts/package_life.sh" "$arch"
    elif [[ ${PARALFETCH_REQUIRE_PRIVILEGED:-} == 1 ]]; then
        die "rpm and pacman install nothing without root: become root, or allow sudo"
    else
        warn "SKIPPED: rpm and pacman install nothing without root"
    fi
    say "The packages for rpm and pacman are right: ${rpm##*/}, ${arch##*/}"
}

main
