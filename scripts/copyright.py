#!/usr/bin/env python3
"""Writes packaging/debian/copyright: who has the copyright of what the program is made of (DEP-5).

  scripts/copyright.py              after a change of Cargo.lock or packaging/copyright.in
  scripts/copyright.py --check      fails if the file is out of date

It is packaging/copyright.in with a paragraph for each crate that is linked into the program, with the
copyright lines of the crate's own files and the licence that it names. The crates are those of Cargo.lock: cargo has
them, since it has built the program, and no network is asked. Fails where a crate names a licence that is
neither explained here nor in copyright.in.
"""

import os
import pathlib
import re
import subprocess
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
HEAD = ROOT / "packaging/copyright.in"
FILE = ROOT / "packaging/debian/copyright"
# In the texts of licences: sentences about copyright, places to fill in, and who has written the licence.
NOBODY = re.compile(r"[Ll]icen[cs]e|\[yyyy\]|\bHolder|Free Software Foundation")
# Under which licence a crate is used that offers several, the first that it offers of these; as Debian calls them.
CHOICE = {"MIT": "Expat", "BSD-2-Clause": "BSD-2-clause", "Unicode-3.0": "Unicode-3.0", "Apache-2.0": "Apache-2.0",
          "Zlib": "Zlib", "BSD-3-Clause": "BSD-3-clause", "ISC": "ISC"}


def linked_crates():
    """Each crate that the program is linked with: name, version, folder, licence and address."""
    tree = subprocess.run(
        [os.environ.get("CARGO", "cargo"), "tree", "--package", "paralfetch", "--edges", "normal,no-proc-macro",
         "--target", "x86_64-unknown-linux-gnu", "--prefix", "none", "--no-dedupe", "--format", "{p}|{l}|{r}", "--locked", "--offline",
         "--manifest-path", str(ROOT / "Cargo.toml")],
        check=True, stdout=subprocess.PIPE, text=True).stdout
    crates = []
    for line in sorted(set(tree.splitlines())):
        package, licence, address = line.split("|")
        name, version = package.split()[:2]
        if name != "paralfetch":
            crates.append(Crate(name, version.removeprefix("v"), licence, address))
    return crates


class Crate:
    """A crate in cargo's registry."""

    def __init__(self, name, version, licence, address):
        self.name, self.version, self.licence = name, version, licence
        self.address = address or f"https://crates.io/crates/{name}"
        home = pathlib.Path(os.environ.get("CARGO_HOME", pathlib.Path.home() / ".cargo"))
        folders = sorted(home.glob(f"registry/src/*/{name}-{version}"))
        if not folders:
            sys.exit(f"copyright: the sources of {name} {version} are not below {home}: build the program first")
        self.folder = folders[0]

    def authors(self):
        manifest = tomllib.loads((self.folder / "Cargo.toml").read_text())
        return [without_address(author) for author in manifest["package"].get("authors", [])]


def without_address(name):
    return re.sub(r"\s*<.*?>", "", name)


def copyright_lines(crate):
    """Who has the copyright, from the crate's files about it; its authors if those name nobody."""
    found = []
    for path in sorted(crate.folder.iterdir()):
        if not re.match(r"(?i)(licen[cs]e|copying|copyright|notice)", path.name) or not path.is_file():
            continue
        for line in path.read_text(errors="replace").splitlines():
            match = re.match(r"\s*(?:Portions? )?Copyright\s+(?:\([cC]\)\s*|©\s*)?(.*\S)", line)
            # The texts of licences speak of copyright, too, and have places to fill in.
            if match and re.match(r"[\dA-Z]", match[1]) and not NOBODY.search(match[1]):
                found.append(without_address(match[1]))
    return list(dict.fromkeys(found)) or crate.authors() or [f"the authors of {crate.name}"]


def licence(crate):
    """What the crate is used under: of each choice ("or") one licence."""
    chosen = []
    for choice in re.split(r"\s+AND\s+", crate.licence.replace("/", " OR ")):
        offered = re.split(r"\s+OR\s+", choice.strip("() "))
        taken = next((CHOICE[name] for name in CHOICE if name in offered), None)
        if not taken:
            sys.exit(f"copyright: {crate.name} has the licence '{crate.licence}': choose one in {sys.argv[0]}")
        chosen.append(taken)
    return " and ".join(chosen)


def paragraph(crate):
    return "\n".join([f"Files: crates/{crate.name}-{crate.version}/*",
                      "Copyright: " + "\n           ".join(copyright_lines(crate)), f"License: {licence(crate)}",
                      f"Comment: linked into the program; offered as {crate.licence}; {crate.address}"])


def main():
    head = HEAD.read_text().rstrip()
    crates = linked_crates()
    paragraphs = [paragraph(crate) for crate in crates]
    explained = set(re.findall(r"(?m)^License: (\S.*)$", head))
    for crate in crates:
        for name in licence(crate).split(" and "):
            if name not in explained:
                sys.exit(f"copyright: {crate.name} has the licence {name}: add its text to {HEAD.name}")
    # The texts of licences stand at the end.
    files, texts = head.split("\n\nLicense: ", 1)
    text = "\n\n".join([files, *paragraphs, "License: " + texts]) + "\n"
    if sys.argv[1:] != ["--check"]:
        FILE.write_text(text)
    elif not FILE.exists() or FILE.read_text() != text:
        sys.exit(f"copyright: {FILE.relative_to(ROOT)} is out of date: run scripts/copyright.py")
    else:
        print(f"copyright: {len(crates)} crates are named")


if __name__ == "__main__":
    main()
