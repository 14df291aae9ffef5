#!/usr/bin/env bash
# Installs what is missing on Debian 12 or newer and Ubuntu 24.04 or newer.
#
#   scripts/setup.sh [build] [deb] [rpm] [arch] [piuparts] [arm64] [test] [vm] [lab] [demo]
#
# When none is named, all but piuparts and arm64.
#
# Asks the network for nothing, and sudo for nothing, when everything is there.

# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"

BUILD_PACKAGES=(clang llvm libelf-dev zlib1g-dev libext2fs-dev pkg-config make gcc libc6-dev)
DEB_PACKAGES=(dpkg-dev debhelper pkg-config binutils python3)
RPM_PACKAGES=(rpm python3 xz-utils binutils)
# Debian's makepkg is pacman's; it calls bsdtar, which is in libarchive-tools, and does not ask for it.
ARCH_PACKAGES=(makepkg pacman-package-manager libarchive-tools zstd python3 xz-utils binutils)
PIUPARTS_PACKAGES=(piuparts)
# For building the program for arm64 on another processor, with the libraries of that one, and for trying it.
# libext2fs-dev is not among them: it can be installed for one processor alone.
ARM64_PACKAGES=(gcc-aarch64-linux-gnu libc6-dev:arm64 libelf-dev:arm64 zlib1g-dev:arm64 libext2fs2:arm64 comerr-dev:arm64
    qemu-user-static)
ARM64_TARGET=aarch64-unknown-linux-gnu
TEST_PACKAGES=(rpmlint lintian appstream desktop-file-utils e2fsprogs xfsprogs btrfs-progs erofs-utils squashfs-tools mount util-linux bubblewrap dbus-daemon python3 shellcheck)
# For the virtual machine that older kernels are tested in; objcopy is in binutils.
VM_PACKAGES=(qemu-system-x86 mmdebstrap e2fsprogs binutils tar)
LAB_PACKAGES=(e2fsprogs mount util-linux mmdebstrap xvfb fio)
DEMO_PACKAGES=(e2fsprogs mount util-linux mmdebstrap)

