#!/usr/bin/env bash
# Measures the applications of the results table and writes results/: for each application
#   APP.json          cold, warm and prefetched launches, interleaved, after exact learning
#   APP-as-read.json  the same after learning what the drive read, the paper's way
#   overhead.tsv      what `paralfetch run` adds to a launch whose data is cached already
#   machine.txt       what it was measured on
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
    need_free_gib "$CACHE_DIR" "$NEEDED_GIB"
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

# median: of the numbers on standard input, one a line.
median() { sort -n | awk '{ v[NR] = $1 } END { print (NR % 2) ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'; }

milliseconds() { awk '{ printf "%.1f\n", $1 / 1000 }'; }

# measure_overhead APP STATE: a line of overhead.tsv. Both kinds of launch alternate, and start warm.
measure_overhead() {
    local app=$1 state=$2 plain=() run=() differences=() pair
    local prefetched=(with_paralfetch --state-dir "$state" run --root "$MNT" -- "${COMMAND[@]}")
    timed in_image "${COMMAND[@]}"
    timed "${prefetched[@]}"
    for ((pair = 0; pair < OVERHEAD_PAIRS; pair++)); do
        timed in_image "${COMMAND[@]}"
        plain+=("$MICROSECONDS")
        timed "${prefetched[@]}"
        run+=("$MICROSECONDS")
        differences+=($((run[pair] - plain[pair])))
    done
    printf '%s\t%s\t%s\t%s\t%s\n' "$app" "$OVERHEAD_PAIRS" \
        "$(printf '%s\n' "${plain[@]}" | median | milliseconds)" \
        "$(printf '%s\n' "${run[@]}" | median | milliseconds)" \
        "$(printf '%s\n' "${differences[@]}" | median | milliseconds)"
}

# measure_app APP
measure_app() {
    local app=$1 exact=$IMAGE.state/$1-exact as_read=$IMAGE.state/$1-as-read
    local bench=(bench --runs "$RUNS" --scenarios "cold,warm,prefetch" --until "exit" --root "$MNT")
    command_of "$app"
    say "$app: first start, which makes its user profile"
    in_image "${COMMAND[@]}" >"$IMAGE.first-start.log" 2>&1 ||
        die "$app did not start in the image: see $IMAGE.first-start.log"
    say "$app: exact learning, $RUNS runs"
    with_paralfetch --state-dir "$exact" "${bench[@]}" --json "$RESULTS/$app.json" -- "${COMMAND[@]}"
    say "$app: learning as read, $RUNS runs"
    with_paralfetch --state-dir "$as_read" learn --root "$MNT" --as-read -- "${COMMAND[@]}"
    with_paralfetch --state-dir "$as_read" "${bench[@]}" --json "$RESULTS/$app-as-read.json" -- "${COMMAND[@]}"
    say "$app: overhead of a warm run, $OVERHEAD_PAIRS pairs"
    measure_overhead "$app" "$exact" >>"$RESULTS/overhead.tsv"
}

measure() {
    local apps=("$@") app
    [[ ${#apps[@]} -gt 0 ]] || mapfile -t apps < <(available_apps)
    begin_measuring "$RESULTS_IMAGE"
    build_image
    mount_image
    [[ -e $MNT/root/small.svg ]] || echo "$SMALL_SVG" >"$MNT/root/small.svg"
    rm -rf "$IMAGE.state"
    as_invoker mkdir -p "$RESULTS"
    describe_machine >"$RESULTS/machine.txt"
    printf 'app\tpairs\tplain_ms\trun_ms\tdifference_ms\n' >"$RESULTS/overhead.tsv"
    for app in "${apps[@]}"; do
        measure_app "$app"
    done
    end_image
    chown -R --reference="$RESULTS" "$RESULTS"
    say "Warm launches, medians:"
    cat "$RESULTS/overhead.tsv"
    say "The results are in $RESULTS; the image stays for the next time, remove it with: sudo rm -r $IMAGE*"
}

case ${PARALFETCH_STAGE:-prepare} in
    prepare)
        prepare "$@"
        private_mounts measure "$REPO/scripts/results.sh" "$@"
        ;;
    measure) measure "$@" ;;
esac
