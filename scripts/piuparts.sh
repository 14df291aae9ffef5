#!/usr/bin/env bash
# Checks with piuparts that the Debian package can be installed, upgraded, removed and purged in a minimal system of
# Debian 12, and leaves nothing there.
#
#   scripts/piuparts.sh [DISTRIBUTION]      (bookworm)
#
# Builds target/release/paralfetch and the package first. Needs root or sudo, and the network for Debian's packages.

# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"

DISTRIBUTION=${1:-bookworm}
MIRROR=${DEBIAN_MIRROR:-http://deb.debian.org/debian}

"$REPO/scripts/setup.sh" build deb piuparts
"$REPO/scripts/build.sh"
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
DEB=$("$REPO/scripts/deb.sh" --binary "$PARALFETCH" "$WORK")
say "Trying $(basename "$DEB") in $DISTRIBUTION"
if ! as_root piuparts --distribution "$DISTRIBUTION" --mirror "$MIRROR" --fail-on-broken-symlinks "$DEB" >"$WORK/log" 2>&1; then
    cat "$WORK/log" >&2
    die "piuparts has found errors: see above"
fi
grep -E 'PASS|WARN' "$WORK/log" || die "piuparts did not say what it found"
