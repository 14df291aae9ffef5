"""Two items in the menu of an application in GNOME Files, which loads this where python3-nautilus is installed.

To be installed in /usr/share/nautilus-python/extensions.
"""

from gi.repository import Gio, GObject, Nautilus

PROGRAM = "/usr/bin/paralfetch"
TYPES = {
    "application/x-desktop",
    "application/x-executable",
    "application/x-pie-executable",
    "application/x-shellscript",
}
ITEMS = (
    ("enable", "Start Faster", "Read this application ahead whenever it is launched"),
    ("disable", "No Longer Start Faster", "Do not read this application ahead any more"),
)


class Paralfetch(GObject.GObject, Nautilus.MenuProvider):
    """The menu of one selected file."""

    def get_file_items(self, *arguments):
        # Before version 43, the window comes first.
        files = arguments[-1]
        if len(files) != 1 or files[0].get_mime_type() not in TYPES:
            return []
        path = files[0].get_location().get_path()
        if path is None:
            return []
        items = []
        for command, label, tip in ITEMS:
            item = Nautilus.MenuItem(name=f"Paralfetch::{command}", label=label, tip=tip)
            item.connect("activate", self.activate, command, path)
            items.append(item)
        return items

    def get_background_items(self, *_):
        # Without it, some versions warn.
        return []

    def activate(self, _item, command, path):
        # What became of it, the command itself shows.
        Gio.Subprocess.new([PROGRAM, command, "--notify", path], Gio.SubprocessFlags.NONE)
