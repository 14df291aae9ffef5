#!/usr/bin/env bash
# Installs Paralfetch with its system service from this tree, or removes it.
#
#   scripts/install.sh [--binary FILE]       after make build
#   scripts/install.sh uninstall [--purge]   --purge: profiles, history and configuration, too
#
# PREFIX (default /usr) is where the program and its manual go. The files for systemd, D-Bus and polkit go
# where these look for them, whatever PREFIX is. DESTDIR is put before every path, for packages: then the
# script needs no root and stops nothing. Installing never starts the service; it prints the command that does.

# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"

PREFIX=${PREFIX:-/usr}
DESTDIR=${DESTDIR:-}
UNITS=(paralfetch.service paralfetch.socket)
# Directories that only the service writes to.
STATE=(/var/lib/paralfetch /run/paralfetch)
# The administrator's: not overwritten, and removed only if it is as it was installed.
CONFIG=/etc/paralfetch
CONFIG_FILE=$CONFIG/config.toml

# files: what is installed, a line for each: mode, source in the tree ("-": the program), target.
files() {
    cat <<LIST
755 - $PREFIX/bin/paralfetch
644 dist/paralfetch.service /lib/systemd/system/paralfetch.service
644 dist/paralfetch.socket /lib/systemd/system/paralfetch.socket
644 dist/org.paralfetch.Paralfetch1.conf /usr/share/dbus-1/system.d/org.paralfetch.Paralfetch1.conf
644 dist/org.paralfetch.Paralfetch1.service /usr/share/dbus-1/system-services/org.paralfetch.Paralfetch1.service
644 dist/org.paralfetch.policy /usr/share/polkit-1/actions/org.paralfetch.policy
644 dist/launchers.toml $PREFIX/share/doc/paralfetch/launchers.toml
644 docs/service.md $PREFIX/share/doc/paralfetch/service.md
644 docs/announce.md $PREFIX/share/doc/paralfetch/announce.md
644 man/paralfetch.1 $PREFIX/share/man/man1/paralfetch.1
644 man/paralfetch.toml.5 $PREFIX/share/man/man5/paralfetch.toml.5
LIST
}

# change COMMAND…: runs it as root, or as the invoking user if the target is below DESTDIR.
change() {
    if [[ -n $DESTDIR ]]; then "$@"; else as_root "$@"; fi
}

# systemd_runs: succeeds if systemd is the running init system and may be called.
systemd_runs() { [[ -z $DESTDIR && -d /run/systemd/system ]] && command -v systemctl >/dev/null; }

# put MODE SOURCE TARGET
put() { change install -D -m "$1" "$2" "$DESTDIR$3"; }

# put_unit MODE SOURCE TARGET: like put, with the program's path filled in.
put_unit() {
    local adapted
    adapted=$(mktemp)
    sed "s|/usr/bin/paralfetch|$PREFIX/bin/paralfetch|" "$2" >"$adapted"
    put "$1" "$adapted" "$3"
    rm -f "$adapted"
}

install_all() {
    local binary=$1 mode source target
    [[ -x $binary ]] || die "there is no $binary: make build first"
    while read -r mode source target; do
        case $source in
            -) put "$mode" "$binary" "$target" ;;
            *paralfetch.service) put_unit "$mode" "$REPO/$source" "$target" ;;
            *) put "$mode" "$REPO/$source" "$target" ;;
        esac
    done < <(files)
    change ln -sfn paralfetch "$DESTDIR$PREFIX/bin/pfsetmode"
    change install -d -m 755 "$DESTDIR$CONFIG" "$DESTDIR$CONFIG/config.toml.d" "$DESTDIR$CONFIG/launchers.d"
    if [[ -e $DESTDIR$CONFIG_FILE ]]; then
        cmp -s "$REPO/dist/config.toml" "$DESTDIR$CONFIG_FILE" || say "Kept $CONFIG_FILE as it is"
    else
        put 644 "$REPO/dist/config.toml" "$CONFIG_FILE"
    fi
    say "Installed below ${DESTDIR:-/}"
    if systemd_runs; then
        as_root systemctl daemon-reload
        say "To start it, now and at each boot: systemctl enable --now ${UNITS[*]}"
    fi
}

# remove_empty DIRECTORY…: removes those that are empty.
remove_empty() {
    local directory
    for directory in "$@"; do
        [[ ! -d $DESTDIR$directory ]] || change rmdir --ignore-fail-on-non-empty "$DESTDIR$directory"
    done
}

uninstall_all() {
    local purge=$1 target path
    if systemd_runs; then
        # They may be installed no longer.
        as_root systemctl disable --now "${UNITS[@]}" || warn "the units could not be stopped"
    fi
    while read -r _ _ target; do
        change rm -f "$DESTDIR$target"
    done < <(files)
    change rm -f "$DESTDIR$PREFIX/bin/pfsetmode"
    # Small systems have no manual, and the directories for it are ours.
    remove_empty "$PREFIX"/share/{doc/paralfetch,man/man1,man/man5}
    if [[ $purge == yes ]]; then
        for path in "${STATE[@]}" "$CONFIG"; do
            change rm -rf "$DESTDIR$path"
        done
    else
        if cmp -s "$REPO/dist/config.toml" "$DESTDIR$CONFIG_FILE"; then
            change rm -f "$DESTDIR$CONFIG_FILE"
        fi
        remove_empty "$CONFIG/config.toml.d" "$CONFIG/launchers.d" "$CONFIG"
        say "Kept, if there: ${STATE[*]} $CONFIG (scripts/install.sh uninstall --purge)"
    fi
    if systemd_runs; then as_root systemctl daemon-reload; fi
}

main() {
    case "${1:-} ${2:-}" in
        " ") install_all "$PARALFETCH" ;;
        "--binary "?*) install_all "$2" ;;
        "uninstall ") uninstall_all no ;;
        "uninstall --purge") uninstall_all yes ;;
        *) die "usage: install.sh [--binary FILE] | install.sh uninstall [--purge]" ;;
    esac
}

main "$@"
