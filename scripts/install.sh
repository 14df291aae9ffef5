#!/usr/bin/env bash
# Installs Paralfetch with its system service from this tree, or removes it.
#
#   scripts/install.sh [--binary FILE]       after make build, or in a release's tarball
#   scripts/install.sh uninstall [--purge]   --purge: profiles, history and configuration, too
#   scripts/install.sh list                  what is installed where, from dist/installed-files
#
# PREFIX (default /usr) is where the program and its manual go. The files for systemd, D-Bus, polkit and file
# managers go where these look for them, whatever PREFIX is. UNITS is the directory of units, if it is not the one that systemd
# names, and ZSH_FUNCTIONS that of completions for zsh, if it is not the one of this distribution. DESTDIR is put before
# every path, for packages: then the script needs no root and stops nothing. Installing never starts the service; it
# prints the command that does.

# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"

PREFIX=${PREFIX:-/usr}
DESTDIR=${DESTDIR:-}
UNIT_NAMES=(paralfetch.service paralfetch.socket)
# Directories that only the service writes to.
STATE=(/var/lib/paralfetch /run/paralfetch)
# The administrator's.
CONFIG=/etc/paralfetch

# unit_directory: the one that systemd names; without its pkg-config file, the one that all newer versions read.
unit_directory() {
    pkg-config --variable=systemdsystemunitdir systemd 2>/dev/null || echo /usr/lib/systemd/system
}

# zsh_directory: where zsh looks for what packages bring.
zsh_directory() {
    if [[ -e /etc/debian_version ]]; then
        echo "$PREFIX/share/zsh/vendor-completions"
    else
        echo "$PREFIX/share/zsh/site-functions"
    fi
}

