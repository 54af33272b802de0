"""Handlers of stac_ingest: thin wrappers of plain functions, with work files between them."""

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import islice
from pathlib import Path, PurePosixPath
from shutil import copyfileobj
from typing import TYPE_CHECKING

from anabranch import Context, handler
from anabranch.canonical import JsonObject
from anabranch.errors import InputError
from anabranch.plugins.stac.facts import ItemReference
from anabranch.plugins.stac.ingest.documents import open_document, parse_item, write_document
from anabranch.plugins.stac.ingest.hrefs import Bases
from anabranch.plugins.stac.ingest.models import (
    Ingested,
    LoadParams,
    Part,
    Read,
    ReadParams,
    Validated,
    ValidateParams,
    WorkFile,
)
from anabranch.plugins.stac.ingest.records import Place, Record, Refused, read_records, write_lines
from anabranch.plugins.stac.ingest.sources import SourceReader, folder_of
from anabranch.plugins.stac.manifest import Manifest, Signer
from anabranch.plugins.stac.settings import StacSettings
from anabranch.storage.ndjson import put_output

if TYPE_CHECKING:
    from anabranch.plugins.stac.ingest.load import Job, Loaded

__all__ = ["load_items", "read_items", "validate_items"]

PART_ITEMS = 500
PART_BYTES = 16 * 2**20
MAX_SHOWN = 100
MAX_UNKNOWN = 20  # extensions that are counted in a part
MAX_URI_CHARS = 200


@handler("stac.read_items", queue="files", timeout_seconds=7_200)
def read_items(params: ReadParams, ctx: Context) -> Read:
    """Find the items and collections of a source, and write them to work files of a few hundred each."""
    from anabranch.plugins.stac.ingest.parquet import make_converter  # late: only this opens files

    settings = ctx.settings(StacSettings)
    reader = SourceReader(ctx.storage, make_converter(ctx, settings), settings)
    refused = ctx.scratch / "refused"
    parts: list[WorkFile] = []
    read = 0
    with refused.open("wb") as refusals:
        for part in _split(reader.read(params.source)):
            read += len(part)
            if read > settings.stac_max_items:
                what = f"the source has more than {settings.stac_max_items} items"
                raise InputError("ingest.too_many", what, remedy="Ingest parts of it, or raise `stac_max_items`.")
            refusals.writelines(one.write() for one in part if isinstance(one, Refused))
            if records := [one.write() for one in part if isinstance(one, Record)]:
                path = write_lines(ctx.scratch / "part", records)
                parts.append(ctx.work.put(path, f"part-{len(parts)}"))
            ctx.progress(read, None, part[-1].place.file if isinstance(part[-1], Record) else part[-1].file)
    return Read(parts=parts, read=read, refused=ctx.work.put(refused) if refused.stat().st_size else None)


def _split(found: Iterable[Record | Refused]) -> Iterator[list[Record | Refused]]:
    """What was found in parts that are bounded in number and size."""
    part: list[Record | Refused] = []
    size = 0
    for one in found:
        part.append(one)
        size += len(one.text) if isinstance(one, Record) else 0
        if len(part) == PART_ITEMS or size > PART_BYTES:
            yield part
            part, size = [], 0
    if part:
        yield part


