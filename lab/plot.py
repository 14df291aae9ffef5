#!/usr/bin/env python3
"""Draws what `lab run` has left in a directory, in SVG: launches-DRIVE.svg, and beside each timeline
its picture.

    lab/plot.py DIR

Launches are medians of the ratio to the cold launch of the same turn. Needs python3-matplotlib.
"""
import json
import statistics
import sys
from collections import defaultdict
from pathlib import Path

try:
    import matplotlib.figure
except ImportError:
    sys.exit("this needs matplotlib: apt-get install python3-matplotlib")


def is_alone(launch):
    """Whether the prefetch alone was measured, which ends with its exit."""
    return launch["scenario"].startswith("only-")


def ends(launches):
    """The event that ends launches, by drive and app, as in report.md: the first of these that any of them has."""
    found = {}
    for end in ("window", "exit", "completion"):
        for launch in launches:
            if launch.get(end) is not None and not is_alone(launch):
                found.setdefault((launch["device"], launch["app"]), end)
    return found


def ratios(launches):
    """Median ratios to cold, by drive, app and scenario."""
    times, app_ends = {}, ends(launches)
    for launch in launches:
        end = "exit" if is_alone(launch) else app_ends.get((launch["device"], launch["app"]))
        time = launch.get(end)
        if time and not launch.get("disturbed"):
            times[launch["device"], launch["app"], launch["scenario"], launch["turn"]] = time
    found = defaultdict(list)
    for (device, app, scenario, turn), time in times.items():
        cold = times.get((device, app, "cold", turn))
        if cold and scenario != "cold":
            found[device, app, scenario].append(time / cold)
    return {key: statistics.median(values) for key, values in found.items()}


def draw_launches(device, found, path):
    """Bars for each app, a colour for each scenario."""
    apps = list(dict.fromkeys(app for own, app, _ in found if own == device))
    scenarios = list(dict.fromkeys(name for own, _, name in found if own == device))
    width = 0.8 / len(scenarios)
    figure = matplotlib.figure.Figure(figsize=(2 + len(apps) * (0.5 + 0.2 * len(scenarios)), 4))
    axes = figure.subplots()
    for place, name in enumerate(scenarios):
        at = [index + (place - (len(scenarios) - 1) / 2) * width for index in range(len(apps))]
        axes.bar(at, [found.get((device, app, name), 0) for app in apps], width, label=name)
    axes.axhline(1, color="black", linewidth=0.8)
    axes.set_xticks(range(len(apps)), apps)
    axes.set_ylabel("by cold")
    axes.set_title(device)
    axes.legend(fontsize="small", loc="center left", bbox_to_anchor=(1, 0.5))
    figure.savefig(path, bbox_inches="tight")


def spans(rows):
    """Times and values of a step function from spans with a start, an end and a number of tasks."""
    changes = sorted(change for start, end, tasks in rows for change in ((start, tasks), (end, -tasks)))
    times, values, now = [], [], 0
    for time, change in changes:
        now += change
        times.append(time / 1e6)
        values.append(now)
    return times, values


def draw_timeline(timeline, path):
    """Lanes over the launch's time; below, where entries lie on the drive before and after scheduling."""
    figure = matplotlib.figure.Figure(figsize=(10, 12))
    axes = figure.subplots(6, height_ratios=[1, 1, 1, 2, 2, 2])
    queue = [[time / 1e6 for time, _ in timeline["queue"]], [depth for _, depth in timeline["queue"]]]
    lanes = [
        ("on a processor", spans(timeline["cpu"])),
        ("wait for drive", spans(timeline["waiting"])),
        ("in flight", queue),
    ]
    for lane, (name, (times, values)) in zip(axes, lanes):
        lane.fill_between(times, values, step="post")
        lane.set_ylabel(name)
    for miss in timeline["misses"]:
        axes[1].axvline(miss["time_us"] / 1e6, color="red", linewidth=0.5)
    for name, points in (("prefetched", timeline["prefetch"]), ("app", timeline["app_position"])):
        axes[3].step([time / 1e6 for time, _ in points], [pages for _, pages in points], label=name)
    axes[3].set_ylabel("pages of the sequence")
    axes[3].legend()
    for lane in axes[:4]:
        lane.set_xlim(0, timeline["seconds"])
        for end in ("window", "completion"):
            if timeline.get(end):
                lane.axvline(timeline[end], color="black", linewidth=0.8)
    for lane, name in ((axes[4], "before"), (axes[5], "after")):
        for kind, is_metadata in (("data", False), ("metadata", True)):
            entries = [entry for entry in timeline[name] if bool(entry[3]) == is_metadata]
            lane.scatter([entry[0] for entry in entries], [entry[1] / 2**21 for entry in entries], s=2, label=kind)
        lane.set_ylabel(f"GiB, {name} scheduling")
        lane.legend()
    axes[0].set_title(f"{timeline['app']}, {timeline['scenario']}, on {timeline['device']}; misses in red")
    figure.savefig(path, bbox_inches="tight")


def main():
    """Draws everything in the directory that is named."""
    if len(sys.argv) != 2:
        sys.exit("usage: lab/plot.py DIR, the directory of `lab run --out DIR`")
    directory = Path(sys.argv[1])
    with open(directory / "results.jsonl", encoding="utf-8") as lines:
        records = [json.loads(line) for line in lines if line.endswith("\n")]
    found = ratios([record for record in records if record["record"] == "launch"])
    for device in dict.fromkeys(device for device, _, _ in found):
        draw_launches(device, found, directory / f"launches-{device}.svg")
    for path in sorted(directory.glob("timelines/*.json")):
        draw_timeline(json.loads(path.read_text(encoding="utf-8")), path.with_suffix(".svg"))


if __name__ == "__main__":
    main()
