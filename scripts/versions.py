#!/usr/bin/env python3
"""Checks that the project has one version, or prints its changes for a package.

  scripts/versions.py               Cargo.toml, CHANGELOG.md, the AppStream metadata, the manual and the packages name the same one
  scripts/versions.py --version     that version
  scripts/versions.py --debian      CHANGELOG.md as debian/changelog
  scripts/versions.py --rpm         CHANGELOG.md as an rpm specification has it after %changelog
  scripts/versions.py --epoch       when the newest version was released, in seconds (SOURCE_DATE_EPOCH)

The version is Cargo.toml's: `paralfetch --version`, the log and the property `Version` on the bus are compiled with it.
"""

import datetime
import email.utils
import pathlib
import re
import sys
import textwrap
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
CHANGELOG = ROOT / "CHANGELOG.md"
METAINFO = ROOT / "dist/org.paralfetch.Paralfetch.metainfo.xml"
# With the version's place in them.
PACKAGES = {"packaging/rpm/paralfetch.spec": r"(?m)^Version: *(.*)$", "packaging/arch/PKGBUILD": r"(?m)^pkgver=(.*)$"}
PAGES = ["man/paralfetch.1", "man/paralfetch.toml.5", "man/paralfetch.service.8"]
CONTROL = ROOT / "packaging/debian/control"


def releases():
    """Version, date and changes of each release in CHANGELOG.md, the newest first."""
    parts = re.split(r"(?m)^## (\d+\.\d+\.\d+) - (\d{4}-\d\d-\d\d)$", CHANGELOG.read_text())
    for version, date, text in zip(parts[1::3], parts[2::3], parts[3::3]):
        items = re.findall(r"(?ms)^- (.*?)(?=^- |^$|\Z)", text)
        yield version, midnight(date), [" ".join(item.split()) for item in items]


def midnight(date):
    return datetime.datetime.fromisoformat(date).replace(tzinfo=datetime.timezone.utc)


def maintainer():
    return re.search(r"(?m)^Maintainer: (.*)$", CONTROL.read_text())[1]


def program_version():
    return tomllib.loads((ROOT / "Cargo.toml").read_text())["package"]["version"]


def debian():
    for version, date, items in releases():
        print(f"paralfetch ({version}) unstable; urgency=medium\n")
        for item in items:
            print(textwrap.fill(item, 76, initial_indent="  * ", subsequent_indent="    ", break_on_hyphens=False))
        print(f"\n -- {maintainer()}  {email.utils.format_datetime(date)}\n")


def rpm():
    for version, date, items in releases():
        # Names of days and months in English, whatever the locale.
        day = email.utils.format_datetime(date).replace(",", "").split()
        print(f"* {day[0]} {day[2]} {day[1]} {day[3]} {maintainer()} - {version}-1")
        for item in items:
            text = textwrap.fill(item, 76, initial_indent="- ", subsequent_indent="  ", break_on_hyphens=False)
            # A macro would be expanded.
            print(text.replace("%", "%%"))
        print()


def check():
    version = program_version()
    newest, date, _ = next(releases(), ("none", None, []))
    metainfo = re.search(r'<release version="(.*?)" date="(.*?)"', METAINFO.read_text())
    problems = []
    if newest != version:
        problems.append(f"CHANGELOG.md begins with version {newest}, and Cargo.toml has {version}")
    if metainfo[1] != version or midnight(metainfo[2]) != date:
        problems.append(f"{METAINFO.name} has version {metainfo[1]} of {metainfo[2]}, and CHANGELOG.md another")
    for page in PAGES:
        heading = re.match(r'\.TH \S+ \d "(.*?)" "paralfetch (.*?)" ', (ROOT / page).read_text())
        if heading is None or heading[2] != version or midnight(heading[1]) != date:
            problems.append(f"{page} does not begin with version {version} and the date of CHANGELOG.md")
    for name, place in PACKAGES.items():
        found = re.search(place, (ROOT / name).read_text())[1]
        if found != version:
            problems.append(f"{name} has version {found}, and Cargo.toml has {version}")
    for problem in problems:
        print(f"versions: {problem}", file=sys.stderr)
    if not problems:
        print(f"versions: all name {version}")
    return 1 if problems else 0


def main():
    if sys.argv[1:] == ["--debian"]:
        debian()
    elif sys.argv[1:] == ["--rpm"]:
        rpm()
    elif sys.argv[1:] == ["--version"]:
        print(program_version())
    elif sys.argv[1:] == ["--epoch"]:
        print(int(next(releases())[1].timestamp()))
    else:
        return check()
    return 0


if __name__ == "__main__":
    sys.exit(main())
