"""The resources of handlers; pickled for the processes that run them, and opened there."""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from pydantic import BaseModel

from anabranch.engine.worker.geo_library import GeoLibrary
from anabranch.errors import ContractViolationError
from anabranch.storage.read_access import ReadRights
from anabranch.storage.source_cache import Sources
from anabranch.storage.tiers import Storage

if TYPE_CHECKING:
    from anabranch.engine.worker.context import Context

__all__ = ["NO_RESOURCES", "Connections", "HandlerResources", "NoDatabase"]


class Connections(Protocol):
    """Short connections of psycopg's, which the engine does not know."""

    def __call__(self) -> AbstractContextManager[Any]:
        """A connection in a transaction."""

    def publishing(self) -> AbstractContextManager[Any]:
        """The same for plugins that publish."""

    def publishing_if_free(self) -> AbstractContextManager[Any]:
        """The same, or None where it would have to wait."""

    def connection(self) -> AbstractAsyncContextManager[Any]:
        """The same as the first for async handlers."""

    def find_rights(self, platform: str, job_id: str, tier: str, keys: Sequence[str]) -> ReadRights:
        """The rights of a job on some objects of a tier."""


def _no_geo(_: "Context") -> GeoLibrary:
    raise ContractViolationError("ctx.geo: the process that runs this handler was given no database")


@dataclass
class HandlerResources:
    """Storage, connections to the database, a cache of sources, the settings of plugins, the key that signs, what
    publishes tables, and the URL of the API as readers know it.

    Secrets travel in it and not by the environment. All functions must be such as can be pickled; the cache is a
    folder that processes of a machine share.
    """

    open_storage: Callable[[], Storage] = field(repr=False)
    database: Connections = field(repr=False)
    cache: Path
    cache_bytes: int
    settings: Sequence[BaseModel] = field(default=(), repr=False)
    signing_key: Path | None = None
    open_geo: "Callable[[Context], GeoLibrary]" = field(default=_no_geo, repr=False)
    public_url: str | None = None

    def __getstate__(self) -> dict[str, object]:
        """Open stores stay in their process."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    @cached_property
    def storage(self) -> Storage:
        """The tiers, opened when they are first asked for in a process."""
        return self.open_storage()

    @cached_property
    def sources(self) -> Sources:
        """The cache of what was fetched."""
        return Sources(self.cache, self.cache_bytes)


def _no_storage() -> Storage:
    raise ContractViolationError("ctx.storage: the process that runs this handler was given no storage")


class NoDatabase:
    """For processes and tests whose handlers get no database."""

    def __call__(self) -> AbstractContextManager[Any]:
        """Refused."""
        raise ContractViolationError("ctx.database: the process that runs this handler was given no database")

    def publishing(self) -> AbstractContextManager[Any]:
        """Refused."""
        raise ContractViolationError("ctx.catalog: the process that runs this handler was given no database")

    publishing_if_free = publishing

    def connection(self) -> AbstractAsyncContextManager[Any]:
        """Refused."""
        raise ContractViolationError("ctx.pool: the process that runs this handler was given no database")

    def find_rights(self, platform: str, job_id: str, tier: str, keys: Sequence[str]) -> ReadRights:
        """None: such a task reads the outputs of its job, and the uploads of its platform."""
        return ReadRights()


NO_RESOURCES = HandlerResources(_no_storage, NoDatabase(), Path("cache"), 0)
