#!/usr/bin/env bash
# Installs into a temporary directory, installs again over changed files, and uninstalls, and checks the
# files that are there after each step.

# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"

DESTDIR=$(mktemp -d)
export DESTDIR
export UNITS=/somewhere/units
trap 'rm -rf "$DESTDIR"' EXIT
INSTALL=$REPO/scripts/install.sh

# expect WHAT LIST: fails unless LIST names exactly the files and links below DESTDIR.
expect() {
    diff <(sort <<<"$2" | sed '/^$/d') <(cd "$DESTDIR" && find . \( -type f -o -type l \) | sed 's/^\.//' | sort) ||
        die "$1: the files are not those that should be there"
}

# all PREFIX: the files and links of the list.
all() { PREFIX=$1 "$INSTALL" list | awk '$1 != "dir" { print $3 }'; }

# Nothing that is meant to be installed is left out of the list.
diff <(cd "$REPO" && find dist man -type f ! -path dist/installed-files | sort) \
    <("$INSTALL" list | awk '$2 ~ /^(dist|man)\// { print $2 }' | sort) ||
    die "dist/installed-files does not name all of dist and man"

"$INSTALL" --binary /bin/true >/dev/null
expect "installed" "$(all /usr)"
[[ $(readlink "$DESTDIR/usr/bin/pfsetmode") == paralfetch ]] || die "pfsetmode is no link to paralfetch"
[[ $(stat -c %a "$DESTDIR/usr/bin/paralfetch") == 755 ]] || die "the program cannot be executed"
cmp "$REPO/dist/paralfetch.service" "$DESTDIR$UNITS/paralfetch.service"
[[ $(stat -c %a "$DESTDIR/etc/paralfetch/config.toml.d") == 755 ]] || die "drop-ins are not for everybody to read"

# What the installed pages link is installed.
pages=$DESTDIR/usr/share/doc/paralfetch
while read -r page link; do
    [[ -e $pages/${link%%#*} ]] || die "$page links $link, which is not installed"
done < <(cd "$pages" && grep -oE '\]\([^)#][^)]*\)' -- *.md | grep -v 'https\?:' | sed -E 's/^([^:]*):\]\((.*)\)$/\1 \2/')
grep -q '](json.md' "$pages/use.md" || die "pages lose the links to each other"
! grep -rl $'\x01' "$pages" >&2 || die "the pages above have marks in them"

"$INSTALL" uninstall >/dev/null
expect "removed" ""
[[ ! -e $DESTDIR/etc/paralfetch ]] || die "removed: /etc/paralfetch is left, and empty"
[[ -z $(ls "$DESTDIR/usr/share") ]] || die "removed: empty directories are left: $(ls "$DESTDIR/usr/share")"

mkdir -p "$DESTDIR/var/lib/paralfetch"
touch "$DESTDIR/var/lib/paralfetch/app.pf"
PREFIX=/opt/pf "$INSTALL" --binary /bin/true >/dev/null
echo '# mine' >>"$DESTDIR/etc/paralfetch/config.toml"
PREFIX=/opt/pf "$INSTALL" --binary /bin/true >/dev/null
expect "with a prefix" "$(all /opt/pf; echo /var/lib/paralfetch/app.pf)"
grep -q '^# mine$' "$DESTDIR/etc/paralfetch/config.toml" || die "the configuration was overwritten"
grep -q '^ExecStart=/opt/pf/bin/paralfetch service$' "$DESTDIR$UNITS/paralfetch.service" ||
    die "the unit starts another program"
# Whatever calls the program finds it.
callers=$(grep -rlF /usr/bin/paralfetch "$REPO/dist" | grep -vc completions)
found=$(grep -rlE '[="]/opt/pf/bin/paralfetch\b' "$DESTDIR" | wc -l)
((callers == found)) || die "$found files have the program's path filled in, and $callers should have"
if grep -rlF /usr/bin/paralfetch "$DESTDIR" >&2; then die "the files above call a program that is not there"; fi

PREFIX=/opt/pf "$INSTALL" uninstall >/dev/null
expect "what is kept" $'/etc/paralfetch/config.toml\n/var/lib/paralfetch/app.pf'
PREFIX=/opt/pf "$INSTALL" uninstall --purge >/dev/null
expect "purged" ""
if "$INSTALL" --binary /nonexistent >/dev/null 2>&1; then die "a program that is not there was installed"; fi
say "Installing and removing work"