# The second address is what the first one redirects to; some networks admit only that.
# shellcheck disable=SC2016 # for the inner shell
RUSTUP_INSTALLER='set -e
fetch() { curl --proto "=https" --tlsv1.2 -sSf "$1"; }
script=$(fetch https://sh.rustup.rs || fetch https://static.rust-lang.org/rustup/rustup-init.sh)
printf "%s\n" "$script" | sh -s -- -y -q --profile minimal --no-modify-path'

APT_UPDATED=no
INSTALLED=()
# What every run of this script installed, a line for each; for removing it again.
INSTALLED_LIST=$CACHE_DIR/installed

# installed PACKAGE[:ARCHITECTURE]: without one, for this system's, whatever others it is installed for.
installed() {
    local architecture=${1#*:}
    [[ $1 == *:* ]] || architecture=$(dpkg --print-architecture)
    # shellcheck disable=SC2016 # for dpkg-query
    dpkg-query -W -f '${Architecture} ${db:Status-Status}\n' "$1" 2>/dev/null |
        grep -Eqx "($architecture|all) installed"
}

update_lists() {
    [[ $APT_UPDATED == no ]] || return 0
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -q update ||
        die "apt-get update failed: check the network and the sources in /etc/apt"
    APT_UPDATED=yes
}

# install_packages PACKAGE…: those that are missing.
install_packages() {
    local missing=() package
    for package in "$@"; do
        installed "$package" || missing+=("$package")
    done
    [[ ${#missing[@]} -gt 0 ]] || return 0
    say "Installing ${missing[*]}"
    update_lists
    as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get -q install -y --no-install-recommends "${missing[@]}" </dev/null ||
        die "apt-get could not install ${missing[*]}: see its message above"
    INSTALLED+=("${missing[@]}")
    note_installed "${missing[@]}"
}

# note_installed PACKAGE…: at once, so that the list is right when a later step fails.
note_installed() {
    trusted_directory "$CACHE_DIR"
    printf '%s %s\n' "$(date --utc +%FT%TZ)" "$*" | as_root tee -a "$INSTALLED_LIST" >/dev/null
}

# Version that apt would install, such as 1.85.0; nothing when apt does not know the package.
apt_candidate() { apt-cache policy "$1" 2>/dev/null | sed -n 's/^ *Candidate: \([0-9][0-9.]*\).*/\1/p'; }

# install_unit_directory: the package with systemd's pkg-config file, which names the directory of units. Newer releases
# have it in a package of its own.
install_unit_directory() {
    if pkg-config --exists systemd; then
        return 0
    elif [[ -n $(apt_candidate systemd-dev) ]]; then
        install_packages systemd-dev
    else
        install_packages systemd
    fi
}

find_rustup() {
    local home
    RUSTUP=$(command -v rustup) && return 0
    while read -r home; do
        RUSTUP=$home/.cargo/bin/rustup
        [[ ! -x $RUSTUP ]] || return 0
    done < <(cargo_homes)
    return 1
}

install_rust() {
    local floor
    floor=$(rust_floor)
    if find_rustup; then
        say "Updating the stable Rust toolchain with $RUSTUP"
        as_invoker "$RUSTUP" update --no-self-update stable || die "rustup could not update: see its message above"
        as_invoker "$RUSTUP" default >/dev/null 2>&1 || as_invoker "$RUSTUP" default stable
        find_cargo || die "cargo is still older than $floor: run 'rustup default stable'"
        return 0
    fi
    update_lists
    if [[ -n $(apt_candidate rustup) ]]; then
        install_packages rustup ca-certificates
        as_invoker rustup set profile minimal
        as_invoker rustup default stable || die "rustup could not install Rust: see its message above"
    elif version_at_least "$(apt_candidate cargo)" "$floor"; then
        install_packages cargo
    else
        install_packages curl ca-certificates
        say "Installing Rust with rustup from rust-lang.org"
        as_invoker sh -c "$RUSTUP_INSTALLER" || die "rustup could not be installed: see its message above"
    fi
    find_cargo || die "Rust was installed, but no cargo $floor or newer was found: look in ~/.cargo/bin"
}

# The tools of cargo that a minimal Rust installation leaves out.
install_rust_checkers() {
    if cargo fmt --version >/dev/null 2>&1 && cargo clippy --version >/dev/null 2>&1; then
        return 0
    elif find_rustup; then
        say "Adding rustfmt and clippy"
        as_invoker "$RUSTUP" component add rustfmt clippy || die "rustup could not add rustfmt and clippy: see its message above"
    else
        install_packages rustfmt rust-clippy
    fi
}

# fetch_crates: the sources of those that are linked, which checks look into without asking the network.
fetch_crates() {
    local fetch=("$CARGO" fetch --quiet --locked --manifest-path "$REPO/Cargo.toml" --target x86_64-unknown-linux-gnu)
    as_invoker "${fetch[@]}" --offline 2>/dev/null || as_invoker "${fetch[@]}" ||
        die "cargo could not fetch the crates that Cargo.lock names: see its message above"
}

# add_arm64: has apt know the packages of arm64. Ubuntu has them on other servers (ports.ubuntu.com), which its sources
# have to name.
add_arm64() {
    if [[ $(dpkg --print-architecture) != arm64 ]] && ! dpkg --print-foreign-architectures | grep -qx arm64; then
        as_root dpkg --add-architecture arm64
    fi
}

# The standard library for it: rustup has it, and Debian for its own Rust.
install_rust_for_arm64() {
    if find_rustup; then
        as_invoker "$RUSTUP" target list --installed | grep -qx "$ARM64_TARGET" ||
            as_invoker "$RUSTUP" target add "$ARM64_TARGET" || die "rustup could not add $ARM64_TARGET: see its message above"
    else
        install_packages libstd-rust-dev:arm64
    fi
}

main() {
    local needs=("$@") packages=() need
    [[ ${#needs[@]} -gt 0 ]] || needs=(build deb rpm arch test vm lab demo)
    for need in "${needs[@]}"; do
        case $need in
            build) packages+=("${BUILD_PACKAGES[@]}") ;;
            deb) packages+=("${DEB_PACKAGES[@]}") ;;
            rpm) packages+=("${RPM_PACKAGES[@]}") ;;
            arch) packages+=("${ARCH_PACKAGES[@]}") ;;
            piuparts) packages+=("${PIUPARTS_PACKAGES[@]}") ;;
            arm64) packages+=("${ARM64_PACKAGES[@]}") ;;
            test) packages+=("${TEST_PACKAGES[@]}") ;;
            vm) packages+=("${VM_PACKAGES[@]}") ;;
            lab) packages+=("${LAB_PACKAGES[@]}") ;;
            demo) packages+=("${DEMO_PACKAGES[@]}") ;;
            *) die "unknown need '$need': one of build, deb, rpm, arch, piuparts, arm64, test, vm, lab, demo" ;;
        esac
    done
    if ! command -v apt-get >/dev/null; then
        find_cargo || die "there is no cargo $(rust_floor) or newer: install it, and the like of ${packages[*]}"
        warn "only apt is known here (Debian 12 or newer, Ubuntu 24.04 or newer): nothing is installed; needed is the like of ${packages[*]}"
        return 0
    fi
    if [[ " ${needs[*]} " == *" arm64 "* ]]; then
        add_arm64
    fi
    install_packages "${packages[@]}"
    if [[ " ${needs[*]} " == *" deb "* ]]; then
        install_unit_directory
    fi
    if [[ " ${needs[*]} " == *" build "* || " ${needs[*]} " == *" test "* ]]; then
        find_cargo || install_rust
    fi
    if [[ " ${needs[*]} " == *" test "* ]]; then
        install_rust_checkers
        fetch_crates
    fi
    if [[ " ${needs[*]} " == *" arm64 "* ]]; then
        install_rust_for_arm64
    fi
    if [[ ${#INSTALLED[@]} -gt 0 ]]; then
        say "Installed now (noted in $INSTALLED_LIST): ${INSTALLED[*]}"
    fi
    say "Set up for: ${needs[*]}"
}

main "$@"
