"""Keeps commands from removing or replacing what published items use."""

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from typing import Protocol

from anabranch.adapters.postgres.store.objects.audited import PostgresRecords
from anabranch.cli.connection import database_url
from anabranch.cli.setup import prepare
from anabranch.cli.terminal.output import note
from anabranch.errors import Conflict, Unavailable

__all__ = ["RequireUnpublished", "open_catalog"]


class RequireUnpublished(Protocol):
    """Raises Conflict, with an item, if published items use any of some objects."""

    def __call__(self, addresses: Sequence[str], /) -> None: ...


@contextmanager
def open_catalog() -> Iterator[RequireUnpublished]:
    """The check; if no database answers, it is not known what is published, and the command says so."""
    try:
        records = PostgresRecords(database_url(prepare(quiet=True)))
    except Unavailable:
        note("no database answers, so it is not checked whether published items use these objects")
        yield lambda _: None
        return
    with closing(records):
        yield partial(_require_unpublished, records)


def _require_unpublished(records: PostgresRecords, addresses: Sequence[str]) -> None:
    used = records.publishing_keys(addresses)
    if not used:
        return
    address, item = next(iter(used.items()))
    more = f", and {len(used) - 1} more objects are used by published items" if len(used) > 1 else ""
    raise Conflict("storage.published", f"{address} is used by the published item {item}{more}")
