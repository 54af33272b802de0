"""Publishes items to our tables and pgstac in one transaction, one publisher per collection, and counts them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import InitVar, asdict, dataclass, replace
from itertools import groupby, islice
from operator import itemgetter
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from anabranch.canonical import Json, JsonObject
from anabranch.contract.catalog import ItemAct
from anabranch.engine.model import Attempt
from anabranch.errors import Conflict, InputError, Interrupted, NotFound
from anabranch.plugins.stac.collection import CollectionFacts, build_collection, pick_times, shapes_extent, widen
from anabranch.plugins.stac.item import Origin, PublishedOutput
from anabranch.plugins.stac.manifest import Manifest
from anabranch.plugins.stac.names import check_collection_id, check_item_id
from anabranch.plugins.stac.pgstac.items import (
    count_items,
    find_missing,
    fits_partition,
    is_shown,
    load_items,
    show_collection,
)
from anabranch.plugins.stac.pgstac.transaction import Work, jsonb, publishing, run
from anabranch.plugins.stac.validation.validate import validate

__all__ = [
    "BATCH_ITEMS", "Acted", "By", "Layer", "Move", "Publication", "Published", "Work", "act", "act_on_items",
    "ensure_collection", "find_foreign", "find_origin", "publish", "remove_collection", "run", "split",
    "store_collection",
]  # fmt: skip

BATCH_ITEMS = 2_000


class CatalogNeeded(Exception):
    """The partition must be changed, or items withdrawn, for which the whole catalog must be locked."""


@dataclass(frozen=True)
class Layer:
    """The view in schema geo that an item shows, and the tables that it unites."""

    name: str
    tables: Sequence[str]


@dataclass(frozen=True)
class Publication:
    """An item to publish, with its objects; it is validated when it is constructed, unless it was before."""

    document: Mapping[str, Json]
    outputs: Sequence[PublishedOutput] = ()
    manifest: Manifest | None = None
    made_from: JsonObject | None = None
    expected: int | None = None  # the number that it had when it was compared; None: as of the caller
    layer: Layer | None = None
    is_valid: InitVar[bool] = False  # it was validated before

    def __post_init__(self, is_valid: bool) -> None:
        """Validate it against the schemas, before a connection is open."""
        if not is_valid:
            validate(self.document)
            check_item_id(self.id)

    @property
    def id(self) -> str:
        """The item's id."""
        return str(self.document["id"])


@dataclass(frozen=True)
class Published:
    """The result of a publication."""

    collection: str
    items: tuple[str, ...]
    changed: tuple[str, ...]


@dataclass(frozen=True)
class By:
    """Who acts on publications: a job, whose submitter the database knows, or a person (P7)."""

    job_id: str | None = None
    owner: str | None = None
    """Only keys of this owner; None: of all."""
    actor: str | None = None
    reason: str | None = None


NOBODY = By()


@dataclass(frozen=True)
class Acted:
    """An action on an item: its number, and the publication whose content it shows, or takes away."""

    collection: str
    item: str
    number: int
    action: str
    source: str
    shows: int | None
    """The number of that publication; None where it is taken away."""


@dataclass(frozen=True)
class Move:
    """An item to withdraw, restore or roll back: to which number, and the number that the caller saw last."""

    id: str
    number: int | None = None
    expected: int | None = None

    def __post_init__(self) -> None:
        """Check the id."""
        check_item_id(self.id)


@dataclass(frozen=True)
class Change:
    """What changed in our own rows, as `app.change_items` answers it."""

    document: Mapping[str, Any]
    first: bool
    made: Sequence[Mapping[str, Any]]
    same: Sequence[str]
    former: Sequence[Mapping[str, Any]]
    shown: Sequence[Mapping[str, Any]] | None


def ensure_collection(
    connection: Work, facts: CollectionFacts, by: By = NOBODY, attempt: tuple[str, Attempt] | None = None
) -> bool:
    """Create a collection, or update the fields that were given; returns whether anything changed.

    Raises Interrupted when the attempt is not current (E3).
    """
    document, said = build_collection(facts)
    validate(document)
    return store_collection(connection, document, said, by, attempt)


def store_collection(
    connection: Work,
    document: JsonObject,
    said: JsonObject,
    by: By = NOBODY,
    attempt: tuple[str, Attempt] | None = None,
) -> bool:
    """Store the valid document of a new collection, or update the given fields of an existing one, but for its extent.

    Returns whether anything changed.
    """
    with publishing(connection):
        given = {"document": Jsonb(document), "said": Jsonb(said), "job_id": by.job_id, "actor": by.actor}
        ((stored, changed),) = run(connection, "ensure_collection", **given, alone=False)
        if stored is None or not is_shown(connection, stored):
            ((stored, changed),) = run(connection, "ensure_collection", **given, alone=True)
            validate(stored, accept_unknown=True)  # what it had before, or the caller has accepted
            show_collection(connection, stored)
            _require_current(connection, by.job_id, attempt)
    return bool(changed)


