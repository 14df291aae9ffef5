#!/usr/bin/env python3
"""Checks that what the documentation names exists.

  scripts/check_docs.py

Files named in backticks or linked relatively from the pages in the root and docs/*.md exist; tests
named in the table of faults in docs/service.md exist under that name; dist/reference.md is what the source says.
Exits with 1 otherwise.
"""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", ROOT / "SECURITY.md",
         *sorted((ROOT / "docs").rglob("*.md"))]
# Written by the laboratory; they name files of the session.
GENERATED = {"report.md"}


def heading_id(heading):
    """As GitHub makes the fragment of a heading."""
    text = re.sub(r"[^\w\- ]", "", heading.strip().lower())
    return text.replace(" ", "-")


def headings(path):
    text = re.sub(r"(?ms)^```.*?^```", "", path.read_text())
    return {heading_id(match) for match in re.findall(r"(?m)^#+ (.*)$", text)}


def check_links(page):
    text = re.sub(r"(?ms)^```.*?^```", "", page.read_text())
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, fragment = target.partition("#")
        path = (page.parent / name).resolve() if name else page
        if not path.exists():
            yield f"links {target}, which does not exist"
        elif fragment and path.suffix == ".md" and fragment not in headings(path):
            yield f"links {target}, but there is no such heading"


def check_paths(page):
    for name in re.findall(r"`((?:src|tests|lab|waits|scripts|docs|dist|man|fuzz|packaging)/[\w./-]+)`", page.read_text()):
        if not (ROOT / name).exists():
            yield f"names {name}, which does not exist"


def check_tests():
    """Tests named in the table of faults."""
    sources = [path.read_text() for folder in ("src", "tests", "lab/src", "lab/tests", "waits/src")
               for path in (ROOT / folder).rglob("*.rs")]
    known = set(re.findall(r"\bfn (\w+)", "\n".join(sources)))
    for row in (ROOT / "docs/service.md").read_text().splitlines():
        if not row.startswith("|") or row.count("|") < 4:
            continue
        for name in re.findall(r"`([a-z0-9]+(?:_[a-z0-9]+){2,})`", row.split("|")[-2]):
            if name not in known:
                yield f"names the test {name}, which does not exist"


def check_reference():
    made = subprocess.run([ROOT / "scripts/reference.sh"], stdout=subprocess.PIPE, text=True, check=False)
    if made.returncode != 0:
        yield "cannot be made: see above"
    elif made.stdout != (ROOT / "dist/reference.md").read_text():
        yield "is out of date: scripts/reference.sh >dist/reference.md"


def main():
    problems = []
    for page in PAGES:
        if page.name in GENERATED:
            continue
        for problem in [*check_links(page), *check_paths(page)]:
            problems.append(f"{page.relative_to(ROOT)} {problem}")
    problems += [f"docs/service.md {problem}" for problem in check_tests()]
    problems += [f"dist/reference.md {problem}" for problem in check_reference()]
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
