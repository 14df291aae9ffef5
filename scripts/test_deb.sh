#!/usr/bin/env bash
# Builds the Debian package from a program that has been built, and checks it: what is in it, with which modes,
# that a second build is the same, and what installing, removing and purging leave behind.
#
#   scripts/test_deb.sh [PROGRAM]      (target/release/paralfetch)
#
# Needs debhelper, and root or sudo for dpkg; it installs into a temporary directory. lintian looks at the package where it
# is installed.

# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"

# For comparison: with its symbols, the program alone takes 13 MB.
MOST_BYTES=$((4 << 20))
PROGRAM=${1:-$PARALFETCH}
WORK=$(mktemp -d)
SYSTEM=$WORK/system
trap 'as_root rm -rf "$WORK"' EXIT

# field NAME: of the package.
field() { dpkg-deb --field "$DEB" "$1"; }

# wanted: mode and path of each file that should be there; manuals, and long documents, are compressed.
wanted() {
    local how target
    while read -r how _ target; do
        case $how:$target in
            dir:*) continue ;;
            conf:*) how=644 ;;
            link:*) how=777 ;;
        esac
        # The package has nothing below /lib, where Debian 12's own units are.
        [[ $target != /lib/* ]] || target=/usr$target
        [[ $target != /usr/share/man/* ]] || target=$target.gz
        echo "$how $target"
    done < <("$REPO/scripts/install.sh" list)
    # What only Debian asks for.
    printf '644 /usr/share/%s\n' doc/paralfetch/changelog.gz lintian/overrides/paralfetch
}

# contents: mode and path of each file that is there.
contents() {
    local mode path
    dpkg-deb --fsys-tarfile "$DEB" | tar --list --verbose --numeric-owner | grep -v '^d' >"$WORK/listing"
    ! grep -v ' 0/0 ' "$WORK/listing" >&2 || die "the files above are not root's"
    while read -r mode _ _ _ _ path _; do
        case $mode in
            lrwxrwxrwx) mode=777 ;;
            -rwxr-xr-x) mode=755 ;;
            -rw-r--r--) mode=644 ;;
        esac
        echo "$mode ${path#.}"
    done <"$WORK/listing"
}

check_contents() {
    # debhelper compresses documents of more than 4 KiB.
    diff <(wanted | sort) <(contents | sed -E 's|(/doc/.*\.md)\.gz$|\1|' | sort) ||
        die "the package's files are not those of dist/installed-files"
    diff <(echo /etc/paralfetch/config.toml) <(dpkg-deb --ctrl-tarfile "$DEB" | tar --extract --to-stdout ./conffiles) ||
        die "the configuration is not kept at an upgrade"
    local size
    size=$(stat -c %s "$DEB")
    ((size <= MOST_BYTES)) || die "the package has $size bytes, more than $MOST_BYTES"
    say "$size bytes, $(wc -l <"$WORK/listing") files"
}

# check_version: the package's is the program's.
check_version() {
    [[ $("$PROGRAM" --version) == "paralfetch $(field Version)" ]] ||
        die "the package has version $(field Version), and the program is $("$PROGRAM" --version)"
}

check_with_lintian() {
    if command -v lintian >/dev/null; then
        lintian --fail-on error,warning --allow-root "$DEB" || die "lintian has found errors: see above"
    else
        warn "SKIPPED: lintian is not installed"
    fi
}

check_metainfo() {
    if command -v appstreamcli >/dev/null; then
        appstreamcli validate --no-net "$REPO"/dist/*.metainfo.xml || die "software centres cannot read the metadata: see above"
    else
        warn "SKIPPED: appstreamcli is not installed"
    fi
}

# in_system ARGUMENTS…: dpkg with a system that is empty but for its records. The package's scripts are programs of this
# system and work there; they see an empty /run, so that they talk to no systemd.
in_system() {
    as_root unshare --mount sh -c 'mount -t tmpfs tmpfs /run && exec dpkg "$@"' dpkg \
        --root="$SYSTEM" --force-script-chrootless --force-depends "$@" >"$WORK/dpkg" 2>&1 ||
        { cat "$WORK/dpkg" >&2 && die "dpkg $1 failed"; }
}

# files: what is in the system, besides dpkg's and systemd's own records, and directories that packages share.
files() { (cd "$SYSTEM" && as_root find . ! -type d ! -path './var/lib/dpkg/*' | sort); }

check_life() {
    as_root mkdir -p "$SYSTEM"/var/lib/dpkg/{info,updates,triggers}
    as_root touch "$SYSTEM/var/lib/dpkg/status"
    in_system --install "$DEB"
    as_root test -L "$SYSTEM/etc/systemd/system/multi-user.target.wants/paralfetch.service" ||
        die "the service is not enabled after installation"
    as_root test -L "$SYSTEM/etc/systemd/system/sockets.target.wants/paralfetch.socket" ||
        die "the socket is not enabled after installation"
    ! files | grep paralfetch-notify | grep '^./etc/' >&2 || die "the unit of users is enabled for all of them"
    as_root mkdir -p "$SYSTEM/var/lib/paralfetch" "$SYSTEM/run/paralfetch"
    as_root touch "$SYSTEM/var/lib/paralfetch/app.pf" "$SYSTEM/etc/paralfetch/config.toml.d/90-mode.toml"
    echo '# mine' | as_root tee -a "$SYSTEM/etc/paralfetch/config.toml" >/dev/null
    in_system --install "$DEB"
    as_root grep -q '^# mine$' "$SYSTEM/etc/paralfetch/config.toml" || die "an upgrade overwrites the configuration"
    as_root test -e "$SYSTEM/var/lib/paralfetch/app.pf" || die "an upgrade removes profiles"
    in_system --remove paralfetch
    diff <(printf '%s\n' ./etc/paralfetch/config.toml ./etc/paralfetch/config.toml.d/90-mode.toml ./var/lib/paralfetch/app.pf) \
        <(files | grep -v '^./var/lib/systemd/\|^./etc/systemd/') || die "removing leaves other files than profiles and configuration"
    in_system --purge paralfetch
    diff /dev/null <(files) || die "purging leaves the files above"
    local directory
    for directory in etc/paralfetch var/lib/paralfetch run/paralfetch usr/share/paralfetch usr/share/doc/paralfetch; do
        as_root test ! -e "$SYSTEM/$directory" || die "purging leaves /$directory"
    done
}

main() {
    DEB=$("$REPO/scripts/deb.sh" --binary "$PROGRAM" "$WORK/first")
    local again
    again=$("$REPO/scripts/deb.sh" --binary "$PROGRAM" "$WORK/second")
    cmp "$DEB" "$again" || die "two builds of the package differ"
    check_version
    check_contents
    check_metainfo
    check_with_lintian
    check_life
    say "The package is right: $(field Package) $(field Version) $(field Architecture)"
}

main
