#!/usr/bin/env bash
# Shows what Paralfetch does, from nothing to figures: builds it, builds an image with LibreOffice
# Writer, and measures its launch cold, warm and prefetched. Ctrl-C ends it at any time and leaves
# nothing running, mounted or attached.
#
#   scripts/demo.sh
#
# Environment: PARALFETCH_DEMO_DIR, where the image goes (/var/tmp/paralfetch-demo; on a real disk).

# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"
# shellcheck source=scripts/mounted.sh
source "$REPO/scripts/mounted.sh"
# shellcheck source=scripts/apps.sh
source "$REPO/scripts/apps.sh"

RUNS=5
IMAGE_GIB=8
NEEDED_GIB=4
DEMO_IMAGE=$CACHE_DIR/demo.img

prepare() {
    require_kernel
    require_direct_io "$CACHE_DIR"
    trusted_directory "$CACHE_DIR"
    need_room_for "$DEMO_IMAGE" "$NEEDED_GIB"
    "$REPO/scripts/setup.sh" demo
    "$REPO/scripts/build.sh"
}

measure() {
    begin_measuring "$DEMO_IMAGE"
    local state=$IMAGE.state first_log=$IMAGE.first-start.log
    guarded "$REPO/scripts/image.sh" "$IMAGE" "$IMAGE_GIB" "${COMMON_PACKAGES[@]}" "${libreoffice_packages[@]}"
    mount_image
    say "Starting LibreOffice Writer once, which makes its user profile"
    in_image "${libreoffice_command[@]}" >"$first_log" 2>&1 ||
        die "LibreOffice did not start in the image: see $first_log"
    # What an earlier demonstration learned may be about an earlier image.
    rm -rf "$state"
    say "Learning and measuring: ${libreoffice_command[*]}"
    with_paralfetch --state-dir "$state" bench --runs "$RUNS" --until exit --root "$MNT" -- "${libreoffice_command[@]}"
    end_image
    say "Done: no mount, loop device or process is left"
    say "The image stays for the next time ($(du -h "$IMAGE" | cut -f1)); remove it with: sudo rm -r $IMAGE*"
}

case ${PARALFETCH_STAGE:-prepare} in
    prepare)
        prepare
        private_mounts measure "$REPO/scripts/demo.sh"
        ;;
    measure) measure ;;
esac
