"""The plugins of a running stack: those it was started without, and those whose code changes."""

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from signal import SIGTERM
from threading import Thread
from time import sleep

from anabranch.cli.terminal.output import note
from anabranch.embedded.home import Home
from anabranch.embedded.processes import send
from anabranch.engine.plugin_folders import is_folder
from anabranch.errors import AnabranchError, NotFound

__all__ = ["PluginWatcher", "explain_missing_plugins", "spell_plugins"]

POLL_SECONDS = 1.0
SOURCE_SUFFIXES = {".py", ".yaml", ".yml", ".sql"}


def spell_plugins(plugins: Sequence[str]) -> tuple[str, ...]:
    """The plugins as a stack records them: folders with their whole path."""
    return tuple(str(Path(one).expanduser().resolve()) if is_folder(one) else one for one in plugins)


def explain_missing_plugins(error: AnabranchError, home: Home) -> AnabranchError:
    """The error that there is no such workflow, with the plugins that the running stack lacks, if it lacks some."""
    from anabranch.settings import load_settings

    stack = home.read_stack()
    missing = set(spell_plugins(load_settings().plugins)) - set(stack.plugins) if stack else ()
    if not missing:
        return error
    names = ", ".join(sorted(missing))
    return NotFound(
        "workflow.not_found",
        f"{error.message}; the running stack was started without plugin {names}",
        remedy="Restart it with `anabranch down` and `anabranch up --detach`.",
    )


class PluginWatcher:
    """Ends the processes of a stack when the code of its plugins has changed; the supervisor starts them again."""

    def __init__(self, home: Home, plugins: Sequence[str]) -> None:
        self._home = home
        self._folders = [folder for plugin in plugins if (folder := _find_folder(plugin))]
        self._seen = self._look()

    def start(self) -> None:
        """Look once a second, in a thread of its own."""
        Thread(target=self._watch, name="plugins", daemon=True).start()

    def restart_if_changed(self) -> bool:
        """Look once; whether a file has changed, was added or removed."""
        found = self._look()
        if found == self._seen:
            return False
        changed = sorted(path.name for path in {path for path, _ in found ^ self._seen})
        note(f"restarting: {', '.join(changed)} changed")
        self._seen = found
        stack = self._home.read_stack()
        for child in stack.children if stack else ():
            send(child.process, SIGTERM)
        return True

    def _watch(self) -> None:
        while True:
            sleep(POLL_SECONDS)
            self.restart_if_changed()

    def _look(self) -> frozenset[tuple[Path, int]]:
        files = (path for folder in self._folders for path in folder.rglob("*") if path.suffix in SOURCE_SUFFIXES)
        return frozenset((path, stamp) for path in files if (stamp := _read_stamp(path)))


def _find_folder(plugin: str) -> Path | None:
    """The folder of a plugin's code."""
    if is_folder(plugin):
        return Path(plugin).expanduser()
    try:
        spec = importlib.util.find_spec(plugin)
    except ImportError:
        return None
    return Path(spec.origin).parent if spec and spec.origin else None


def _read_stamp(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:  # an editor replaces it at this moment
        return 0
