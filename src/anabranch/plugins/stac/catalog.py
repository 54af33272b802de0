"""Publishing: our rows and pgstac in one transaction, one publisher of a collection at a time, and all is counted."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import psycopg
from psycopg import Connection
from psycopg.types.json import Jsonb

from anabranch.canonical import Json
from anabranch.engine.model import Attempt
from anabranch.errors import AnabranchError, Conflict, InputError, Interrupted, NotFound, Transient, Unavailable
from anabranch.plugins.stac.collection import CollectionFacts, build_collection, widen
from anabranch.plugins.stac.item import Origin, PublishedOutput
from anabranch.plugins.stac.names import check_collection_id, check_item_id
from anabranch.plugins.stac.validation import validate

__all__ = ["Publication", "Published", "ensure_collection", "find_origin", "publish", "run"]

SQL = Path(__file__).parent / "sql"
# Longer than a whole row of publishers takes, and shorter than the statement may.
LOCK_TIMEOUT = "50s"
BATCH = 500
PARTITION = '"_items_'
LOCKED = (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected)
ABSENT = (psycopg.errors.UndefinedTable, psycopg.errors.UndefinedFunction, psycopg.errors.InvalidSchemaName)
# What is wrong with the items themselves; anything else is wrong with the server, a failover for example.
REFUSALS = ("21", "22", "23", "54", "0A", "P0")
Work = Connection[Any]  # whatever its rows are made into


class PartitionChanged(Exception):
    """The partition no longer takes the items as it is: the whole catalog must be locked for them."""


@dataclass(frozen=True)
class Publication:
    """An item that is to be published, with the objects behind it; one that is not valid can't be made."""

    document: Mapping[str, Json]
    outputs: Sequence[PublishedOutput] = ()

    def __post_init__(self) -> None:
        """Hold it against the schemas, before a connection is open."""
        validate(self.document)
        check_item_id(self.id)

    @property
    def id(self) -> str:
        """The item's id."""
        return str(self.document["id"])


@dataclass(frozen=True)
class Published:
    """What a publication came to."""

    collection: str
    items: tuple[str, ...]
    changed: tuple[str, ...]


def ensure_collection(connection: Work, facts: CollectionFacts) -> bool:
    """Make a collection, or change what was said of it anew; whether anything changed."""
    document, said = build_collection(facts)
    validate(document)
    with _publishing(connection):
        told = {"document": Jsonb(document), "said": Jsonb(said)}
        ((stands, changed),) = run(connection, "ensure_collection", **told, alone=False)
        if stands is None or not _is_shown(connection, stands):
            ((stands, changed),) = run(connection, "ensure_collection", **told, alone=True)
            validate(stands)
            _show_collection(connection, stands)
    return bool(changed)


def publish(
    connection: Work,
    collection: str,
    job_id: str,
    publications: Sequence[Publication],
    attempt: tuple[str, Attempt] | None = None,
) -> Published:
    """Publish items, all or none. What is published already, as it is, stays untouched; what pgstac lost comes back.

    `attempt` is who publishes, with its node: Interrupted when it is not the current one, or the job has ended.
    """
    _check(collection, publications)
    ids = [publication.id for publication in publications]
    if not ids:
        return Published(collection, (), ())
    try:
        changed = _publish(connection, collection, job_id, publications, attempt, alone=False)
    except PartitionChanged:
        changed = _publish(connection, collection, job_id, publications, attempt, alone=True)
    return Published(collection, tuple(ids), tuple(changed))


def _publish(
    connection: Work,
    collection: str,
    job_id: str,
    publications: Sequence[Publication],
    attempt: tuple[str, Attempt] | None,
    *,
    alone: bool,
) -> list[str]:
    """Publish items in one transaction; those that changed."""
    ids = [publication.id for publication in publications]
    with _publishing(connection):
        document, first, changed = _record(connection, collection, job_id, publications, alone=alone)
        _require_current(connection, job_id, attempt)
        extent = widen(None if first else document["extent"], [publication.document for publication in publications])
        if extent != document["extent"]:
            ((document,),) = run(connection, "replace_extent", collection=collection, extent=Jsonb(extent))
        _show_collection(connection, document)
        wanted = {*changed, *_missing(connection, collection, ids)}
        _load(connection, [publication.document for publication in publications if publication.id in wanted])
        _count(connection, collection, ids)
    return changed


def _require_current(connection: Work, job_id: str, attempt: tuple[str, Attempt] | None) -> None:
    """Hold the job; after the lock on the catalog, so that it is not held while others publish."""
    if attempt is None:
        return
    node, ((lane, place), number, token) = attempt
    fence = {"job_id": job_id, "node": node, "attempt": number, "lane": lane, "place": place, "token": token}
    ((held,),) = run(connection, "hold_attempt", **fence)
    if not held:
        raise Interrupted("the task was cancelled, or others have it now", code="task.lost")


def find_origin(connection: Work, job_id: str) -> Origin:
    """The job with what it runs; the job alone where it is not known."""
    found = run(connection, "find_origin", job_id=job_id)
    return Origin(job_id, *found[0]) if found else Origin(job_id)


