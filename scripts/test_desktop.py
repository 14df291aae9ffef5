#!/usr/bin/env python3
"""Checks what is installed for desktops: the menus of file managers, and the units of users.

  scripts/test_desktop.py

The validators know applications alone, so they get copies that say to be one. The extension for GNOME Files runs with a
stand-in for that. What needs a program that is not installed is skipped, and said.
"""

import configparser
import pathlib
import runpy
import shutil
import subprocess
import sys
import tempfile
import types

ROOT = pathlib.Path(__file__).resolve().parent.parent
DESKTOP = ROOT / "dist/desktop"
PROGRAM = "/usr/bin/paralfetch"
COMMANDS = ["enable", "disable"]
UNIT = ROOT / "dist/paralfetch-notify.service"


def fail(why):
    sys.exit(f"error: {why}")


def check(what, found, wanted):
    if found != wanted:
        fail(f"{what}: {found!r} instead of {wanted!r}")


def run(*command, **options):
    """Runs a validator, whose last argument is the file; skips it where it is missing. Not all fail for what they say."""
    if shutil.which(command[0]) is None:
        print(f"warning: SKIPPED: {command[0]} is not installed", file=sys.stderr)
        return
    ran = subprocess.run(command, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    if ran.returncode or command[-1].name in ran.stdout:
        fail(f"{command[0]}: {ran.stdout.strip() or ran.returncode}")


def groups(name):
    """The groups of a file of the kind of .desktop files."""
    parsed = configparser.ConfigParser(interpolation=None, delimiters="=", comment_prefixes="#")
    parsed.optionxform = str
    parsed.read_string((DESKTOP / name).read_text())
    return parsed


def validate(name, foreign, directory):
    """`foreign`: keys of the main group that no application has."""
    parsed = groups(name)
    main = parsed["Desktop Entry"]
    for key in foreign:
        del main[key]
    main["Type"] = "Application"
    main["Exec"] = "true"
    copy = pathlib.Path(directory) / name
    with copy.open("w", encoding="utf-8") as file:
        parsed.write(file, space_around_delimiters=False)
    run("desktop-file-validate", copy)


def exec_line(command):
    return f"{PROGRAM} {command} --notify %f"


def dolphin(directory):
    """Labels by command, and the kinds of files."""
    validate("dolphin.desktop", ["X-KDE-RequiredNumberOfUrls"], directory)
    parsed = groups("dolphin.desktop")
    check("dolphin.desktop: Type", parsed["Desktop Entry"]["Type"], "Service")
    check("dolphin.desktop: Actions", parsed["Desktop Entry"]["Actions"], ";".join(COMMANDS) + ";")
    labels = {}
    for command in COMMANDS:
        action = parsed[f"Desktop Action {command}"]
        check(f"dolphin.desktop: {command}", action["Exec"], exec_line(command))
        labels[command] = action["Name"]
    return labels, set(parsed["Desktop Entry"]["MimeType"].rstrip(";").split(";"))


def file_manager_action(command, directory):
    """Label and kinds of files of an action by DES-EMA."""
    name = f"{command}.desktop"
    validate(name, ["Profiles"], directory)
    parsed = groups(name)
    check(f"{name}: Type", parsed["Desktop Entry"]["Type"], "Action")
    profile = parsed["X-Action-Profile " + parsed["Desktop Entry"]["Profiles"].rstrip(";")]
    check(f"{name}: Exec", profile["Exec"], exec_line(command))
    return parsed["Desktop Entry"]["Name"], set(profile["MimeTypes"].rstrip(";").split(";"))


class Item:
    """Nautilus.MenuItem"""

    def __init__(self, name, label, tip):
        self.name, self.label, self.tip = name, label, tip

    def connect(self, signal, handler, *arguments):
        check("nautilus.py: signal", signal, "activate")
        self.activate = lambda: handler(self, *arguments)


class SelectedFile:
    """Nautilus.FileInfo and its Gio.File"""

    def __init__(self, mime_type, path):
        self.mime_type, self.path = mime_type, path

    def get_mime_type(self):
        return self.mime_type

    def get_location(self):
        return self

    def get_path(self):
        return self.path


def nautilus(mime_types):
    """Labels by command, which GNOME Files gets for each of these kinds of files."""
    started = []
    repository = types.ModuleType("gi.repository")
    repository.GObject = types.SimpleNamespace(GObject=type("GObject", (), {}))
    repository.Nautilus = types.SimpleNamespace(MenuProvider=type("MenuProvider", (), {}), MenuItem=Item)
    repository.Gio = types.SimpleNamespace(
        SubprocessFlags=types.SimpleNamespace(NONE=0),
        Subprocess=types.SimpleNamespace(new=lambda command, flags: started.append((command, flags))),
    )
    sys.modules.update({"gi": types.ModuleType("gi"), "gi.repository": repository})
    extension = runpy.run_path(str(DESKTOP / "nautilus.py"))["Paralfetch"]()
    path = "/home/a b/-x;.desktop"
    for mime_type in mime_types:
        files = [SelectedFile(mime_type, path)]
        items = extension.get_file_items(files)
        # As versions before 43 call it.
        check("nautilus.py: items", len(extension.get_file_items("window", files)), len(items))
        for item in items:
            item.activate()
    check("nautilus.py: commands", started,
          [([PROGRAM, command, "--notify", path], 0) for _ in mime_types for command in COMMANDS])
    app = SelectedFile("application/x-desktop", path)
    remote = SelectedFile("application/x-desktop", None)
    for others in ([], [app, app], [remote], [SelectedFile("text/plain", path)]):
        check("nautilus.py: items for other files", extension.get_file_items(others), [])
    check("nautilus.py: items for a directory", extension.get_background_items(None), [])
    return {command: item.label for command, item in zip(COMMANDS, items)}


def verify_unit(directory):
    """As of a user whose session has no units, with a program that is there."""
    copy = pathlib.Path(directory) / UNIT.name
    copy.write_text(UNIT.read_text().replace(PROGRAM, "/bin/true"))
    run("systemd-analyze", "verify", "--user", "--man=no", copy, env={"XDG_RUNTIME_DIR": directory, "PATH": "/usr/bin:/bin"})


def main():
    with tempfile.TemporaryDirectory() as directory:
        labels, mime_types = dolphin(directory)
        for command in COMMANDS:
            check(f"{command}.desktop", file_manager_action(command, directory), (labels[command], mime_types))
        in_files = nautilus(sorted(mime_types))
        check("nautilus.py: labels", in_files, labels)
        verify_unit(directory)
    print("==> The menus and units for desktops are right")


main()
