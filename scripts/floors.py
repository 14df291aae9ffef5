#!/usr/bin/env python3
"""Prints the floors of the house and checks its arrows.

  scripts/floors.py [--table]      (--table: only the picture, as docs/design.md shows it)

An arrow is a path `crate::ROOM` in a file of another room, in code and in tests alike. Exits with 1 when
an arrow goes up, when arrows make a circle, when `schedule` or `policy` look at anything but `model`, when
a room stands on no floor, when two types have one name, when docs/design.md shows another picture, and when more
than two files make a circle (scripts/circles.py), or rooms of the laboratory or of the wait detector do.
"""

import pathlib
import re
import sys

from circles import Crate

ROOT = pathlib.Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src"
FLOORS = [
    ["model"],
    ["kernel", "fs", "drive", "process", "schedule", "policy"],
    ["learn", "prefetch", "profile", "judge", "apps", "shield"],
    ["service"],
    ["cli", "bench", "doctor"],
]
# Plain functions over plain data: they know nothing of kernels, files and root.
PURE = {"model": set(), "schedule": {"model"}, "policy": {"model"}}
FLOOR_OF = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}
# The program and the library's root only name what there is.
OUTSIDE = {"main.rs", "lib.rs"}


def without_comments(text):
    """Line comments and doc comments blanked: a link in a comment is no arrow."""
    return re.sub(r"(?m)//.*$", "", text)


def arrows(text):
    """Rooms that the text names as crate::ROOM, or in crate::{ROOM::…, …}."""
    for match in re.finditer(r"\bcrate::(\w+)", text):
        yield match.group(1), match.start()
    for match in re.finditer(r"\bcrate::\{", text):
        depth, name, at = 1, "", match.end()
        first = True
        while depth and at < len(text):
            char = text[at]
            if char == "{":
                depth += 1
            elif char == "}":
                depth -= 1
            elif depth == 1 and char == ",":
                first, name = True, ""
            elif depth == 1 and first:
                if re.match(r"\w", char):
                    name += char
                elif name:
                    yield name, at
                    first = False
            at += 1


def read_house():
    """The arrows between rooms, each with the places that draw it, and where each type is declared."""
    graph = {room: {} for room in FLOOR_OF}
    types, problems = {}, []
    for path in sorted(SOURCE.rglob("*.rs")):
        name = path.relative_to(SOURCE)
        if str(name) in OUTSIDE:
            continue
        room = name.parts[0].removesuffix(".rs")
        if room not in FLOOR_OF:
            problems.append(f"src/{name} stands on no floor: move it into a room, or name its room here")
            continue
        text = without_comments(path.read_text())
        for other, at in arrows(text):
            if other == room:
                continue
            line = text.count("\n", 0, at) + 1
            if other not in FLOOR_OF:
                problems.append(f"src/{name}:{line}: crate::{other} is no room")
                continue
            graph[room].setdefault(other, []).append(f"src/{name}:{line}")
        for match in re.finditer(r"(?m)^\s*(?:pub(?:\([^)]*\))? )?(?:struct|enum|trait) (\w+)", text):
            types.setdefault(match.group(1), []).append(f"src/{name}")
    return graph, types, problems


def circle(graph):
    """Rooms that form a circle, in order; empty if there is none."""
    done, path = set(), []

    def visit(room):
        if room in path:
            return path[path.index(room):] + [room]
        if room in done:
            return []
        path.append(room)
        for other in sorted(graph[room]):
            found = visit(other)
            if found:
                return found
        path.pop()
        done.add(room)
        return []

    for room in sorted(graph):
        found = visit(room)
        if found:
            return found
    return []


def check(graph, types):
    problems = []
    for room, others in graph.items():
        for other, places in others.items():
            if FLOOR_OF[other] > FLOOR_OF[room]:
                problems.append(f"{room} -> {other} goes up: {', '.join(places)}")
            if room in PURE and other not in PURE[room]:
                problems.append(f"{room} is pure and may not look at {other}: {', '.join(places)}")
    found = circle(graph)
    if found:
        problems.append("a circle: " + " -> ".join(found))
    for name, places in sorted(types.items()):
        if len(places) > 1:
            problems.append(f"{len(places)} types are called {name}: {', '.join(places)}")
    return problems


def check_files():
    """Circles of files, and of rooms where there are no floors."""
    problems = []
    for source in ("src", "lab/src", "waits/src"):
        crate = Crate(ROOT / source)
        problems += ["a circle of files: " + " -> ".join(crate.name(module) for module in way + way[:1])
                     for way in crate.circles()]
        found = circle(crate.rooms()) if source != "src" else []
        if found:
            problems.append(f"a circle of rooms in {source}: " + " -> ".join(found))
    return problems


def picture(graph):
    width = max(len(room) for room in FLOOR_OF)
    lines = []
    for floor in reversed(range(len(FLOORS))):
        lines.append(f"floor {floor}")
        for room in FLOORS[floor]:
            below = sorted(graph[room], key=lambda other: (-FLOOR_OF[other], other))
            lines.append(f"  {room:{width}} -> {', '.join(below) if below else '(nothing)'}")
    return "\n".join(lines)


def main():
    graph, types, problems = read_house()
    print(picture(graph))
    if "--table" in sys.argv[1:]:
        return 0
    problems += check(graph, types) + check_files()
    if picture(graph) not in (ROOT / "docs/design.md").read_text():
        problems.append("docs/design.md shows other floors: replace its picture by scripts/floors.py --table")
    for problem in problems:
        print(f"floors: {problem}", file=sys.stderr)
    if not problems:
        count = sum(len(others) for others in graph.values())
        print(f"floors: {count} arrows, none goes up; no circle of rooms or files; {len(types)} types, no name twice")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