def remove_collection(connection: Work, collection: str, by: By = NOBODY) -> None:
    """Remove a collection that has no items; a Conflict if it has some. Its history stays (P7)."""
    with publishing(connection):
        given = {"collection": check_collection_id(collection), "actor": by.actor, "reason": by.reason}
        ((removed,),) = run(connection, "remove_collection", **given)
        if not removed:
            raise _no_collection(collection)
        run(connection, "delete_collection", collection=collection)


def publish(
    connection: Work,
    collection: str,
    job_id: str,
    publications: Iterable[Publication],
    attempt: tuple[str, Attempt] | None = None,
    *,
    reason: str | None = None,
    expected: int | None = None,
    keep_same: bool = False,
) -> Published:
    """Publish items, all or none. Unchanged items are left alone; items that pgstac lost are restored.

    Many of them are read batch by batch, several times, and come in the order of their ids. `expected` is the number
    that each had when the caller looked, 0 for none: a Conflict if another has acted since. With `keep_same` an item
    that shows the same content is left alone, whichever job made it. `attempt` is the publishing attempt with its node;
    raises Interrupted when it is not current, or the job has ended.
    """
    ids = _check(collection, publications)
    if not ids:
        with publishing(connection):
            _require_current(connection, job_id, attempt)
        return Published(collection, (), ())
    given = (connection, collection, By(job_id, reason=reason), publications, attempt, expected)
    try:
        changed = _publish(*given, keep_same=keep_same, alone=False)
    except CatalogNeeded:
        changed = _publish(*given, keep_same=keep_same, alone=True)
    return Published(collection, tuple(ids), tuple(changed))


def act(
    connection: Work,
    action: ItemAct,
    collection: str,
    item: str,
    by: By,
    *,
    number: int | None = None,
    expected: int | None = None,
    dry_run: bool = False,
    attempt: tuple[str, Attempt] | None = None,
) -> Acted:
    """Withdraw an item, restore it, or roll it back to a number, by default to what it showed before (P5).

    `expected` is the number that the caller saw last: a Conflict if another has acted since. A dry run does all of it
    and takes it back.
    """
    move = Move(item, number, expected)
    (acted,) = act_on_items(connection, action, collection, [move], by, dry_run=dry_run, attempt=attempt)
    return acted


def act_on_items(
    connection: Work,
    action: ItemAct,
    collection: str,
    moves: Sequence[Move],
    by: By,
    *,
    dry_run: bool = False,
    attempt: tuple[str, Attempt] | None = None,
) -> list[Acted]:
    """Do the same with several items of a collection, all or none; in the order of their ids."""
    check_collection_id(collection)
    with publishing(connection, dry_run=dry_run):
        found = _act(connection, action, collection, moves, by)
        _require_current(connection, by.job_id, attempt)
    return [
        Acted(
            collection, made["id"], made["number"], made["action"], made["source"],
            made["shows"] if found.shown else None,
        )
        for made in found.made
    ]  # fmt: skip


def _act(connection: Work, action: ItemAct, collection: str, moves: Sequence[Move], by: By) -> Change:
    """Change what items show, in our own rows and in pgstac."""
    found = _change_items(connection, collection, action, [asdict(move) for move in moves], by)
    _show_extent(connection, found, found.shown or ())
    ids = [move.id for move in moves]
    if found.shown:
        load_items(connection, collection, found.shown)
        count_items(connection, collection, ids)
    else:
        run(connection, "delete_items", collection=collection, ids=ids)
    return found


def _publish(
    connection: Work,
    collection: str,
    by: By,
    publications: Iterable[Publication],
    attempt: tuple[str, Attempt] | None,
    expected: int | None,
    *,
    keep_same: bool,
    alone: bool,
) -> list[str]:
    """Publish items in one transaction; returns the ids that changed."""
    times = jsonb([pick_times(each.document) for each in publications])
    changes: list[Change] = []
    added: list[Mapping[str, Any]] = []
    with publishing(connection):
        fits = not alone and fits_partition(connection, collection, times)
        for batch in split(publications):
            changes.append(_record(connection, collection, by, batch, expected, keep_same=keep_same, alone=not fits))
            if len(changes) == 1 and fits and not fits_partition(connection, collection, times):
                raise CatalogNeeded
            added += _show_items(connection, changes[-1], {each.id: each.document for each in batch})
        former = [item for change in changes for item in change.former]
        _show_extent(connection, replace(changes[-1], first=changes[0].first, former=former), added)
        _withdraw_outdated(connection, by, alone=alone)
        _require_current(connection, by.job_id, attempt)
    return [made["id"] for change in changes for made in change.made]


def _withdraw_outdated(connection: Work, by: By, *, alone: bool) -> None:
    """Withdraw what the release still shows of another revision than the one that is published (P5)."""
    outdated = run(connection, "find_outdated", job_id=by.job_id)
    if outdated and not alone:
        raise CatalogNeeded
    for (collection, revision), found in groupby(outdated, key=itemgetter(0, 2)):
        reason = f"revision {revision} of the release does not have this item"
        _act(connection, "withdraw", collection, [Move(item) for _, item, _ in found], replace(by, reason=reason))


