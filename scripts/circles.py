#!/usr/bin/env python3
"""Finds circles of more than two files in a crate: each names something of the next, the last one of the first.

  scripts/circles.py [SOURCE…]      (without: src, lab/src and waits/src)

A name counts where it is declared, not where a module passes it on (`pub use`). Tests do not count, nor do methods,
which no path names. Exits with 1 if there is a circle.
"""

import collections
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SOURCES = ("src", "lab/src", "waits/src")
# What stands before a name where it is declared.
DECLARES = r"\b(?:fn|struct|enum|union|trait|const|static|type|macro_rules!|mod)\s+(?:mut\s+)?"


def without_tests(text):
    """The text without comments, strings and modules of tests, which stand last in a file."""
    text = re.sub(r"(?m)//.*$", "", text)
    text = re.sub(r"pub\(in [^)]*\)", "pub", text)
    text = re.sub(r'"(?:[^"\\]|\\.)*"', '""', text)
    return re.split(r"#\[cfg\(test\)\]\s*(?:pub(?:\([^)]*\))? )?mod \w+ \{", text)[0]


def leaves(tree):
    """The paths of a `use` as (path, name in the file), with braces resolved."""
    tree = tree.strip()
    brace = tree.find("{")
    if brace < 0:
        path, _, name = tree.partition(" as ")
        parts = [part.strip() for part in path.split("::") if part.strip()]
        if parts and parts[-1] == "self":
            parts.pop()
        if parts:
            yield parts, name.strip() or parts[-1]
        return
    before, depth, item = tree[:brace], 0, ""
    for char in tree[brace + 1:tree.rindex("}")] + ",":
        if char == "," and depth == 0:
            if item.strip():
                yield from leaves(before + item.strip())
            item = ""
            continue
        depth += {"{": 1, "}": -1}.get(char, 0)
        item += char


class Crate:
    """The modules of a crate, with what each declares and uses."""

    def __init__(self, source):
        self.files, self.texts, self.uses = {}, {}, {}
        tests = set()
        for path in sorted(source.rglob("*.rs")):
            parts = path.relative_to(source).with_suffix("").parts
            module = parts[:-1] if parts[-1] in ("mod", "lib", "main") else parts
            if parts == ("main",):
                continue
            whole = path.read_text()
            tests |= {module + (name,) for name in re.findall(r"#\[cfg\(test\)\]\s*(?:pub(?:\([^)]*\))? )?mod (\w+);", whole)}
            self.files[module] = path
            self.texts[module] = without_tests(whole)
        for module in list(self.files):
            if any(module[:len(test)] == test for test in tests):
                del self.files[module], self.texts[module]
        for module, text in self.texts.items():
            trees = re.findall(r"(?m)^\s*(?:pub(?:\([^)]*\))? )?use ([^;]+);", text)
            self.uses[module] = {name: parts for tree in trees for parts, name in leaves(tree)}

    def resolve(self, module, parts, depth=0):
        """The module that declares what a path in a module names, and the path's rest; None of another crate's."""
        if depth > 20 or not parts:
            return None
        at, rest = module, list(parts)
        if rest[0] == "crate":
            at, rest = (), rest[1:]
        elif rest[0] in ("super", "self"):
            while rest and rest[0] in ("super", "self"):
                at = at[:-1] if rest[0] == "super" else at
                rest = rest[1:]
        elif at + (rest[0],) not in self.files and rest[0] not in self.uses[at]:
            return None
        while rest and at + (rest[0],) in self.files:
            at, rest = at + (rest[0],), rest[1:]
        if at not in self.files:
            return None
        passed_on = rest and self.uses[at].get(rest[0])
        if passed_on and passed_on != rest and not re.search(rf"{DECLARES}{rest[0]}\b", self.texts[at]):
            return self.resolve(at, passed_on + rest[1:], depth + 1)
        return at, rest

    def arrows(self):
        """For each file, those that it names something of."""
        graph = collections.defaultdict(set)
        for module, text in self.texts.items():
            body = re.sub(r"(?m)^\s*(?:pub(?:\([^)]*\))? )?(?:use [^;]+|mod \w+);", "", text)
            paths = [path.split("::") for path in re.findall(r"\b\w+(?:::\w+)+", body)]
            names = set(re.findall(r"\b\w+\b", body))
            named = [parts for name, parts in self.uses[module].items() if name in names]
            for parts in paths + named:
                found = self.resolve(module, parts)
                # A module alone is named for what is taken from it, by a path of its own.
                if found and found[0] != module and (found[1] or parts in paths):
                    graph[module].add(found[0])
        return graph

    def circles(self):
        """Circles of three and more: from each arrow the shortest way back that is not the arrow turned round."""
        graph, found = self.arrows(), {}
        for start in list(graph):
            for following in sorted(graph[start]):
                ways, seen = collections.deque([[start, following]]), {following}
                while ways:
                    way = ways.popleft()
                    for after in sorted(graph[way[-1]] - seen):
                        if after == start and len(way) > 2:
                            found.setdefault(frozenset(way), way)
                            ways.clear()
                            break
                        if after != start:
                            seen.add(after)
                            ways.append(way + [after])
        return sorted(found.values(), key=len)

    def name(self, module):
        """A module's file, from the root of the repository."""
        return str(self.files[module].relative_to(ROOT))

    def room(self, module):
        """The folder that a module lies in; the module itself if that is the crate's."""
        return module[0] if module else "lib"

    def rooms(self):
        """For each room, those of which its files name something."""
        graph = {self.room(module): set() for module in self.files}
        for module, others in self.arrows().items():
            graph[self.room(module)] |= {self.room(other) for other in others} - {self.room(module), "lib"}
        return graph


def main():
    count = 0
    for crate in [Crate(ROOT / source) for source in sys.argv[1:] or SOURCES]:
        for way in crate.circles():
            count += 1
            print(" -> ".join(crate.name(module) for module in way + way[:1]))
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