@handler("stac.validate_items", timeout_seconds=1_800)
def validate_items(params: ValidateParams, ctx: Context) -> Validated:
    """Check the documents of a part one by one, and bring them into the form in which they are published."""
    from anabranch.plugins.stac.ingest.check import Rules, check_collection, check_item, list_unknown_extensions

    max_kb = ctx.settings(StacSettings).stac_item_kb
    folder = params.source if params.source.endswith("/") else folder_of(params.source)
    rules = Rules(params.collection, params.unknown_extensions == "accept", Bases(params.base_url, folder))
    items: list[bytes] = []
    collections: list[bytes] = []
    refused: list[bytes] = []
    unknown: Counter[str] = Counter()
    for place, text in ((record.place, record.text) for record in read_records(ctx.work.require(params.part))):
        document: JsonObject = {}
        try:
            document = parse_item(text, max_kb)
            is_collection = document.get("type") == "Collection"
            made = (check_collection if is_collection else check_item)(document, rules, place.file)
            line = Record(place, write_document(made)).write()
        except InputError as error:
            refused.append(Refused.of(place, error, document).write())
            continue
        for uri in (uri[:MAX_URI_CHARS] for uri in list_unknown_extensions(made)):
            if uri in unknown or len(unknown) < MAX_UNKNOWN:
                unknown[uri] += 1
        (collections if is_collection else items).append(line)
    return Validated(
        part=Part(
            items=ctx.work.put(write_lines(ctx.scratch / "items", items)),
            collections=_put(ctx, "collections", collections),
            refused=_put(ctx, "refused", refused),
            unknown=dict(unknown),
        )
    )


@handler("stac.load_items", timeout_seconds=14_400)
def load_items(params: LoadParams, ctx: Context) -> Ingested:
    """Publish the checked items in bulk, unless it is a dry run, and write the report of all that was refused."""
    from anabranch.plugins.stac.ingest import load  # late: only this needs a database

    def read(files: Iterable[WorkFile | None]) -> Iterator[Record]:
        return (record for file in files if file for record in read_records(ctx.work.require(file)))

    job = None if params.dry_run else _describe_job(params, ctx)
    report = ctx.scratch / "refused.ndjson"
    with report.open("wb") as lines:
        for file in (params.refused, *(part.refused for part in params.parts)):
            if file:
                with ctx.work.require(file).open("rb") as part:
                    copyfileobj(part, lines)
        loaded = load.Loaded(refuse=lambda one: lines.write(one.write()))
        collections = load.find_collections(read(part.collections for part in params.parts), params.collection, loaded)
        items = read(part.items for part in params.parts)
        load.load_items(items, job, collections, loaded, lambda number: ctx.progress(number, params.read, "items"))
    return _total(params, loaded, report, ctx)


def _describe_job(params: LoadParams, ctx: Context) -> "Job":
    from anabranch.plugins.stac.catalog import find_origin
    from anabranch.plugins.stac.ingest.load import Job

    with ctx.catalog() as connection:
        origin = find_origin(connection, ctx.job_id)
    key = ctx.signing_key

    @lru_cache(1)
    def sign_items(file: str, sha256: str) -> Signer:
        return Signer(origin, key, sources={PurePosixPath(file).name: sha256})

    def sign(item: ItemReference, place: Place) -> Manifest:
        return sign_items(place.file, place.sha256).sign(item)

    return Job(ctx.job_id, ctx.catalog, sign, (ctx.node_id, ctx.fence) if ctx.fence else None, params.reason)


def _total(params: LoadParams, loaded: "Loaded", report: Path, ctx: Context) -> Ingested:
    unknown = sum((Counter(part.unknown) for part in params.parts), Counter[str]())
    with report.open("rb") as lines:
        shown = [open_document(line) for line in islice(lines, MAX_SHOWN)]
        refused = len(shown) + sum(1 for _ in lines)
    output = put_output(ctx.storage, report, "report")
    return Ingested(
        read=params.read,
        collections=loaded.collections,
        accepted=loaded.accepted,
        changed=loaded.changed,
        unchanged=loaded.unchanged,
        duplicates=loaded.duplicates,
        refused=refused,
        refusals=shown,
        warnings=[
            f"{count} documents declare the extension {uri}: its schema is not known here, so it was not checked"
            for uri, count in unknown.most_common(MAX_SHOWN)
        ],
        outputs=[output],
        report=output.href,
    )


def _put(ctx: Context, name: str, lines: list[bytes]) -> WorkFile | None:
    return ctx.work.put(write_lines(ctx.scratch / name, lines)) if lines else None
