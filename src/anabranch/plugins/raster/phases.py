"""The phases of a task on files: what an earlier attempt has finished is taken up where its files are whole (W5)."""

import os
import shutil
from collections.abc import Callable
from hashlib import file_digest
from pathlib import Path

from anabranch.engine.canonical import Json
from anabranch.engine.context import Context

__all__ = ["Phases"]


class Phases:
    """What is done of one task; each phase is kept with those before it."""

    def __init__(self, ctx: Context) -> None:
        """With what earlier attempts have left."""
        self._ctx = ctx
        point = ctx.resume()
        self._done: dict[str, Json] = dict(point.state) if point and isinstance(point.state, dict) else {}

    def done(self, phase: str) -> Json:
        """What a phase ended with; None where it has not."""
        return self._done.get(phase)

    def end(self, phase: str, state: Json) -> None:
        """Note that a phase has ended; Interrupted where the task is another attempt's by now."""
        self._done = {**self._done, phase: state}
        self._ctx.checkpoint(phase, self._done)

    def file(self, phase: str, make: Callable[[Path], Path]) -> Path:
        """The file that a phase makes in a folder of its own; one that is there and whole is not made again."""
        kept = self._done.get(phase)
        if isinstance(kept, dict) and (path := self._find(kept)):
            return path
        folder = self._ctx.work / f"{phase}-{self._ctx.attempt}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        made = make(folder)
        self.end(phase, {"path": str(made.relative_to(self._ctx.work)), "sha256": _hash(made)})
        return made

    def clear(self) -> None:
        """Remove the files of all phases: what came of them is elsewhere by now."""
        shutil.rmtree(self._ctx.work, ignore_errors=True)

    def _find(self, kept: dict[str, Json]) -> Path | None:
        path = self._ctx.work / str(kept["path"])
        return path if path.is_file() and _hash(path) == kept["sha256"] else None


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        os.fsync(file.fileno())
        return file_digest(file, "sha256").hexdigest()