# files: the lines of dist/installed-files, with full targets: how, source, target.
files() {
    local units=${UNITS:-$(unit_directory)} zsh=${ZSH_FUNCTIONS:-$(zsh_directory)} how source target
    while read -r how source target; do
        target=${target/#\$PREFIX/$PREFIX}
        target=${target/#\$UNITS/$units}
        # Presets lie beside the units.
        target=${target/#\$PRESETS/${units%/*}/system-preset}
        target=${target/#\$ZSH/$zsh}
        [[ $target == /* ]] || die "dist/installed-files: '$how $source $target' has no target from /"
        echo "$how $source $target"
    done < <(grep -v -e '^#' -e '^$' "$REPO/dist/installed-files")
}

# change COMMAND…: runs it as root, or as the invoking user if the target is below DESTDIR.
change() {
    if [[ -n $DESTDIR ]]; then "$@"; else as_root "$@"; fi
}

# systemd_runs: succeeds if systemd is the running init system and may be called.
systemd_runs() { [[ -z $DESTDIR && -d /run/systemd/system ]] && command -v systemctl >/dev/null; }

# put MODE SOURCE TARGET
put() { change install -D -m "$1" "$2" "$DESTDIR$3"; }

# put_adapted MODE SOURCE TARGET SED…: like put, of what sed makes of the source.
put_adapted() {
    local adapted
    adapted=$(mktemp)
    sed "${@:4}" "$2" >"$adapted"
    put "$1" "$adapted" "$3"
    rm -f "$adapted"
}

# put_caller MODE SOURCE TARGET: with the program's path filled in.
put_caller() { put_adapted "$@" "s|/usr/bin/paralfetch|$PREFIX/bin/paralfetch|"; }

# put_page MODE SOURCE TARGET: a page of docs. Links to what is not installed, and pictures, become the text that stands for
# them; those that stay have a mark meanwhile.
put_page() {
    local pages
    pages=$(sed -n 's|.* docs/\(.*\)\.md .*|\1|p' "$REPO/dist/installed-files" | paste -sd '|')
    put_adapted "$@" -zE "s~(\]\()(#|https?:|($pages)\.md)~\1\x01\2~g; s~!?\[([^]]*)\]\([^)\x01]*\)~\1~g; s~\x01~~g"
}

# put_configuration SOURCE TARGET: unless there is one.
put_configuration() {
    if [[ ! -e $DESTDIR$2 ]]; then
        put 644 "$1" "$2"
    elif ! cmp -s "$1" "$DESTDIR$2"; then
        say "Kept $2 as it is"
    fi
}

# install_one PROGRAM HOW SOURCE TARGET: a line of `files`.
install_one() {
    local binary=$1 how=$2 source=$3 target=$4
    case $how:$source in
        [67]*:-) put "$how" "$binary" "$target" ;;
        [67]*:dist/paralfetch*.service | [67]*:dist/desktop/*) put_caller "$how" "$REPO/$source" "$target" ;;
        [67]*:docs/*.md) put_page "$how" "$REPO/$source" "$target" ;;
        [67]*:*) put "$how" "$REPO/$source" "$target" ;;
        conf:*) put_configuration "$REPO/$source" "$target" ;;
        link:*) change ln -sfn "$source" "$DESTDIR$target" ;;
        dir:*) change install -d -m 755 "$DESTDIR$target" ;;
        *) die "dist/installed-files: '$how' is not known" ;;
    esac
}

install_all() {
    local binary=$1 how source target
    [[ -x $binary ]] || die "there is no $binary: make build first"
    while read -r how source target; do
        install_one "$binary" "$how" "$source" "$target"
    done < <(files)
    say "Installed below ${DESTDIR:-/}"
    if systemd_runs; then
        as_root systemctl daemon-reload
        say "To start it, now and at each boot: systemctl enable --now ${UNIT_NAMES[*]}"
    fi
}

# remove_empty DIRECTORY…: removes those that are empty.
remove_empty() {
    local directory
    for directory in "$@"; do
        [[ ! -d $DESTDIR$directory ]] || change rmdir --ignore-fail-on-non-empty "$DESTDIR$directory"
    done
}

# remove_one HOW SOURCE TARGET: a line of `files`.
remove_one() {
    case $1 in
        dir) remove_empty "$3" ;;
        conf) if cmp -s "$REPO/$2" "$DESTDIR$3"; then change rm -f "$DESTDIR$3"; fi ;;
        *) change rm -f "$DESTDIR$3" ;;
    esac
    # Small systems have no manual and no completions, and the directories for them are ours.
    local directory=$3
    while [[ $directory == */share/*/* ]]; do
        directory=$(dirname "$directory")
        remove_empty "$directory"
    done
}

uninstall_all() {
    local purge=$1 how source target path
    if systemd_runs; then
        # They may be installed no longer.
        as_root systemctl disable --now "${UNIT_NAMES[@]}" || warn "the units could not be stopped"
    fi
    while read -r how source target; do
        remove_one "$how" "$source" "$target"
    done < <(files)
    if [[ $purge == yes ]]; then
        for path in "${STATE[@]}" "$CONFIG"; do
            change rm -rf "$DESTDIR$path"
        done
    else
        remove_empty "$CONFIG"
        say "Kept, if there: ${STATE[*]} $CONFIG (scripts/install.sh uninstall --purge)"
    fi
    if systemd_runs; then as_root systemctl daemon-reload; fi
}

# built_program: a release's tarball has it beside the other files.
built_program() {
    if [[ -f $REPO/paralfetch ]]; then echo "$REPO/paralfetch"; else echo "$PARALFETCH"; fi
}

main() {
    case "${1:-} ${2:-}" in
        " ") install_all "$(built_program)" ;;
        "--binary "?*) install_all "$2" ;;
        "uninstall ") uninstall_all no ;;
        "uninstall --purge") uninstall_all yes ;;
        "list ") files ;;
        *) die "usage: install.sh [--binary FILE] | install.sh uninstall [--purge] | install.sh list" ;;
    esac
}

main "$@"