def run(connection: Work, query: str, **parameters: object) -> list[tuple[Any, ...]]:
    """The rows of one of the files in `sql/`."""
    # Never prepared: a plan for any collection would lock the partitions of all.
    return [_values(row) for row in connection.execute(_text(query), parameters, prepare=False).fetchall()]


def _check(collection: str, publications: Sequence[Publication]) -> None:
    check_collection_id(collection)
    seen = set()
    for publication in publications:
        if publication.id in seen:
            what = f"item {publication.id} is twice in one publication"
            raise InputError("catalog.item_twice", what, remedy="Give each item an id of its own.")
        if publication.document.get("collection") != collection:
            what = f"item {publication.id} belongs to collection {publication.document.get('collection')}"
            raise InputError(
                "catalog.other_collection", what, remedy=f"Publish it there, or build it for {collection}."
            )
        seen.add(publication.id)


def _record(
    connection: Work, collection: str, job_id: str, publications: Sequence[Publication], *, alone: bool
) -> tuple[Mapping[str, Any], bool, list[str]]:
    """Write our own rows; the collection's document, whether it was empty, and what changed."""
    items = [
        {"id": each.id, "document": each.document, "outputs": [asdict(output) for output in each.outputs]}
        for each in publications
    ]
    times = Jsonb([each.document["properties"] for each in publications])
    fits = not alone and run(connection, "fits_partition", collection=collection, times=times) == [(True,)]
    told = {"collection": collection, "job_id": job_id, "items": Jsonb(items), "alone": not fits}
    try:
        rows = run(connection, "publish_items", **told)
    except psycopg.errors.UniqueViolation as error:
        raise Conflict(
            "catalog.name_taken",
            f"two outputs of job {job_id} would have one name: {error.diag.message_detail}",
            remedy="Give the outputs names of their own.",
        ) from error
    if not rows:
        raise NotFound(
            "catalog.no_collection",
            f"there is no collection {collection}",
            remedy="Make it by `stac.ensure_collection`.",
        )
    if fits and run(connection, "fits_partition", collection=collection, times=times) != [(True,)]:
        raise PartitionChanged
    ((document, first, changed),) = rows
    return document, first, changed


def _show_collection(connection: Work, document: Mapping[str, Any]) -> None:
    if not _is_shown(connection, document):
        run(connection, "load_collection", document=Jsonb(document))


def _is_shown(connection: Work, document: Mapping[str, Any]) -> bool:
    ((same,),) = run(connection, "has_collection", document=Jsonb(document))
    return bool(same)


def _load(connection: Work, documents: Sequence[Mapping[str, Json]]) -> None:
    for start in range(0, len(documents), BATCH):
        run(connection, "load_items", items=Jsonb(documents[start : start + BATCH]))


def _missing(connection: Work, collection: str, ids: Sequence[str]) -> list[str]:
    return [found for (found,) in run(connection, "missing", collection=collection, ids=list(ids))]


def _count(connection: Work, collection: str, ids: Sequence[str]) -> None:
    if lost := _missing(connection, collection, ids):
        raise Transient(
            f"pgstac lost {len(lost)} of {len(ids)} items of collection {collection}, {lost[0]} among them",
            code="catalog.lost",
            remedy="Nothing was published; it is tried again.",
        )


@contextmanager
def _publishing(connection: Work) -> Iterator[None]:
    """One transaction; what is in its way is told in our words."""
    try:
        with connection.transaction():
            connection.execute("select set_config('lock_timeout', %s, true)", [LOCK_TIMEOUT])
            yield
    except psycopg.Error as error:
        raise _translate(error, collapsed=connection.closed) from error


def _translate(error: psycopg.Error, *, collapsed: bool) -> AnabranchError:
    said = error.diag.message_primary or str(error)
    # pgstac keeps it to itself when it could not get the lock to make a partition; then there is none.
    if isinstance(error, LOCKED) or (isinstance(error, ABSENT) and PARTITION in said):
        return Transient(f"others use the catalog, too: {said}", code="catalog.busy", remedy="It is tried again.")
    if isinstance(error, ABSENT) and not collapsed:
        remedy = "Run `anabranch db migrate`; it says what the server lacks."
        return Unavailable("catalog.missing", f"there is no catalog: {said}", remedy=remedy)
    if (error.sqlstate or "").startswith(REFUSALS) and not collapsed:
        remedy = "Mend what the items are made from; nothing was published."
        return InputError("catalog.refused", f"pgstac refused a publication: {said}", remedy=remedy)
    what = f"the database broke off a publication: {said}"
    return Transient(what, code="catalog.unreachable", remedy="Nothing was published; it is tried again.")


@cache
def _text(query: str) -> bytes:
    return (SQL / f"{query}.sql").read_bytes()


def _values(row: Any) -> tuple[Any, ...]:  # a tuple or a mapping, as the connection makes them
    return tuple(row.values()) if isinstance(row, Mapping) else tuple(row)
