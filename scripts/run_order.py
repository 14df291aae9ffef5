#!/usr/bin/env python3
"""Lists the functions that `paralfetch run` executes, in the order in which it first does: src/cli/run.order, by which the
program is linked, so that they lie together (build.rs).

  scripts/run_order.py           makes the list anew: as root, on x86-64, with qemu-user-static and the program that make build made
  scripts/run_order.py --check   fails if that program's `run` no longer lies together: if the list has become old

A launch by `run` waits for the pages of the program that are not cached, and a page fault reads the 128 KiB around it. It is
time for a new list when functions that `run` needs have been renamed, or when the compiler names them by other rules.

Under emulation no file system is found, and nothing is prefetched: the functions that make a profile's requests are not listed.
"""

import bisect
import collections
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIST = ROOT / "src/cli/run.order"
PROGRAM = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release/paralfetch"
EMULATOR = "qemu-x86_64-static"
SECTION = ".text.run"
# What a page fault reads (read_ahead_kb's default).
WINDOW = 128 * 1024
# Lives long enough for its prefetch under emulation.
APP = ["/bin/sleep", "2"]
HEAD = """\
# The functions that `paralfetch run` executes, in the order in which it first does, as the linker knows them, without what
# differs from build to build. Made by scripts/run_order.py.
"""


def output(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def pattern(symbol):
    """A symbol's name without the hashes, which are the compiler's and the dependencies'."""
    symbol = re.sub(r"17h[0-9a-f]{16}E.*", "17h*", symbol)
    symbol = re.sub(r"Cs[0-9A-Za-z]+_", "Cs*_", symbol)
    return re.sub(r"\.llvm\.[0-9]+$", "*", symbol)


def section(name):
    """Address of the first byte of a section, and of the one behind the last."""
    for line in output("readelf", "--sections", "--wide", str(PROGRAM)).splitlines():
        fields = line.replace("[ ", "[").split()
        if len(fields) > 5 and fields[1] == name:
            return int(fields[3], 16), int(fields[3], 16) + int(fields[5], 16)
    sys.exit(f"{PROGRAM} has no section {name}: its linker took no list (build.rs says which do)")


class Functions:
    """The functions of the program, by address. Several may have the same one: the linker keeps one of equals."""

    def __init__(self):
        self.names = collections.defaultdict(list)
        self.sizes = {}
        for line in output("nm", "--print-size", str(PROGRAM)).splitlines():
            fields = line.split()
            if len(fields) == 4 and fields[2] in "tTwW":
                address = int(fields[0], 16)
                self.names[address].append(fields[3])
                self.sizes[address] = int(fields[1], 16)
        self.addresses = sorted(self.sizes)

    def at(self, address):
        """The address of the function with this instruction."""
        before = bisect.bisect_right(self.addresses, address)
        start = self.addresses[before - 1] if before else 0
        return start if address < start + self.sizes.get(start, 0) else None


def executed(functions, log):
    """Addresses of the functions in a log of the emulator, which names each piece of code when it first executes it."""
    named = {name: address for address, names in functions.names.items() for name in names}
    code = re.findall(r"^IN: ?(\S*)\n(0x[0-9a-f]+):", log, re.MULTILINE)
    ours = ((int(address, 16), named[name]) for name, address in code if name.startswith("_ZN10paralfetch") and name in named)
    at, function = next(ours)
    # The program is loaded by whole pages. `at` is near the start of its function.
    base = (at - function) & ~0xFFF
    low, high = functions.addresses[0], functions.addresses[-1]
    inside = (int(address, 16) - base for _, address in code if low <= int(address, 16) - base <= high)
    return dict.fromkeys(filter(None, map(functions.at, inside)))


def trace(state, log):
    subprocess.run(
        [EMULATOR, "-d", "in_asm,page", "-D", log, PROGRAM, "--state-dir", state, "run", "--", *APP], check=True
    )
    return pathlib.Path(log).read_text(errors="replace")


def make():
    if os.geteuid() != 0:
        sys.exit("run_order.py needs root: an app is learned, and its launch prefetched")
    functions = Functions()
    hot = {}
    with tempfile.TemporaryDirectory() as directory:
        state, none = f"{directory}/state", f"{directory}/none"
        subprocess.run([PROGRAM, "--state-dir", state, "learn", "--", *APP], check=True)
        for place in state, none:
            hot.update(dict.fromkeys(executed(functions, trace(place, f"{directory}/log"))))
    total, used, count = collections.Counter(), collections.Counter(), collections.Counter()
    for address, names in functions.names.items():
        for name in dict.fromkeys(map(pattern, names)):
            total[name] += functions.sizes[address]
            if address in hot:
                used[name] += functions.sizes[address]
                count[name] += 1
    order = dict.fromkeys(pattern(name) for address in hot for name in functions.names[address])
    # A generic function has instances that `run` does not need, which no pattern tells apart: they must not cost more than
    # the page faults that they save.
    kept = [name for name in order if total[name] - used[name] <= count[name] * WINDOW]
    LIST.write_text(HEAD + "".join(f"{name}\n" for name in kept))
    print(f"{LIST.name}: {len(kept)} names, {sum(total[name] for name in kept) // 1024} KiB, of which `run` needs {sum(used.values()) // 1024}")


def check():
    low, high = section(SECTION)
    names = {name for name in LIST.read_text().splitlines() if not name.startswith("#")}
    found = set()
    for address, symbols in Functions().names.items():
        if low <= address < high:
            found.update(names.intersection(map(pattern, symbols)))
    share = len(found) / len(names)
    if share < 0.8:
        sys.exit(f"of {len(names)} functions in {LIST}, only {len(found)} are in {SECTION} of {PROGRAM}: run {sys.argv[0]}")
    print(f"{len(found)} of {len(names)} listed functions lie together, in {(high - low) // 1024} KiB")


if __name__ == "__main__":
    match sys.argv[1:]:
        case []:
            make()
        case ["--check"]:
            check()
        case _:
            sys.exit(__doc__)
