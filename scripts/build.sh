#!/usr/bin/env bash
# Builds the release program, after installing what the build lacks.

# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"

"$REPO/scripts/setup.sh" build
say "Building Paralfetch"
cargo build --release --locked
say "Built $PARALFETCH"
