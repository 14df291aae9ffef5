#!/usr/bin/env python3
"""Draws the launches that `lab run` has left in a directory, in SVG: launches-DRIVE.svg.

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


def main():
    """Draws the launches in the directory that is named."""
    if len(sys.argv) != 2:
        sys.exit("usage: lab/plot.py DIR, the directory of `lab run --out DIR`")
    directory = Path(sys.argv[1])
    with open(directory / "results.jsonl", encoding="utf-8") as lines:
        records = [json.loads(line) for line in lines if line.endswith("\n")]
    found = ratios([record for record in records if record["record"] == "launch"])
    for device in dict.fromkeys(device for device, _, _ in found):
        draw_launches(device, found, directory / f"launches-{device}.svg")


if __name__ == "__main__":
    main()
