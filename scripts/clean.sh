#!/usr/bin/env bash
# Removes what was built. Images of the demonstration and the measurements stay.

# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"

cargo clean
if compgen -G "$CACHE_DIR/*.img" >/dev/null; then
    say "Images stay in $CACHE_DIR; remove them with: sudo rm -r $CACHE_DIR/*.img*"
fi
