#!/usr/bin/env bash
# Fails where the source tree uses a name or a phrase that was replaced by a plainer one.
#
#   scripts/check_words.sh
#
# CONTRIBUTING.md says how comments and names are written. A word belongs here only if ordinary English
# and ordinary code can do without it.

# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# Extended regular expressions: old identifiers first, then phrases. Each phrase has a plain counterpart:
# who or what does it, and to whom.
WORDS=(
    '\b(draw_lesson|tell_of_large|passed_over|watch_for_learning|mark_launcher)\b'
    '\b[Nn]ewcomers?\b'
    '\bdoubt\('
    '\bdesign §|\bslides A-'
    '\b[Ww]ho hears\b'
    '\b([Tt]ells|[Tt]old) of\b'
    '\b[Ff]or want of\b'
    '\bat the most\b'
    "\bnobody's business\b"
    '\bis none of its\b'
    '\bwas not that dead\b'
)
PLACES=(src lab/src lab/tests waits/src tests fuzz/targets fuzz/main.rs scripts docs man dist packaging build.rs README.md CONTRIBUTING.md
    CHANGELOG.md SECURITY.md Makefile)

main() {
    cd "$REPO"
    local word found=no
    for word in "${WORDS[@]}"; do
        # The list itself is no use of its words.
        if grep -rnE --include='*' --exclude="${0##*/}" --exclude='*.jsonl' --exclude-dir=lab-results -e "$word" "${PLACES[@]}" >&2; then
            found=yes
        fi
    done
    [[ $found == no ]] || die "the lines above use words that CONTRIBUTING.md asks to replace"
    say "No replaced name or phrase is left"
}

main
