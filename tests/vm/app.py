#!/usr/bin/python3
# The app: modules in C with their libraries, pure ones, and a data file of which it reads parts.
import os
import sys
import asyncio, bz2, ctypes, decimal, email.message, hashlib, http.client, json, lzma, sqlite3, ssl
import unittest, xml.dom.minidom

ssl.create_default_context()
sqlite3.connect(":memory:").execute("create table t (a)")
data = os.open("/opt/data", os.O_RDONLY)
for page in range(0, 1024, 3):
    os.pread(data, 100, page * 4096)
if "hold" in sys.argv:
    import mmap
    held = mmap.mmap(data, 0, mmap.MAP_SHARED | mmap.MAP_POPULATE, mmap.PROT_READ)
    print("holding", flush=True)
    sys.stdin.read()
