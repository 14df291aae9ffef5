#!/usr/bin/env python3
"""Measures what `paralfetch run` costs a launch when none of its own program is cached: the time until the app runs, and what
the drive reads of the program until then, beside the same with all of it cached.

  sudo scripts/run_cost.py [PROGRAM…]      (target/release/paralfetch; several are compared by turns)

The app has no profile. Copies the programs, stripped, to /var/tmp. The drive's readahead is 128 KiB meanwhile, as distributions set it.
"""

import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
TURNS = 20
READAHEAD_KIB = "128"


def block_device(path):
    """The directory in sysfs of the drive that a file lies on."""
    number = os.stat(path).st_dev
    device = pathlib.Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}").resolve(strict=True)
    return device.parent if (device / "partition").exists() else device


def reads(device):
    """Requests and bytes that the drive has read since it is there."""
    fields = (device / "stat").read_text().split()
    return int(fields[0]), int(fields[2]) * 512


def launch(program, state, device, cached):
    """Milliseconds until the app runs, and requests and bytes of the whole launch."""
    file = os.open(program, os.O_RDONLY)
    os.fsync(file)
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_WILLNEED if cached else os.POSIX_FADV_DONTNEED)
    os.close(file)
    if cached:
        pathlib.Path(program).read_bytes()
    before, started = reads(device), time.time()
    run = [program, "--state-dir", state, "run", "--", "/bin/date", "+%s.%N"]
    app = float(subprocess.run(run, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout)
    after = reads(device)
    return (app - started) * 1e3, after[0] - before[0], after[1] - before[1]


def measure(programs, directory):
    device = block_device(directory)
    copies = []
    for number, program in enumerate(programs):
        copies.append(f"{directory}/{number}")
        subprocess.run(["strip", "-o", copies[-1], program], check=True)
    os.sync()
    state, launches = f"{directory}/state", {copy: {True: [], False: []} for copy in copies}
    for copy in copies:
        launch(copy, state, device, cached=True)
    for _ in range(TURNS):
        for copy in copies:
            for cached in True, False:
                launches[copy][cached].append(launch(copy, state, device, cached))
    for program, copy in zip(programs, copies):
        times = {cached: [taken for taken, _, _ in launches[copy][cached]] for cached in (True, False)}
        more = [cold - warm for warm, cold in zip(times[True], times[False])]
        low, middle, high = statistics.quantiles(more, n=4)
        requests, read = (statistics.median(values) for values in list(zip(*launches[copy][False]))[1:])
        print(
            f"{program}: {os.path.getsize(copy) / 1e6:.1f} MB stripped; not cached, the app runs {middle:.1f} ms later "
            f"(quartiles {low:.1f} to {high:.1f}; cached {statistics.median(times[True]):.1f} ms); "
            f"{requests:.0f} requests, {read / 1e6:.1f} MB in the whole launch"
        )


def main():
    programs = sys.argv[1:] or [str(ROOT / "target/release/paralfetch")]
    with tempfile.TemporaryDirectory(dir="/var/tmp") as directory:
        setting = block_device(directory) / "queue/read_ahead_kb"
        found = setting.read_text()
        for ending in signal.SIGTERM, signal.SIGHUP:
            signal.signal(ending, lambda *_: sys.exit("ended"))
        try:
            setting.write_text(READAHEAD_KIB)
            measure(programs, directory)
        finally:
            setting.write_text(found)


if __name__ == "__main__":
    main()
