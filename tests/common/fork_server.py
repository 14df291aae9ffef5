#!/usr/bin/env python3
"""A fork server in the manner of Android's zygote: preloads, forks, and the children become apps
without any execve.

    fork_server.py PLACE

PLACE is where to announce: launch.sock or fetch_app (docs/announce.md). The server prints "ready PID"
and then obeys lines on its standard input, each answered by lines on its standard output. Words are
split as a shell does, so that names of files can be quoted.

    preload ITEM...       imports modules; items with a slash are files, which are read
                          -> preloaded COUNT
    launch NAME FILE...   forks a child that announces itself as NAME (with "-": does not), then
                          reads the files from start to end, and stays
                          -> launched PID NAME
                          -> read PID BYTES MICROSECONDS
    read PID FILE...      has a child read more files
                          -> read PID BYTES MICROSECONDS
    announce PID NAME     sends this text for whatever process; PID 0 is the server itself
                          -> announced PID NAME
    end PID               lets a child exit and reaps it
                          -> ended PID

What cannot be done is answered with one line "error REASON", and in a child "error PID REASON". At the
end of its input the server lets all children exit. They also do when it is killed.
"""

import importlib
import os
import shlex
import socket
import stat
import sys
import time


def say(*words):
    # One write, so that the lines of several processes do not mix.
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def read_file(path):
    size = 0
    with open(path, "rb", buffering=0) as file:
        while piece := file.read(1 << 16):
            size += len(piece)
    return size


def announce(place, pid, name):
    if stat.S_ISFIFO(os.stat(place).st_mode):
        fifo = os.open(place, os.O_WRONLY | os.O_NONBLOCK)
        os.write(fifo, f"{pid or os.getpid()} {name}\n".encode())
        os.close(fifo)
    else:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as datagrams:
            datagrams.sendto(f"{pid} {name}".encode(), place)


def read_all(files):
    start = time.monotonic_ns()
    size = sum(map(read_file, files))
    say("read", os.getpid(), size, (time.monotonic_ns() - start) // 1000)


def live(place, name, files, wait, told):
    """The child: announces, reads, says so, and stays until the server closes its end."""
    try:
        if name != "-":
            announce(place, 0, name)
        read_all(files)
    except OSError as error:
        say("error", os.getpid(), error)
    os.close(told)
    with os.fdopen(wait) as orders:
        for order in orders:
            try:
                read_all(shlex.split(order))
            except OSError as error:
                say("error", os.getpid(), error)
    os._exit(0)


def launch(children, place, name, files):
    wait, release = os.pipe()
    done, told = os.pipe()
    pid = os.fork()
    if pid == 0:
        # Only the server may hold what children wait for the end of.
        for other in [release, done, *children.values()]:
            os.close(other)
        # The server's line about this process comes first.
        os.read(wait, 1)
        live(place, name, files, wait, told)
    os.close(wait)
    os.close(told)
    children[pid] = release
    say("launched", pid, name)
    os.write(release, b".")
    os.read(done, 1)
    os.close(done)


def end(children, pid):
    os.close(children.pop(pid))
    os.waitpid(pid, 0)


def obey(children, place, command, arguments):
    if command == "preload":
        for item in arguments:
            read_file(item) if "/" in item else importlib.import_module(item)
        say("preloaded", len(arguments))
    elif command == "launch":
        name, *files = arguments
        launch(children, place, name, files)
    elif command == "read":
        pid, *files = arguments
        os.write(children[int(pid)], (shlex.join(files) + "\n").encode())
    elif command == "announce":
        pid, name = arguments
        announce(place, int(pid), name)
        say("announced", pid, name)
    elif command == "end":
        (pid,) = arguments
        end(children, int(pid))
        say("ended", pid)
    else:
        say("error", "unknown command:", command)


def main():
    (place,) = sys.argv[1:]
    children = {}
    say("ready", os.getpid())
    for line in sys.stdin:
        try:
            command, *arguments = shlex.split(line)
            obey(children, place, command, arguments)
        except (OSError, ImportError, ValueError, KeyError) as error:
            say("error", type(error).__name__, error)
    for pid in list(children):
        end(children, pid)


if __name__ == "__main__":
    main()
