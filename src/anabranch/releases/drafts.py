"""What a job that waits for a review would publish: found by filling in the parameters of the node that publishes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from anabranch.adapters.postgres.store.published.files import StoredFile
from anabranch.adapters.postgres.store.reads import PostgresReads
from anabranch.adapters.postgres.store.store import PostgresStore
from anabranch.canonical import Json, JsonObject, encode
from anabranch.engine.advancing.json_array import Items
from anabranch.engine.advancing.node_outputs import Outputs
from anabranch.engine.advancing.transitions import Absent, TooLarge
from anabranch.engine.read_models import LabelledJob
from anabranch.engine.task_parameters import TaskValues, fill_template
from anabranch.errors import NotFound
from anabranch.storage.large_results import Results
from anabranch.workflows.expressions import ExpressionError, Reference, Template, read_template, references
from anabranch.workflows.nodes import TaskNode

if TYPE_CHECKING:
    from anabranch.plugins.stac.facts import Item

__all__ = ["Draft", "DraftItem", "Drafts"]

PUBLISHERS = frozenset({
    "stac.register_item", "stac.register_items", "raster.stac_register_item", "raster.stac_register_items",
    "vector.publish_layers",
})  # fmt: skip
MAX_CACHED_DRAFTS = 64


@dataclass(frozen=True)
class DraftItem:
    """An item as it would be published, with the files and the table that it shows."""

    id: str
    document: JsonObject  # STAC's own shape, with addresses
    files: Mapping[str, StoredFile]
    """By their addresses."""
    table: str | None = None
    parts: Sequence[str] = ()


@dataclass(frozen=True)
class Draft:
    """What a job would publish."""

    job: LabelledJob
    collection: str
    items: Mapping[str, DraftItem]
    warnings: Sequence[Json]
    report: str | None
    """The address of the report."""

    def item(self, name: str) -> DraftItem:
        """The item of this id."""
        if name not in self.items:
            raise NotFound("preview.item", f"job {self.job.job_id} would publish no item {name}")
        return self.items[name]


class Drafts:
    """Finds what jobs would publish. Each call looks whether the job is still in review, and what it made is cached."""

    def __init__(self, store: PostgresStore, reads: PostgresReads, results: Results) -> None:
        """The cache is empty."""
        self._store = store
        self._reads = reads
        self._outputs = Outputs(store, results)
        self._known: dict[str, Draft] = {}

    async def find(self, job_id: str, platform: str | None) -> Draft:
        """What a job would publish, if a platform may see it; NotFound unless it waits for a review. None: all."""
        job = await self._reads.seen_by(platform).find(job_id)
        if not await self._store.is_in_review(job.job_id):
            raise NotFound("preview.not_found", f"job {job.job_id} does not wait for a review")
        known = self._known.get(job.job_id)
        if known and known.job.last_event == job.last_event:
            return known
        if len(self._known) >= MAX_CACHED_DRAFTS:
            self._known.clear()
        self._known[job.job_id] = await self._read(job)
        return self._known[job.job_id]

    async def page(self, job: str, item: DraftItem, after: int, limit: int, size: int) -> list[tuple[int, str]]:
        """Features of an item's table as GeoJSON with their ids, after one of them; up to a size in bytes."""
        return await self._store.draft_features(job, item.parts, after, limit, size)

    async def tile(self, job: str, item: DraftItem, z: int, x: int, y: int, limit: int) -> bytes | None:
        """A vector tile of an item's table; None where it has none."""
        return await self._store.draft_tile(job, item.parts, item.table or "", (z, x, y), limit)

    async def _read(self, job: LabelledJob) -> Draft:
        workflow = await self._reads.workflow(job)
        collection, items = "", dict[str, DraftItem]()
        for node in workflow.nodes:
            if not isinstance(node, TaskNode) or node.handler not in PUBLISHERS:
                continue
            if isinstance(given := await self._fill_in(job, node.work.template), dict):
                collection = str(given.get("collection", ""))
                items |= {item.id: item for item in _build_items(job, collection, given)}
        named = workflow.output or {}
        warnings, report = [
            await self._fill_in(job, read_template(named[name]) if name in named else None)
            for name in ("warnings", "report")
        ]
        return Draft(
            job, collection, items, warnings if isinstance(warnings, list) else [],
            report if isinstance(report, str) else None,
        )  # fmt: skip

    async def _fill_in(self, job: LabelledJob, template: Template | None) -> Json:
        """A template with what is known of the job by now; None where it needs what is not there yet."""
        if template is None:
            return None
        wanted = [reference for reference in references(template) if reference.root == "nodes"]
        found = await self._outputs.look_up(job.job_id, wanted)
        values: JsonObject = {
            str(Reference(reference.root, reference.path)): value
            for reference, value in zip(wanted, found, strict=True)
            if not isinstance(value, Absent | TooLarge | Items)
        }
        try:
            return fill_template(template, TaskValues(job.job_id, job.parameters, values, None, 0, job.tick))
        except ExpressionError:
            return None


def _build_items(job: LabelledJob, collection: str, given: JsonObject) -> list[DraftItem]:
    """The items of the parameters of a node that publishes; those in work files are left out."""
    from anabranch.plugins.stac.facts import read_facts  # late: only previews need it

    if given.get("files"):
        return []
    items = given.get("items") if "items" in given else [given.get("item")]
    found = items if isinstance(items, list) else []
    return [_build_item(job, collection, read_facts(encode(facts))) for facts in found if facts]


def _build_item(job: LabelledJob, collection: str, facts: "Item") -> DraftItem:
    from anabranch.plugins.stac.facts import VectorItem
    from anabranch.plugins.stac.item import Origin, build_item, find_outputs
    from anabranch.plugins.stac.manifest import our_version

    origin = Origin(job.job_id, job.workflow, job.workflow_hash, job.created_at)
    outputs = [(f"{output.tier}://{output.key}", output) for output in find_outputs(facts)]
    files = {
        address: StoredFile(output.name, address, output.media_type, output.size, output.sha256, version=output.version)
        for address, output in outputs
    }
    table = facts.table if isinstance(facts, VectorItem) else None
    return DraftItem(
        facts.id, build_item(collection, facts, origin, our_version()), files,
        table.name if table else None, table.parts if table else (),
    )  # fmt: skip
