#!/usr/bin/env bash
# Installs into a temporary directory, installs again over changed files, and uninstalls, and checks the
# files that are there after each step.

# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"

DESTDIR=$(mktemp -d)
export DESTDIR
trap 'rm -rf "$DESTDIR"' EXIT
INSTALL=$REPO/scripts/install.sh

# expect WHAT LIST: fails unless LIST names exactly the files and links below DESTDIR.
expect() {
    diff <(sort <<<"$2" | sed '/^$/d') <(cd "$DESTDIR" && find . \( -type f -o -type l \) | sed 's/^\.//' | sort) ||
        die "$1: the files are not those that should be there"
}

# all PREFIX
all() {
    cat <<LIST
$1/bin/paralfetch
$1/bin/pfsetmode
$1/share/doc/paralfetch/announce.md
$1/share/doc/paralfetch/launchers.toml
$1/share/doc/paralfetch/service.md
$1/share/man/man1/paralfetch.1
$1/share/man/man5/paralfetch.toml.5
/etc/paralfetch/config.toml
/lib/systemd/system/paralfetch.service
/lib/systemd/system/paralfetch.socket
/usr/share/dbus-1/system-services/org.paralfetch.Paralfetch1.service
/usr/share/dbus-1/system.d/org.paralfetch.Paralfetch1.conf
/usr/share/polkit-1/actions/org.paralfetch.policy
LIST
}

"$INSTALL" --binary /bin/true >/dev/null
expect "installed" "$(all /usr)"
[[ $(readlink "$DESTDIR/usr/bin/pfsetmode") == paralfetch ]] || die "pfsetmode is no link to paralfetch"
[[ $(stat -c %a "$DESTDIR/usr/bin/paralfetch") == 755 ]] || die "the program cannot be executed"
cmp "$REPO/dist/paralfetch.service" "$DESTDIR/lib/systemd/system/paralfetch.service"
[[ $(stat -c %a "$DESTDIR/etc/paralfetch/config.toml.d") == 755 ]] || die "drop-ins are not for everybody to read"

"$INSTALL" uninstall >/dev/null
expect "removed" ""
[[ ! -e $DESTDIR/etc/paralfetch ]] || die "removed: /etc/paralfetch is left, and empty"

mkdir -p "$DESTDIR/var/lib/paralfetch"
touch "$DESTDIR/var/lib/paralfetch/app.pf"
PREFIX=/opt/pf "$INSTALL" --binary /bin/true >/dev/null
echo '# mine' >>"$DESTDIR/etc/paralfetch/config.toml"
PREFIX=/opt/pf "$INSTALL" --binary /bin/true >/dev/null
expect "with a prefix" "$(all /opt/pf; echo /var/lib/paralfetch/app.pf)"
grep -q '^# mine$' "$DESTDIR/etc/paralfetch/config.toml" || die "the configuration was overwritten"
grep -q '^ExecStart=/opt/pf/bin/paralfetch service$' "$DESTDIR/lib/systemd/system/paralfetch.service" ||
    die "the unit starts another program"

PREFIX=/opt/pf "$INSTALL" uninstall >/dev/null
expect "what is kept" $'/etc/paralfetch/config.toml\n/var/lib/paralfetch/app.pf'
PREFIX=/opt/pf "$INSTALL" uninstall --purge >/dev/null
expect "purged" ""
if "$INSTALL" --binary /nonexistent >/dev/null 2>&1; then die "a program that is not there was installed"; fi
say "Installing and removing work"
