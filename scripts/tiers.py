#!/usr/bin/env python3
"""Which test belongs to which tier (tests/tiers), and what the long tier has passed last (tests/long-tier).

  scripts/tiers.py check PROGRAMS      fails unless each test of these programs, one a line in the file PROGRAMS, has its tier
  scripts/tiers.py write PROGRAMS      lists them anew: tests that are not listed yet belong to the fast tier
  scripts/tiers.py programs TIER       names the programs of a tier, each with the test to choose where it has others, too
  scripts/tiers.py record PART SECONDS notes that a part of the long tier has passed with what HEAD is
  scripts/tiers.py parts               names the parts of the long tier
  scripts/tiers.py unpassed            those that have not passed with this commit's sources
  scripts/tiers.py last PART           says how long that part took last
  scripts/tiers.py due                 says what the long tier has passed last, and which parts the changes since then ask for
  scripts/tiers.py released            fails unless all of it has passed with this commit's sources

Unit tests stand beside the code, all belong to the fast tier, and are not listed.
"""

import collections
import datetime
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TIERS = ROOT / "tests/tiers"
PASSED = ROOT / "tests/long-tier"
# `make test`, and `make test-machines`.
NAMES = ("fast", "machines")
TIERS_HEAD = "# Each test of the programs in tests/ and lab/tests/: tier, program, name. `scripts/tiers.py write` lists new ones.\n"
PASSED_HEAD = "# What `make test-machines` has passed last: part, commit, day, seconds. It writes this; commit it.\n"
# The parts of the long tier, and the paths whose changes ask for them.
PARTS = {
    "vm": ("src/kernel", "src/fs", "waits/src", "tests/vm", "scripts/vm.sh"),
    "installed": ("packaging", "dist", "scripts/install.sh", "tests/installed", "tests/common/guest"),
    "new_user": ("packaging", "dist", "tests/new_user", "tests/common/guest"),
    "packages": ("packaging", "dist", "scripts/install.sh", "scripts/rpm.sh", "scripts/arch.sh", "scripts/deb.sh"),
    "fuzz": ("fuzz",),
    "lab": ("lab",),
}
# What no part of the long tier tests.
UNTESTED = (":!docs", ":!*.md", ":!tests/long-tier")


def rows(file):
    lines = file.read_text().splitlines() if file.exists() else []
    return [line.split() for line in lines if line and not line.startswith("#")]


def listed():
    """Tier of each (program, test)."""
    tiers = {}
    for tier, program, test in rows(TIERS):
        if tier not in NAMES:
            sys.exit(f"{TIERS}: the tier of {program} {test} is '{tier}': {' and '.join(NAMES)} are known")
        tiers[program, test] = tier
    return tiers


def existing(programs):
    """(program, test) of all that the programs list."""
    tests = []
    for path in pathlib.Path(programs).read_text().split():
        program = pathlib.Path(path).name.rpartition("-")[0]
        said = subprocess.run([path, "--list"], check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT).stdout
        tests += [(program, line.removesuffix(": test")) for line in said.splitlines() if line.endswith(": test")]
    return sorted(tests)


def check(programs):
    tiers, tests = listed(), existing(programs)
    wrong = [f"{program} {test}: in no tier" for program, test in tests if (program, test) not in tiers]
    wrong += [f"{program} {test}: there is no such test" for program, test in sorted(set(tiers) - set(tests))]
    if wrong:
        sys.exit("\n".join(wrong) + f"\nrun 'scripts/tiers.py write {programs}', and see that each test stands in its tier")
    count = collections.Counter(tiers.values())
    print(", ".join(f"{count[name]} tests in the tier '{name}'" for name in NAMES))


def write(programs):
    tiers = listed()
    lines = (f"{tiers.get(test, NAMES[0]):8} {test[0]:11} {test[1]}\n" for test in existing(programs))
    TIERS.write_text(TIERS_HEAD + "".join(lines))


def programs(tier):
    of = collections.defaultdict(list)
    for (program, test), its in listed().items():
        of[program].append((test, its))
    for program, tests in of.items():
        wanted = [test for test, its in tests if its == tier]
        if len(wanted) == len(tests):
            print(program)
        else:
            for test in wanted:
                print(program, test)


def git(*arguments):
    return subprocess.run(["git", "-C", ROOT, *arguments], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def passed():
    return {part: (commit, day, int(seconds)) for part, commit, day, seconds in rows(PASSED)}


def record(part, seconds):
    if part not in PARTS:
        sys.exit(f"there is no part '{part}': {', '.join(PARTS)}")
    head = git("rev-parse", "--short=12", "HEAD").stdout.strip()
    dirty = git("status", "--porcelain", "--untracked-files=no", "--", ".", *UNTESTED).stdout
    if not head or dirty:
        print(f"{part}: not noted in {PASSED.name}: the tree is no commit's")
        return
    now = passed()
    now[part] = (head, datetime.date.today().isoformat(), int(seconds))
    lines = (f"{part:10} {commit} {day} {time}\n" for part, (commit, day, time) in sorted(now.items()))
    PASSED.write_text(PASSED_HEAD + "".join(lines))


def changed(commit, *paths):
    """Whether anything there differs from that commit; None where it is not known here."""
    status = git("diff", "--quiet", commit, "--", *paths).returncode
    return {0: False, 1: True}.get(status)


def due():
    """What asks for a part, by part."""
    known = passed()
    for part, paths in PARTS.items():
        if part not in known:
            print(f"long tier: {part} has not passed yet: make test-machines PART={part}")
            continue
        commit, day, seconds = known[part]
        asks = [path for path in paths if changed(commit, path) is not False]
        since = f"; changed since: {', '.join(asks)}: make test-machines PART={part}" if asks else ""
        print(f"long tier: {part} passed with {commit}, {day}, {seconds} s{since}")


def unpassed():
    known = passed()
    return [part for part in PARTS if part not in known or changed(known[part][0], ".", *UNTESTED) is not False]


def last(part):
    if part in passed():
        commit, day, seconds = passed()[part]
        print(f"{part} took {seconds} s last, with {commit} on {day}")


def released():
    missing = unpassed()
    if missing:
        sys.exit(f"the long tier has not passed with these sources: make test-machines PART={missing[0]} ({', '.join(missing)})")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["check", file]:
            check(file)
        case ["write", file]:
            write(file)
        case ["programs", tier] if tier in NAMES:
            programs(tier)
        case ["record", name, seconds]:
            record(name, seconds)
        case ["due"]:
            due()
        case ["released"]:
            released()
        case ["parts"]:
            print(*PARTS)
        case ["unpassed"]:
            print(*unpassed())
        case ["last", name]:
            last(name)
        case _:
            sys.exit(__doc__)
