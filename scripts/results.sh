#!/usr/bin/env bash
# Measures the applications of the results table and writes results/: for each application
#   APP.json          cold, warm and prefetched launches, interleaved, after exact learning
#   APP-as-read.json  the same after learning what the drive read, the paper's way
#   overhead.tsv      what `paralfetch run` adds to a launch whose data is cached already
#   profiles.tsv      the size of the profiles, and the time that resolving and scheduling took
#   tracing.tsv       what tracing adds to a cold launch, for Chromium
#   machine.txt       what it was measured on
#
# Times in the tables are medians in milliseconds; q1 and q3 are quartiles. The messages of `learn`
# stay beside the image, in IMAGE.APP-exact.log and IMAGE.APP-as-read.log.
#
#   scripts/results.sh [APP…]     (libreoffice inkscape chromium gimp)
#
# Environment: as in demo.sh. Leave the machine alone meanwhile; it takes about ten minutes.

# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"
# shellcheck source=scripts/mounted.sh
source "$REPO/scripts/mounted.sh"
# shellcheck source=scripts/apps.sh
source "$REPO/scripts/apps.sh"

RUNS=7
OVERHEAD_PAIRS=30
TRACING_PAIRS=7
TRACED_APP=chromium
IMAGE_GIB=12
NEEDED_GIB=6
RESULTS_IMAGE=$CACHE_DIR/results.img
RESULTS=$REPO/results

# Ubuntu has Chromium as a snap only, which does not live in a package.
available_apps() {
    local app
    for app in "${APPS[@]}"; do
        if [[ $app == chromium ]] && grep -qx ID=ubuntu /etc/os-release; then
            warn "SKIPPED: Ubuntu has no package of Chromium itself"
        else
            echo "$app"
        fi
    done
}

# command_of APP: sets COMMAND.
command_of() {
    local -n command=${1}_command
    COMMAND=("${command[@]}")
}

prepare() {
    local app
    for app in "$@"; do
        [[ " ${APPS[*]} " == *" $app "* ]] || die "unknown application '$app': one of ${APPS[*]}"
    done
    require_kernel
    require_direct_io "$CACHE_DIR"
    trusted_directory "$CACHE_DIR"
    need_room_for "$RESULTS_IMAGE" "$NEEDED_GIB"
    "$REPO/scripts/setup.sh" demo
    "$REPO/scripts/build.sh"
}

# The image always holds all applications: leaving some out must not cost a new image.
build_image() {
    local packages=("${COMMON_PACKAGES[@]}") app
    while read -r app; do
        local -n more=${app}_packages
        packages+=("${more[@]}")
    done < <(available_apps)
    guarded "$REPO/scripts/image.sh" "$IMAGE" "$IMAGE_GIB" "${packages[@]}"
}