def _show_items(
    connection: Work, change: Change, documents: Mapping[str, Mapping[str, Json]]
) -> list[Mapping[str, Any]]:
    """Write to pgstac what changed, or what it lost; returns the boxes and times of what changed."""
    collection, changed = change.document["id"], [made["id"] for made in change.made]
    show_collection(connection, change.document)
    shown = [*changed, *change.same]
    wanted = {*changed, *find_missing(connection, collection, shown)}
    load_items(connection, collection, [documents[item] for item in documents if item in wanted])
    count_items(connection, collection, shown)
    return [{"bbox": documents[item]["bbox"], "properties": pick_times(documents[item])} for item in changed]


def _require_current(connection: Work, job_id: str | None, attempt: tuple[str, Attempt] | None) -> None:
    """Lock the job; after all else, so that it is not locked for long."""
    if attempt is None:
        return
    node, ((lane, place), number, token) = attempt
    fence = {"job_id": job_id, "node": node, "attempt": number, "lane": lane, "place": place, "token": token}
    ((held,),) = run(connection, "hold_attempt", **fence)
    if not held:
        raise Interrupted("the task was cancelled, or another attempt has it now", code="task.lost")


def split(publications: Iterable[Publication]) -> Iterator[list[Publication]]:
    """Batches of publications, each for one statement."""
    rest = iter(publications)
    while batch := list(islice(rest, BATCH_ITEMS)):
        yield batch


def find_origin(connection: Work, job_id: str) -> Origin:
    """The job with its workflow and handlers; only its id where the job is unknown."""
    found = run(connection, "find_provenance", job_id=job_id)
    return Origin(job_id, *found[0]) if found else Origin(job_id)


def find_foreign(connection: Work, collection: str, job_id: str, ids: Sequence[str]) -> list[str]:
    """Which of these items belong to other owners than that of the job."""
    ((found,),) = run(connection, "find_foreign", collection=collection, job_id=job_id, ids=list(ids))
    return list(found)


def _check(collection: str, publications: Iterable[Publication]) -> list[str]:
    """The ids of items that can be published together."""
    check_collection_id(collection)
    seen: dict[str, None] = {}
    for publication in publications:
        if publication.id in seen:
            what = f"item {publication.id} appears twice in one publication"
            raise InputError("catalog.item_twice", what, remedy="Give each item a unique id.")
        if publication.document.get("collection") != collection:
            what = f"item {publication.id} belongs to collection {publication.document.get('collection')}"
            raise InputError(
                "catalog.other_collection", what, remedy=f"Publish it there, or build it for {collection}."
            )
        seen[publication.id] = None
    return list(seen)


def _record(
    connection: Work,
    collection: str,
    by: By,
    publications: Sequence[Publication],
    expected: int | None,
    *,
    keep_same: bool,
    alone: bool,
) -> Change:
    """Write our own rows."""
    items: list[Mapping[str, Any]] = [
        {
            "id": each.id,
            "key": f"{collection}/{each.id}",
            "body": each.document,
            "outputs": [asdict(output) for output in each.outputs],
            "made_from": each.made_from,
            "expected": expected if each.expected is None else each.expected,
            "keep_same": keep_same,
            **({"manifest": vars(each.manifest)} if each.manifest else {}),
            **({"layer": each.layer.name, "tables": each.layer.tables} if each.layer else {}),
        }
        for each in publications
    ]
    try:
        return _change_items(connection, collection, "publish", items, by, alone=alone)
    except psycopg.errors.UniqueViolation as error:
        raise Conflict(
            "catalog.name_taken",
            f"two outputs of an item have the same name: {error.diag.message_detail}",
            remedy="Give each output a unique name.",
        ) from error


def _change_items(
    connection: Work, collection: str, action: str, items: Sequence[Mapping[str, Any]], by: By, *, alone: bool = True
) -> Change:
    """Change what readers see of items in our own rows."""
    values = {"collection": collection, "action": action, "items": jsonb(items), "alone": alone, **asdict(by)}
    rows = run(connection, "change_items", **values)
    if not rows:
        raise _no_collection(collection)
    return Change(*rows[0])


def _no_collection(collection: str) -> NotFound:
    what = f"there is no collection {collection}"
    return NotFound("catalog.no_collection", what, remedy="Create it with `stac.ensure_collection`.")


def _show_extent(connection: Work, change: Change, added: Sequence[Mapping[str, Any]]) -> None:
    """Give a collection the extent of its items, which are read only if what left may have shaped it (C2)."""
    document, extent = change.document, change.document["extent"]
    if any(shapes_extent(extent, item) for item in change.former):
        ((items,),) = run(connection, "list_extents", collection=document["id"])
        extent = widen(None, items)
    elif added:
        extent = widen(None if change.first else extent, added)
    if extent != document["extent"]:
        ((document,),) = run(connection, "replace_extent", collection=document["id"], extent=Jsonb(extent))
    show_collection(connection, document)
