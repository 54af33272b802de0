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
    Code("catalog.lost", Kind.TASK_AGAIN, "The catalog lost an item that was written to it.", "It was not published; it is retried."),
    Code("catalog.missing", Kind.UNAVAILABLE, "The database has no catalog.", "Run `anabranch db migrate`; it reports what the server lacks."),
    Code("catalog.name_taken", Kind.CONFLICT, "Two outputs of a job would have the same name.", "Give the outputs a `name` of their own."),
    Code("catalog.no_collection", Kind.NOT_FOUND, "There is no such collection.", "Create it with `stac.ensure_collection`."),
    Code("catalog.not_empty", Kind.CONFLICT, "The collection has items.", "Withdraw its items first with `anabranch items unpublish`."),
    Code("catalog.other_collection", Kind.INVALID, "An item belongs to a different collection than the one it is published to.", "Build it for the collection it is published to."),
    Code("catalog.refused", Kind.INVALID, "The catalog refused an item or a collection.", "Fix the values it is built from; it was not published."),
    Code("catalog.unconfirmed", Kind.USAGE, "The command would empty the catalog before it fills it again.", "Confirm with `--yes`."),
    Code("catalog.unreachable", Kind.TASK_AGAIN, "The database aborted a publication.", "It was not published; it is retried."),
    Code("export.empty", Kind.INVALID, "The collections to export have no items.", "Publish items first, or name other collections."),
    Code("export.no_url", Kind.INVALID, "Nothing says by which URL readers reach the files of items.", "Set `public_url`, or give `base_url`, like https://data.example.org."),
    Code("export.too_many", Kind.INVALID, "The collections to export have more items than allowed.", "Export them in parts, or raise `stac_export_max_items`."),
    Code("export.wrong", Kind.TASK, "A written catalog does not hold what is published, so that it is not published.", "It is a bug in Anabranch, or of the library that read the files: report it with the message."),
    Code("ingest.duplicate", Kind.INVALID, "Two items of a source have the same id and differ.", "Give each item an id of its own; the first one is published."),
    Code("ingest.href", Kind.INVALID, "The address of an asset can't be published.", "Use an address of http, https, s3, gs, az or abfs, without credentials."),
    Code("ingest.link", Kind.INVALID, "A link of a static catalog leads out of its folder, or too deep.", "Put the files below one folder of a tier, with relative links."),
    Code("ingest.no_collection", Kind.INVALID, "An item names no collection.", "Give `collection`, which all items join."),
    Code("ingest.not_stac", Kind.INVALID, "A document is neither an item nor a collection.", "Give items, collections, catalogs or ItemCollections."),
    Code("ingest.place", Kind.INVALID, "The geometry or the bbox of an item is not on the globe, or missing.", "Use longitudes and latitudes of WGS 84, cut at the antimeridian."),
    Code("ingest.relative", Kind.INVALID, "The address of an asset is relative, and nothing says to what.", "Give `base_url`, or items with an absolute `self` link."),
    Code("ingest.time", Kind.INVALID, "An item has no time, or one that can't be read.", "Give `datetime` in RFC 3339, or null with `start_datetime` and `end_datetime`."),
    Code("ingest.too_large", Kind.INVALID, "A document or a line is larger than allowed.", "Convert it to NDJSON, one item a line; or raise `stac_document_mb` or `stac_item_kb`."),
    Code("ingest.too_many", Kind.INVALID, "A source has more items or documents than allowed.", "Ingest parts of it, or raise `stac_max_items` or `stac_max_documents`."),
    Code("ingest.unreadable", Kind.INVALID, "A document is not JSON that can be stored, or a file is no GeoParquet of items.", "The reason names the mistake; write the file again."),
    Code("ingest.version", Kind.INVALID, "A document is of a STAC version that is not supported.", "Upgrade it to STAC 1.0 or 1.1."),
    Code("publication.expired", Kind.CONFLICT, "The content of a former publication was removed by retention.", "Submit its source again; `anabranch items history` shows what is left."),
    Code("publication.forbidden", Kind.NOT_ALLOWED, "Only a job that an admin submitted withdraws what is published.", "Submit it with a key of the scope `admin`."),
    Code("publication.in_use", Kind.CONFLICT, "Views of users are built on the layer, and its columns would change or go.", "Drop these views, or publish the layer under another name."),
    Code("publication.moved", Kind.CONFLICT, "Another has published, withdrawn or restored the item since you looked.", "Look at `anabranch items history`, and decide again with its newest number."),
    Code("publication.name_taken", Kind.CONFLICT, "The name of the table in schema `geo` belongs to another item, or to a table of a user.", "Give another `table`."),
    Code("publication.no_match", Kind.CONFLICT, "The number in `If-Match` is not the item's any more.", "Read the item again, and decide with its newest number.", 412),
    Code("publication.not_approved", Kind.CONFLICT, "The content belongs to a release that is not approved, or was revoked.", "Approve the release; after a revoke, submit it again."),
    Code("publication.not_found", Kind.NOT_FOUND, "The item was never published, or has no such number.", "See `anabranch items history`, and `anabranch items list`."),
    Code("publication.owner", Kind.CONFLICT, "The item or collection belongs to another platform.", "Publish under another id or collection, or ask an administrator."),
    Code("publication.same", Kind.CONFLICT, "There is nothing to do: the item is already as the action would leave it.", "See `anabranch items history`."),
    Code("publication.tables", Kind.CONFLICT, "The tables of a layer are not finished, or have different columns.", "Run the job again; report a bug if that fails, too."),
)
# fmt: on
