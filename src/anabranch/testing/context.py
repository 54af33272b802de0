"""A context for tests of handlers, without a worker or a database."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from pydantic import BaseModel

from anabranch.adapters.objects.tiers import Place, open_storage
from anabranch.canonical import Json, JsonObject
from anabranch.engine.model import Checkpoint, ProgressReport
from anabranch.engine.worker.context import Context, TaskFacts
from anabranch.engine.worker.handler_resources import HandlerResources, NoDatabase
from anabranch.enums import DEFAULT_PLATFORM
from anabranch.manifests.signing_key import FILE_NAME
from anabranch.storage.locations import AREAS
from anabranch.storage.read_access import ReadRights
from anabranch.storage.tiers import Storage

__all__ = ["FakeContext"]


class _Link:
    """Records what a handler reports to its worker."""

    def __init__(self) -> None:
        self.cancelled = False
        self.stopping = False
        self.reports: list[dict[str, Json]] = []

    def progress(self, progress: ProgressReport) -> None:
        self.reports.append({**vars(progress)})

    def save(self, phase: str, state: str) -> None:
        """It is durable at once."""


class _AllReadable(NoDatabase):
    """No database; a task may read every object."""

    def find_rights(self, platform: str, job_id: str, tier: str, keys: Sequence[str]) -> ReadRights:
        """All of them."""
        return ReadRights(files={f"{tier}://{key}": None for key in keys})


class FakeContext(Context):
    """The context of one attempt: real tiers, scratch and work files in a folder; progress and checkpoints are kept.

    `settings` are those of plugins. `ctx.database()` and `ctx.geo` raise: use a real PostgreSQL in such a test.
    """

    def __init__(
        self,
        folder: Path,
        *,
        params: JsonObject | None = None,
        settings: Sequence[BaseModel] = (),
        index: int | str = 0,
        attempt: int = 1,
        checkpoint: Checkpoint | None = None,
        predecessor: Json = None,
        metadata: JsonObject | None = None,
    ) -> None:
        """A task of the node `node` of the job `job`; a predecessor is the result of the stage before."""
        facts = TaskFacts(
            job_id="job",
            task_id=f"job-node-{index}",
            node_id="node",
            index=index,
            attempt=attempt,
            params=params or {},
            correlation_id="test",
            predecessor=None if predecessor is None else [predecessor],
            scratch=str(folder / "scratch" / f"{index}-{attempt}"),
            checkpoint=checkpoint,
            metadata=metadata,
            platform=DEFAULT_PLATFORM,
        )
        places = [Place(area, (folder / area).as_uri()) for area in AREAS]
        opened = partial(open_storage, places, folder / "incoming")
        self._link = _Link()
        resources = HandlerResources(
            opened, _AllReadable(), folder / "cache", 2**30, settings, signing_key=folder / FILE_NAME
        )
        super().__init__(facts, self._link, resources)
        self._folder = folder

    @property
    def tiers(self) -> Storage:
        """The tiers, to put sources into and to read outputs from."""
        return self._resources.storage

    @property
    def reports(self) -> list[dict[str, Json]]:
        """What the handler said by `ctx.progress`, the oldest first."""
        return self._link.reports

    def cancel(self) -> None:
        """Set `ctx.cancelled`."""
        self._link.cancelled = True

    def stop(self) -> None:
        """Set `ctx.stopping`."""
        self._link.stopping = True

    def next_attempt(self) -> "FakeContext":
        """The context of the next attempt: the same files and the last checkpoint, another scratch."""
        return FakeContext(
            self._folder,
            params=dict(self.params),
            settings=self._resources.settings,
            index=self.index,
            attempt=self.attempt + 1,
            checkpoint=self.resume(),
            predecessor=self.predecessor() if self.has_predecessor() else None,
            metadata=dict(self.metadata),
        )
