"""The error codes of the catalog."""

from anabranch.codes import LOCAL, Code
from anabranch.errors import Kind

__all__ = ["CODES"]

# fmt: off
CODES: tuple[Code, ...] = (
    Code("catalog.address", Kind.INVALID, "An asset of an item is not the address of an object.", "Give the address that storage returned, like silver://path/of/the/object.tif."),
    Code("catalog.asset_twice", Kind.INVALID, "Two outputs of an item have the same asset.", "Give one of them an `asset` of its own."),
    Code("catalog.busy", Kind.TASK_AGAIN, "Other transactions used the catalog for too long.", "It is retried; publish many items in one task."),
    Code("catalog.collection_id", Kind.INVALID, "A collection can't have this id.", "Use letters, digits, `-`, `_` and single dots; at most 63 characters."),
    Code("catalog.differs", Kind.CONFLICT, "The catalog differs from what is published.", "Rebuild it with `anabranch db catalog rebuild --yes`.", LOCAL),
    Code("catalog.incomplete", Kind.UNAVAILABLE, "The catalog did not accept everything that is published.", "Nothing was changed; run `anabranch db catalog rebuild --yes` again.", LOCAL),
    Code("catalog.invalid", Kind.INVALID, "An item or collection is not valid STAC.", "Fix the values it is built from; the message names each mistake and its location."),
    Code("catalog.item_id", Kind.INVALID, "An item can't have this id.", "Use letters, digits, `-`, `_` and single dots; at most 128 characters."),
    Code("catalog.item_twice", Kind.INVALID, "Two items of one publication have the same id.", "Give each item an id of its own."),
    Code("catalog.lost", Kind.TASK_AGAIN, "The catalog lost an item that was written to it.", "Nothing was published; it is retried."),
    Code("catalog.missing", Kind.UNAVAILABLE, "The database has no catalog.", "Run `anabranch db migrate`; it reports what the server lacks."),
    Code("catalog.name_taken", Kind.CONFLICT, "Two outputs of a job would have the same name.", "Give the outputs a `name` of their own."),
    Code("catalog.no_collection", Kind.NOT_FOUND, "There is no such collection.", "Create it with `stac.ensure_collection`."),
    Code("catalog.not_empty", Kind.CONFLICT, "The collection has items.", "Withdraw its items first with `anabranch items unpublish`."),
    Code("catalog.other_collection", Kind.INVALID, "An item belongs to a different collection than the one it is published to.", "Build it for the collection it is published to."),
    Code("catalog.refused", Kind.INVALID, "The catalog refused an item or a collection.", "Fix the values it is built from; nothing was published."),
    Code("catalog.unconfirmed", Kind.USAGE, "The command would empty the catalog before it fills it again.", "Confirm with `--yes`."),
    Code("catalog.unreachable", Kind.TASK_AGAIN, "The database aborted a publication.", "Nothing was published; it is retried."),
    Code("publication.expired", Kind.CONFLICT, "The content of a former publication was removed by retention.", "Submit its source again; `anabranch items history` shows what is left."),
    Code("publication.forbidden", Kind.NOT_ALLOWED, "Only a job that an admin submitted withdraws what is published.", "Submit it with a key of the scope `admin`."),
    Code("publication.moved", Kind.CONFLICT, "Another has published, withdrawn or restored the item since you looked.", "Look at `anabranch items history`, and decide again with its newest number."),
    Code("publication.no_match", Kind.CONFLICT, "The number in `If-Match` is not the item's any more.", "Read the item again, and decide with its newest number.", 412),
    Code("publication.not_found", Kind.NOT_FOUND, "The item was never published, or has no such number.", "See `anabranch items history`, and `anabranch items list`."),
    Code("publication.owner", Kind.CONFLICT, "The item belongs to another owner.", "Publish under another id or collection, or ask an administrator."),
    Code("publication.same", Kind.CONFLICT, "There is nothing to do: the item is already as the action would leave it.", "See `anabranch items history`."),
)
# fmt: on