describe_machine() {
    local device
    device=$(findmnt -n -o SOURCE --mountpoint "$MNT")
    printf 'commit       %s\n' "$(as_invoker git -C "$REPO" describe --always --dirty 2>/dev/null || echo unknown)"
    printf 'date         %s\n' "$(date --utc +%F)"
    printf 'kernel       %s\n' "$(uname -sr)"
    printf 'cpu          %s × %s\n' "$(nproc)" "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)"
    printf 'memory       %s MiB\n' "$(awk '/^MemTotal/ { print int($2 / 1024) }' /proc/meminfo)"
    printf 'system       %s\n' "$(sed -n 's/^PRETTY_NAME="\(.*\)"/\1/p' /etc/os-release)"
    printf 'drive        ext4 on %s (direct I/O) on %s\n' "${device#/dev/}" "$(findmnt -n -o SOURCE,FSTYPE --target "$IMAGE")"
    printf 'read_ahead   %s KiB\n' "$READ_AHEAD_KB"
    printf 'rotational   %s\n' "$(<"/sys/block/${device#/dev/}/queue/rotational")"
}

# timed COMMAND…: sets MICROSECONDS.
timed() {
    local start=${EPOCHREALTIME/[.,]/}
    "$@" >/dev/null 2>&1 || die "'$*' failed with status $?"
    MICROSECONDS=$((${EPOCHREALTIME/[.,]/} - start))
}

# quantiles FRACTION…: of the numbers on standard input, one a line; 0 is the minimum, 1 the maximum,
# and between two ranks it is in proportion.
quantiles() {
    sort -n | LC_ALL=C awk -v fractions="$*" '
        { value[NR] = $1 }
        END {
            count = split(fractions, fraction, " ")
            for (i = 1; i <= count; i++) {
                rank = 1 + (NR - 1) * fraction[i]
                low = int(rank)
                high = low < NR ? low + 1 : low
                printf "%.1f%s", value[low] + (rank - low) * (value[high] - value[low]), i < count ? " " : "\n"
            }
        }'
}

# measure_overhead APP STATE: a line of overhead.tsv. Both kinds of launch start warm, and take turns
# at being the first of a pair.
measure_overhead() {
    local app=$1 state=$2 plain=() run=() pair
    local prefetched=(with_paralfetch --state-dir "$state" run --root "$MNT" -- "${COMMAND[@]}")
    timed in_image "${COMMAND[@]}"
    timed "${prefetched[@]}"
    for ((pair = 0; pair < OVERHEAD_PAIRS; pair++)); do
        if ((pair % 2 == 0)); then
            timed in_image "${COMMAND[@]}"
            plain+=("$MICROSECONDS")
            timed "${prefetched[@]}"
            run+=("$MICROSECONDS")
        else
            timed "${prefetched[@]}"
            run+=("$MICROSECONDS")
            timed in_image "${COMMAND[@]}"
            plain+=("$MICROSECONDS")
        fi
    done
    {
        printf '%s\n' "${plain[@]}" | quantiles 0.5 0.25 0.75
        printf '%s\n' "${run[@]}" | quantiles 0.5 0.25 0.75
    } | LC_ALL=C awk -v app="$app" -v pairs="$OVERHEAD_PAIRS" '
        { median[NR] = $1; spread[NR] = sprintf("%.1f\t%.1f\t%.1f", $1 / 1000, $2 / 1000, $3 / 1000) }
        END {
            more = median[2] - median[1]
            printf "%s\t%d\t%s\t%s\t%.1f\t%.1f\n", app, pairs, spread[1], spread[2], more / 1000, 100 * more / median[1]
        }'
}

# measure_tracing APP: a line of tracing.tsv. The traced launch learns as read, so that both have the
# drive's usual readahead, and the difference is the tracing.
measure_tracing() {
    local app=$1 plain=() traced=() pair
    command_of "$app"
    say "$app: cost of tracing, $TRACING_PAIRS pairs"
    for ((pair = 0; pair < TRACING_PAIRS; pair++)); do
        if ((pair % 2 == 0)); then
            time_cold
            plain+=("$MICROSECONDS")
            time_traced "$app"
            traced+=("$MICROSECONDS")
        else
            time_traced "$app"
            traced+=("$MICROSECONDS")
            time_cold
            plain+=("$MICROSECONDS")
        fi
    done
    {
        printf '%s\n' "${plain[@]}" | quantiles 0.5 0 1
        printf '%s\n' "${traced[@]}" | quantiles 0.5 0 1
    } | LC_ALL=C awk -v app="$app" -v pairs="$TRACING_PAIRS" '
        { median[NR] = $1; spread[NR] = sprintf("%.1f\t%.1f\t%.1f", $1 / 1000, $2 / 1000, $3 / 1000) }
        END { printf "%s\t%d\t%s\t%s\t%.3f\n", app, pairs, spread[1], spread[2], median[2] / median[1] }' \
        >>"$RESULTS/tracing.tsv"
}

# time_cold: sets MICROSECONDS to the time of a cold launch of COMMAND.
time_cold() {
    sync
    echo 3 >/proc/sys/vm/drop_caches
    # The programs around the launch are the host's; the traced time does not contain them either.
    guarded env "${IMAGE_ENV[@]}" chroot / true
    timed in_image "${COMMAND[@]}"
}

# time_traced APP: sets MICROSECONDS to the time that `learn` gives for a cold launch of COMMAND.
time_traced() {
    local state=$IMAGE.state/$1-tracing seconds
    rm -rf "$state"
    learn_app "$1" tracing --as-read
    [[ $(with_paralfetch --state-dir "$state" show "${COMMAND[0]}") == *"ended by exit"* ]] ||
        die "$1 fell quiet before it ended, so its time cannot be compared: run this again"
    seconds=$(learned_number 'learned .* in \([0-9.]*\) s: .*' "$IMAGE.$1-tracing.log")
    MICROSECONDS=$((10#${seconds/./} * 1000))
}

# learn_app APP KIND [OPTION…]: COMMAND, into the state directory of that kind; the messages of `learn`
# into a log of that kind.
learn_app() {
    local app=$1 kind=$2
    local log=$IMAGE.$app-$kind.log
    with_paralfetch --state-dir "$IMAGE.state/$app-$kind" learn --verbose --root "$MNT" "${@:3}" -- "${COMMAND[@]}" \
        >/dev/null 2>"$log" || die "learning $app failed: see $log"
}

# learned_number PATTERN LOG: what the group of the pattern matches in the messages of `learn`.
learned_number() {
    local number
    number=$(sed -n "s/^paralfetch: $1\$/\1/p" "$2")
    [[ $number =~ ^[0-9]+\.[0-9]+$ ]] || die "$2 does not say what was learned: see there"
    echo "$number"
}

# profile_figures APP KIND: bytes, milliseconds of resolving, milliseconds of scheduling.
profile_figures() {
    local log=$IMAGE.$1-$2.log resolved scheduled
    resolved=$(learned_number 'resolved in \([0-9.]*\) ms, .*' "$log")
    scheduled=$(learned_number 'resolved in .*, scheduled in \([0-9.]*\) ms; .*' "$log")
    printf '%s\t%s\t%s' "$(cat "$IMAGE.state/$1-$2"/*.pf | wc -c)" "$resolved" "$scheduled"
}

# measure_app APP
measure_app() {
    local app=$1 exact=$IMAGE.state/$1-exact as_read=$IMAGE.state/$1-as-read figures
    local bench=(bench --runs "$RUNS" --scenarios "cold,warm,prefetch" --until "exit" --root "$MNT")
    command_of "$app"
    say "$app: first start, which makes its user profile"
    in_image "${COMMAND[@]}" >"$IMAGE.first-start.log" 2>&1 ||
        die "$app did not start in the image: see $IMAGE.first-start.log"
    say "$app: exact learning, $RUNS runs"
    learn_app "$app" exact
    with_paralfetch --state-dir "$exact" "${bench[@]}" --export-json "$RESULTS/$app.json" -- "${COMMAND[@]}"
    say "$app: learning as read, $RUNS runs"
    learn_app "$app" as-read --as-read
    with_paralfetch --state-dir "$as_read" "${bench[@]}" --export-json "$RESULTS/$app-as-read.json" -- "${COMMAND[@]}"
    # First into a variable: a failure in an argument would go unseen.
    figures=$(profile_figures "$app" exact)
    figures+=$'\t'$(profile_figures "$app" as-read)
    printf '%s\t%s\n' "$app" "$figures" >>"$RESULTS/profiles.tsv"
    say "$app: overhead of a warm run, $OVERHEAD_PAIRS pairs"
    measure_overhead "$app" "$exact" >>"$RESULTS/overhead.tsv"
}

# header FILE COLUMN…: begins a table.
header() { (IFS=$'\t' && echo "${*:2}" >"$RESULTS/$1"); }

write_heads() {
    header overhead.tsv app pairs plain_ms plain_q1 plain_q3 run_ms run_q1 run_q3 difference_ms difference_percent
    header profiles.tsv app exact_bytes exact_resolving_ms exact_scheduling_ms \
        as_read_bytes as_read_resolving_ms as_read_scheduling_ms
    header tracing.tsv app pairs plain_ms plain_min plain_max traced_ms traced_min traced_max ratio
}

measure() {
    local apps=("$@") app table
    [[ ${#apps[@]} -gt 0 ]] || mapfile -t apps < <(available_apps)
    begin_measuring "$RESULTS_IMAGE"
    build_image
    mount_image
    [[ -e $MNT/root/small.svg ]] || echo "$SMALL_SVG" >"$MNT/root/small.svg"
    rm -rf "$IMAGE.state"
    as_invoker mkdir -p "$RESULTS"
    describe_machine >"$RESULTS/machine.txt"
    write_heads
    for app in "${apps[@]}"; do
        measure_app "$app"
    done
    if [[ " ${apps[*]} " == *" $TRACED_APP "* ]]; then
        measure_tracing "$TRACED_APP"
    fi
    end_image
    chown -R --reference="$RESULTS" "$RESULTS"
    for table in overhead profiles tracing; do
        say "$table.tsv:"
        cat "$RESULTS/$table.tsv"
    done
    say "The results are in $RESULTS; the image stays for the next time, remove it with: sudo rm -r $IMAGE*"
}

case ${PARALFETCH_STAGE:-prepare} in
    prepare)
        prepare "$@"
        private_mounts measure "$REPO/scripts/results.sh" "$@"
        ;;
    measure) measure "$@" ;;
esac
