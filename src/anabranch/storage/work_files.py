"""Work files of tasks: later attempts find them on any machine; they are removed after the job."""

from collections.abc import Callable
from pathlib import Path

from anabranch.canonical import Json
from anabranch.errors import Conflict, ContractViolationError, NotFound
from anabranch.storage.addresses import Address
from anabranch.storage.attempt_keys import attempt_key, parse_key, segment
from anabranch.storage.source_cache import Sources
from anabranch.storage.task_storage import Writer
from anabranch.storage.tiers import Storage

__all__ = ["WorkFiles"]


class WorkFiles:
    """`ctx.work`; its methods block, so an async handler calls them in a thread."""

    def __init__(self, storage: Storage, sources: Sources, writer: Writer, scratch: Callable[[], Path]) -> None:
        self._area = storage.work
        self._sources = sources
        self._writer = writer
        self._scratch = scratch

    def put(self, path: Path, name: str | None = None) -> dict[str, Json]:
        """Store a file whole under a key of this attempt; what a checkpoint or a result names it by, as JSON (W5)."""
        task = self._writer
        key = str(attempt_key(task.job_id, task.node, task.index, task.attempt, name or path.name))
        stored = self._area.upload(key, path)
        return {"key": key, "size": stored.size, "sha256": stored.sha256}

    def fetch(self, file: Json, *, cached: bool = False) -> Path | None:
        """A file that a task of this job put, in scratch; None where it is not there whole, and must be made again.

        A cached one is brought to this machine at most once, for all tasks that read it, and is read-only.
        """
        key, digest = self._read(file)
        place = self._scratch() / "work" / key
        place.parent.mkdir(parents=True, exist_ok=True)
        try:
            if cached:
                found = self._sources.fetch(self._area, Address("work", key), place, digest)
            else:
                found = self._area.download(key, place).sha256
        except (NotFound, Conflict):  # it is gone, or is not what was put
            return None
        return place if found == digest else None

    def require(self, file: Json) -> Path:
        """A file that an earlier task of this job put, in scratch; an error where it is gone."""
        path = self.fetch(file)
        if path is None:
            raise NotFound(
                "work.lost",
                f"the work file {self._read(file)[0]} of an earlier task is gone, or is damaged",
                remedy="Submit the job again with `--rerun`.",
            )
        return path

    def remove(self, file: Json) -> None:
        """Remove a file; a missing one is no error."""
        self._area.delete([self._read(file)[0]])

    def _read(self, file: Json) -> tuple[str, str]:
        """The key and the checksum of a file; a handler may name those of its own job only."""
        given = file if isinstance(file, dict) else {}
        key, digest = str(given.get("key")), str(given.get("sha256"))
        parsed = parse_key(key)
        if parsed is None or parsed.job != segment(self._writer.job_id):
            raise ContractViolationError(
                f"ctx.work was given {file!r}; it takes what ctx.work.put returned in this job"
            )
        return key, digest
