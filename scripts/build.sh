#!/usr/bin/env bash
# Builds the release program, after installing what the build lacks.
#
#   scripts/build.sh [lab]      (with the laboratory, and what it needs to run)

# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"

if [[ ${1:-} == lab ]]; then
    "$REPO/scripts/setup.sh" build lab
    say "Building the laboratory"
    cargo build --release --locked --package lab
    say "Built $TARGET_DIR/release/lab"
else
    "$REPO/scripts/setup.sh" build
    say "Building Paralfetch"
    cargo build --release --locked
    say "Built $PARALFETCH"
fi
