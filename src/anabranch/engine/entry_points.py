"""What installed packages bring by entry points: plugins, their settings and their error codes."""

import sys
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import (
    EntryPoint,
    EntryPoints,
    PackageNotFoundError,
    entry_points,
    packages_distributions,
    version,
)

__all__ = [
    "CODE_GROUP",
    "FOLDER_PREFIX",
    "NO_VERSION",
    "PLUGIN_GROUP",
    "SETTINGS_GROUP",
    "find_entry_points",
    "load_entry_points",
    "version_of",
]

PLUGIN_GROUP = "anabranch.plugins"  # a module or package with handlers and workflows
SETTINGS_GROUP = "anabranch.settings"  # a pydantic model; its fields begin with the name of the entry point
CODE_GROUP = "anabranch.codes"  # a tuple of `anabranch.codes.Code`
OWN_PREFIX = "anabranch."
NO_VERSION = "0"
FOLDER_PREFIX = "anabranch_plugin_"  # of the modules of plugin folders


def find_entry_points(group: str) -> list[EntryPoint]:
    """The entry points of a group: ours, then the others by name."""
    found = _find_entry_points(group, tuple(sys.path))
    return sorted(found, key=lambda point: (not point.value.startswith(OWN_PREFIX), point.name))


@cache
def _find_entry_points(group: str, _path: tuple[str, ...]) -> EntryPoints:
    """Those of the packages on a path; slow, because it reads the entry points of every distribution."""
    return entry_points(group=group)


def load_entry_points(group: str) -> Iterator[tuple[str, object]]:
    """The name and the value of each entry point; None for one that can't be imported, which stops no other (G5)."""
    for point in find_entry_points(group):
        try:
            yield point.name, point.load()
        except (Exception, SystemExit):  # noqa: BLE001  # a plugin's code may do anything when imported
            yield point.name, None


def version_of(module: str) -> str:
    """The version of the installed package that a module is in; 0 if it is in none."""
    return _version_of(module.partition(".")[0])


@cache
def _version_of(package: str) -> str:
    if package.startswith(FOLDER_PREFIX):
        return NO_VERSION
    try:
        return version(package)
    except (PackageNotFoundError, ValueError):
        found = _packages().get(package)
    return version(found[0]) if found else NO_VERSION


@cache
def _packages() -> Mapping[str, list[str]]:
    """What each top-level package was installed by; slow, because it reads what every distribution installed."""
    return packages_distributions()
