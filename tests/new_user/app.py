#!/usr/bin/python3
# The app: as programs with large libraries do, it maps files and uses a few pages of each; others it reads.
import mmap
import pathlib

data = pathlib.Path(__file__).parent / "data"
for path in sorted(data.glob("*.bin")):
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped:
        # Each is the only one that is used of what the kernel reads around it.
        for page in (5, 40):
            mapped[page * mmap.PAGESIZE]
for path in sorted(data.glob("*.txt")):
    path.read_bytes()
