# shellcheck shell=bash disable=SC2034 # the scripts that source this file use the variables by name
# The applications of the results table: for each, its packages and a command that starts it without
# a display and ends by itself. The commands run in the image, as root, with HOME=/root.

APPS=(libreoffice inkscape chromium gimp)

# What all of them need: text cannot be drawn without a font.
COMMON_PACKAGES=(fonts-dejavu-core)

libreoffice_packages=(libreoffice-writer)
libreoffice_command=(soffice --headless --norestore --nologo --writer --terminate_after_init)

inkscape_packages=(inkscape)
inkscape_command=(inkscape --export-type=png --export-filename=/tmp/x.png /root/small.svg)

chromium_packages=(chromium)
chromium_command=(chromium --headless --no-sandbox --disable-gpu --disable-quic --no-first-run
    --disable-background-networking --disable-component-update --disable-sync
    --user-data-dir=/root/chromium --dump-dom about:blank)

gimp_packages=(gimp)
gimp_command=(gimp -i -n -b '(gimp-quit 0)')

# What Inkscape exports.
SMALL_SVG='<svg xmlns="http://www.w3.org/2000/svg" width="64" height="64">
  <rect width="64" height="64" fill="#fff"/>
  <circle cx="32" cy="32" r="24" fill="#36c"/>
  <text x="22" y="38" font-size="16" font-family="DejaVu Sans" fill="#fff">pf</text>
</svg>'
