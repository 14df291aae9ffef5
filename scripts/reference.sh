#!/usr/bin/env bash
# Prints the reference of what `--json` prints and of the dictionaries on the bus, in Markdown: each member with
# the comment that stands above it in the source.
#
#   scripts/reference.sh >dist/reference.md     writes it anew
#
# scripts/check_docs.py compares the two. Fails where a member has no comment, or where a type or function of the list
# below is not in its file.

# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# Of types, fields and variants are printed; of functions, the members of the JSON that they make.
# A line each: file below src, its items in order.
ITEMS='
service/control/types.rs     Status AppState AppChange ChangeKind ProfileData
service/control/shield.rs    ShieldSummary ShieldingState
service/history/launch.rs    LaunchRecord Kind FileReads ReadKind
policy/launch_figures.rs     Warmth
cli/watch.rs                 json_line
cli/show.rs                  list_json json span_json entry_json operation_json drive_json
model/profile.rs             Learned Ended Revision
model/params.rs              Params ReadOrder Infill DriveClass
model/hooks.rs               Hooks HookKind
model/drive_costs.rs         DriveCosts
cli/probe.rs                 probed_json
cli/learn.rs                 json
learn/sequence/requirements.rs Requirements RequestCounts
learn/sequence/report.rs     ResolveReport LeftOut FileCount
fs/support.rs                Support
learn/sequence/report.rs     PathCounts
cli/report.rs                json_lines
judge/misses/mod.rs          Miss MissedPlace MissReason RequestCount
fs/ext4/mod.rs               BlockKind
doctor/mod.rs                Diagnosis AbilityCheck AbilityLevel
bench/export.rs              json TimeSummary
'

# What a function makes, and for which command.
heading() {
    case $1 in
        cli/watch.rs:json_line) echo 'watch: a line for each event' ;;
        cli/show.rs:list_json) echo 'list: a profile' ;;
        cli/show.rs:json) echo 'show' ;;
        cli/show.rs:span_json) echo 'span: pages of a file, or of metadata' ;;
        cli/show.rs:entry_json) echo 'entry: a span, and' ;;
        cli/show.rs:operation_json) echo 'operation' ;;
        cli/show.rs:drive_json) echo 'drive' ;;
        cli/probe.rs:probed_json) echo 'probe: a drive, and' ;;
        cli/learn.rs:json) echo 'learn' ;;
        cli/report.rs:json_lines) echo 'run --report: a line for each miss, and the totals' ;;
        bench/export.rs:json) echo 'bench' ;;
        *) echo "${1##*:}" ;;
    esac
}

# members FILE ITEM: the item's members.
members() {
    awk -v item="$2" -v file="$1" '
        function kebab(name,    out, i, c) {
            for (i = 1; i <= length(name); i++) {
                c = substr(name, i, 1)
                out = out (c ~ /[A-Z]/ && i > 1 ? "-" : "") tolower(c)
            }
            return out
        }
        function path(    i, out) { for (i = 1; i <= depth; i++) if (at[i] != "") out = out at[i] "."; return out }
        function print_member(name, type) {
            if (said == "") { print file ": " item ": " name " has no comment" > "/dev/stderr"; failed = 1 }
            gsub(/\[`/, "`", said); gsub(/`\](\([^)]*\))?/, "`", said); gsub(/crate::([a-z_]+::)*|super::/, "", said)
            if (is_left_out) type = type ", may be missing"
            print "- `" name "`" (type == "" ? "" : " (" type ")") ": " said
            said = ""; is_left_out = 0
        }
        !inside && $0 ~ "^(pub(\\([a-z]+\\))? )?(struct|enum|fn) " item "[ (<]" {
            inside = found = 1; kind = ($0 ~ / ?struct /) ? "type" : ($0 ~ / ?enum /) ? "type" : "fn"
            next
        }
        !inside { next }
        /^}/ { inside = 0; next }
        { line = $0; sub(/^ +/, "", line) }
        (kind == "type" && line ~ /^\/\/\/ /) || (kind == "fn" && line ~ /^\/\/ /) {
            sub(/^\/\/\/? /, "", line); said = said (said == "" ? "" : " ") line
            next
        }
        kind == "type" {
            if (line ~ /skip_serializing_if/) is_left_out = 1
            if (line ~ /^(pub )?[a-z_]+: .*,$/) {
                sub(/^pub /, "", line); sub(/,$/, "", line)
                name = line; sub(/:.*/, "", name); sub(/^[^:]*: /, "", line)
                print_member(name, "`" line "`")
            } else if (line ~ /^[A-Z][A-Za-z]*( \{|,|\()/) {
                sub(/[^A-Za-z].*/, "", line); print_member(kebab(line), "")
            }
            next
        }
        {
            key = ""
            if (line ~ /^\}/ && depth > 0) depth--
            if (match(line, /^"[a-z_]+": /)) key = substr(line, 2, RLENGTH - 4)
            else if (match(line, /^[a-z_]+\["[a-z_]+"\] = /)) { key = line; sub(/"\].*/, "", key); sub(/.*\["/, "", key) }
            if (key != "") print_member(path() key, "")
            else said = ""
            if (line ~ /\{$/) at[++depth] = key
        }
        END {
            if (!found) print file ": there is no " item > "/dev/stderr"
            exit failed || !found
        }' "$REPO/src/$1"
}

main() {
    local file items item made status=0
    echo '# Members'
    echo
    # shellcheck disable=SC2016
    echo 'What `--json` prints and the dictionaries on the bus, as the source has them. `json.md` and `bus.md` have the rules.'
    while read -r file items; do
        for item in $items; do
            made=$(members "$file" "$item") || status=1
            printf '\n## %s\n\n%s\n' "$(heading "$file:$item")" "$made"
        done
    done < <(sed '/^$/d' <<<"$ITEMS")
    return "$status"
}

main
