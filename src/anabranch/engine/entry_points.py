"""What installed packages bring by entry points: plugins, their settings and their error codes."""

from collections.abc import Iterator
from importlib.metadata import EntryPoint, entry_points

__all__ = ["CODE_GROUP", "PLUGIN_GROUP", "SETTINGS_GROUP", "find_entry_points", "load_entry_points"]

PLUGIN_GROUP = "anabranch.plugins"  # a module or package with handlers and workflows
SETTINGS_GROUP = "anabranch.settings"  # a pydantic model; its fields begin with the name of the entry point
CODE_GROUP = "anabranch.codes"  # a tuple of `anabranch.codes.Code`
OWN_PREFIX = "anabranch."


def find_entry_points(group: str) -> list[EntryPoint]:
    """The entry points of a group: ours, then the others by name."""
    return sorted(entry_points(group=group), key=lambda point: (not point.value.startswith(OWN_PREFIX), point.name))


def load_entry_points(group: str) -> Iterator[tuple[str, object]]:
    """The name and the value of each entry point; None for one that can't be imported, which stops no other (G5)."""
    for point in find_entry_points(group):
        try:
            yield point.name, point.load()
        except (Exception, SystemExit):  # noqa: BLE001  # a plugin's code may do anything when imported
            yield point.name, None
