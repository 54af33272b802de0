"""Publishes checked items in bulk, a few thousand at a time; what can't be published is refused alone."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import orjson

from anabranch.canonical import JsonObject
from anabranch.engine.model import Attempt
from anabranch.errors import AnabranchError, Conflict, InputError, NotFound
from anabranch.garbage_collection import without_collector
from anabranch.plugins.stac import catalog
from anabranch.plugins.stac.collection import CollectionFacts
from anabranch.plugins.stac.facts import ItemReference
from anabranch.plugins.stac.ingest.records import Place, Record, Refused
from anabranch.plugins.stac.manifest import Manifest

__all__ = ["Job", "Loaded", "find_collections", "load_items"]

FOREIGN = "publication.owner"


class GivenCollection(NamedTuple):
    """A collection to store, and where it comes from."""

    place: Place
    document: JsonObject


class Entry(NamedTuple):
    """An item to publish, and where it comes from."""

    place: Place
    publication: catalog.Publication


@dataclass(frozen=True)
class Job:
    """The job that publishes: its connections, its fence, its reason, and how it signs an item of a place."""

    job_id: str
    database: Callable[[], AbstractContextManager[Any]]  # connections of psycopg's
    sign: Callable[[ItemReference, Place], Manifest]
    attempt: tuple[str, Attempt] | None = None
    reason: str | None = None


@dataclass
class Loaded:
    """What became of the documents of an ingest; what is refused is handed on at once, for it may be much."""

    refuse: Callable[[Refused], object]
    collections: int = 0
    accepted: int = 0
    changed: int = 0
    unchanged: int = 0
    duplicates: int = 0


def find_collections(records: Iterable[Record], only: str | None, loaded: Loaded) -> dict[str, GivenCollection]:
    """The collections to store, by id: those of the source, or only the one that all items join."""
    given = _first_of_each(records, loaded, "collection")
    found = {reference.id: GivenCollection(place, document) for place, reference, document in given}
    loaded.collections = len(found)
    return {name: collection for name, collection in found.items() if only in (None, name)}


def load_items(
    records: Iterable[Record],
    job: Job | None,
    collections: Mapping[str, GivenCollection],
    loaded: Loaded,
    progress: Callable[[int], None],
) -> None:
    """Publish items as they come, the first of each id; without a job only find duplicates."""
    # The pool publishes a batch while the next one is prepared.
    with without_collector(), ThreadPoolExecutor(1) as pool:
        batches = _Batches(loaded, job, collections, pool)
        for number, item in enumerate(_first_of_each(records, loaded, "item"), 1):
            batches.add(*item)
            if number % catalog.BATCH_ITEMS == 0:
                progress(number)
        batches.finish()


def _first_of_each(
    records: Iterable[Record], loaded: Loaded, kind: str
) -> Iterator[tuple[Place, ItemReference, JsonObject]]:
    """The first document of each id; another one with the same content is left out, any other refused."""
    seen: dict[tuple[str, str], bytes] = {}
    for record in records:
        document: JsonObject = orjson.loads(record.text)
        key, content = (str(document.get("collection", "")), str(document["id"])), hashlib.sha256(record.text).digest()
        if (former := seen.setdefault(key, content)) is content:
            yield record.place, ItemReference.model_construct(collection=key[0], id=key[1]), document
        elif former == content:
            loaded.duplicates += 1
        else:
            what = f"another {kind} of the source has the id {key[1]}, and other content"
            error = InputError("ingest.duplicate", what, remedy="Give each one an id of its own.")
            loaded.refuse(Refused.of(record.place, error, document))


class _Batches:
    """Items that wait for their transaction, by collection."""

    def __init__(
        self, loaded: Loaded, job: Job | None, collections: Mapping[str, GivenCollection], pool: ThreadPoolExecutor
    ) -> None:
        self._loaded = loaded
        self._job = job
        self._collections = dict(collections)
        self._pool = pool
        self._waiting: dict[str, list[Entry]] = {}
        self._running: Future[None] | None = None

    def add(self, place: Place, reference: ItemReference, document: JsonObject) -> None:
        """Add an item, and publish the batch that it fills."""
        if self._job is None:
            self._loaded.accepted += 1
            return
        signed = self._job.sign(reference, place)
        batch = self._waiting.setdefault(reference.collection, [])
        batch.append(Entry(place, catalog.Publication(document, manifest=signed, is_valid=True)))
        if len(batch) >= catalog.BATCH_ITEMS:  # of one transaction: running again continues after the last one
            self._send(reference.collection)

    def finish(self) -> None:
        """Publish what is left, and the collections that have no items."""
        for collection in list(self._waiting):
            self._send(collection)
        self._wait()
        if self._job is not None:
            for given in self._collections.values():
                _store(self._job, given, self._loaded)

    def _send(self, collection: str) -> None:
        batch, given = self._waiting.pop(collection), self._collections.pop(collection, None)
        self._wait()
        self._running = self._pool.submit(self._publish, collection, given, batch)

    def _wait(self) -> None:
        if self._running:
            self._running.result()
        self._running = None

    def _publish(self, collection: str, given: GivenCollection | None, batch: Sequence[Entry]) -> None:
        if self._job is None:
            return
        if given:
            _store(self._job, given, self._loaded)
        _publish_batch(self._job, collection, batch, self._loaded)


def _store(job: Job, given: GivenCollection, loaded: Loaded) -> None:
    """Store a collection; that of another platform is refused alone, where it would change."""
    place, document = given
    try:
        with job.database() as connection:
            catalog.store_collection(connection, document, document, catalog.By(job.job_id), job.attempt)
    except Conflict as error:
        loaded.refuse(Refused.of(place, error, document))


def _publish_batch(job: Job, collection: str, batch: Sequence[Entry], loaded: Loaded) -> None:
    """Publish items in one transaction, without those of other platforms; an error of one refuses only that item."""
    batch = _without_foreign(job, collection, batch, loaded)
    if not batch:
        return
    try:
        published = _publish(job, collection, [entry.publication for entry in batch])
    except (InputError, Conflict) as error:
        if len(batch) == 1:
            loaded.refuse(_refuse(batch[0], error))
        else:
            for part in (batch[: len(batch) // 2], batch[len(batch) // 2 :]):
                _publish_batch(job, collection, part, loaded)
        return
    loaded.accepted += len(published.items)
    loaded.changed += len(published.changed)
    loaded.unchanged += len(published.items) - len(published.changed)


def _publish(job: Job, collection: str, publications: Sequence[catalog.Publication]) -> catalog.Published:
    publish = partial(catalog.publish, collection=collection, job_id=job.job_id, publications=publications)
    with job.database() as connection:
        try:
            return publish(connection, attempt=job.attempt, reason=job.reason)
        except NotFound:
            catalog.ensure_collection(connection, CollectionFacts(id=collection), catalog.By(job.job_id), job.attempt)
            return publish(connection, attempt=job.attempt, reason=job.reason)


def _without_foreign(job: Job, collection: str, batch: Sequence[Entry], loaded: Loaded) -> list[Entry]:
    with job.database() as connection:
        ids = [entry.publication.id for entry in batch]
        foreign = set(catalog.find_foreign(connection, collection, job.job_id, ids))
    for entry in batch:
        if (item := entry.publication.id) in foreign:
            error = Conflict(FOREIGN, f"item {collection}/{item} belongs to another platform")
            loaded.refuse(_refuse(entry, error))
    return [entry for entry in batch if entry.publication.id not in foreign]


def _refuse(entry: Entry, error: AnabranchError) -> Refused:
    return Refused.of(entry.place, error, dict(entry.publication.document))
