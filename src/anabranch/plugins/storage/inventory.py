"""Handlers of the inventory of a container: files are analysed in batches, then counted and grouped."""

from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import PurePosixPath

from pydantic import Field, JsonValue

from anabranch.engine.worker.context import Context
from anabranch.engine.worker.handler import handler
from anabranch.errors import AnabranchError
from anabranch.plugins.storage.handlers import MAX_FILES, File
from anabranch.plugins.storage.kinds import HEAD_BYTES, Kind, choose_main, classify, sidecar_stem, sidecar_suffix
from anabranch.plugins.storage.tally import Entry, Inventory, Proposal, Tally
from anabranch.storage.ndjson import put_output, read_lines, write_lines
from anabranch.storage.task_storage import TaskStorage
from anabranch.strict_model import StrictModel

__all__ = ["analyse_files", "total_inventory"]

MAX_BATCH = 1_000
READERS = 8
FILES_PER_PROGRESS = 50
MAX_SHOWN = 100


class AnalyseParams(StrictModel):
    """A batch of files, and whether their first bytes are read."""

    files: tuple[File, ...] = Field(max_length=MAX_BATCH)
    geospatial: bool = False


class Analysed(StrictModel):
    """A batch: a work file with a line for each file."""

    part: dict[str, JsonValue]
    count: int


class TotalParams(StrictModel):
    """The batches of an inventory; `more` where its limit cut the list off."""

    parts: tuple[dict[str, JsonValue], ...] = Field(max_length=MAX_FILES)
    geospatial: bool = False
    more: bool = False


@handler("storage.analyse_files", queue="files", timeout_seconds=3_600)
def analyse_files(params: AnalyseParams, ctx: Context) -> Analysed:
    """Describe a batch of files; with `geospatial`, classify them by name and first bytes."""
    path = ctx.scratch / "part.ndjson"
    describe = partial(_classify, ctx.storage) if params.geospatial else _name
    with ThreadPoolExecutor(READERS) as pool, path.open("w") as part:
        for number, entry in enumerate(pool.map(describe, params.files), 1):
            part.write(f"{entry.model_dump_json(exclude_defaults=True)}\n")
            if number % FILES_PER_PROGRESS == 0:
                ctx.progress(number, len(params.files), entry.address)
    return Analysed(part=ctx.work.put(path), count=len(params.files))


def _name(file: File) -> Entry:
    return Entry(**file.model_dump())


def _classify(storage: TaskStorage, file: File) -> Entry:
    """A file with its kind; one that can't be read with the reason. A store that does not answer fails the batch."""
    entry, name = _name(file), PurePosixPath(file.address).name
    if sidecar_suffix(name):
        return entry.model_copy(update={"kind": Kind.SIDECAR})
    if not file.size:
        return entry.model_copy(update={"kind": Kind.OTHER, "note": "the file is empty"})
    try:
        kind, note = classify(name, storage.read(file.address, 0, HEAD_BYTES))
    except AnabranchError as error:
        if error.category != "permanent":
            raise
        return entry.model_copy(update={"kind": Kind.OTHER, "failure": f"{error.code}: {error.message}"})
    return entry.model_copy(update={"kind": kind, "note": note})


@handler("storage.total_inventory", queue="files", timeout_seconds=3_600)
def total_inventory(params: TotalParams, ctx: Context) -> Inventory:
    """Count all files of an inventory, group sidecars with their main files, and write the list."""
    paths = [ctx.work.require(part) for part in params.parts]
    tally, groups = Tally(), Groups()
    for entry in read_lines(paths, Entry):
        tally.add(entry)
        groups.add(entry)
    listed = write_lines(ctx.scratch / "inventory.ndjson", map(groups.pair, read_lines(paths, Entry)))
    proposals = groups.proposals
    outputs = [put_output(ctx.storage, listed, "inventory")]
    if params.geospatial:
        rasters: Iterator[dict[str, JsonValue]] = (
            {"source": each.source} for each in proposals.values() if each.kind is Kind.RASTER
        )
        written = write_lines(ctx.scratch / "submissions.ndjson", rasters)
        outputs.append(put_output(ctx.storage, written, "submissions"))
    return tally.finish(
        more=params.more, proposed=len(proposals), proposals=[*proposals.values()][:MAX_SHOWN], outputs=outputs
    )


class Groups:
    """Files that can be submitted, by their addresses, and the sidecars that go with them."""

    def __init__(self) -> None:
        """There are none yet."""
        self.proposals: dict[str, Proposal] = {}
        self._mains = defaultdict[str, list[tuple[str, Kind]]](list)

    def add(self, entry: Entry) -> None:
        """Add a main file; all are added before the first sidecar is paired."""
        if entry.kind not in (Kind.RASTER, Kind.VECTOR, Kind.ARCHIVE):
            return
        self.proposals[entry.address] = Proposal(kind=entry.kind, source=entry.address)
        folder, name = _split(entry.address)
        for shared in {name.lower(), PurePosixPath(name).stem.lower()}:
            self._mains[folder + shared].append((name, entry.kind))

    def pair(self, entry: Entry) -> dict[str, JsonValue]:
        """A file as JSON; a sidecar with the address of its main file, to whose proposal it is added."""
        described: dict[str, JsonValue] = entry.model_dump(mode="json", exclude_defaults=True)
        folder, name = _split(entry.address)
        if entry.kind is not Kind.SIDECAR or not (
            main := choose_main(name, self._mains.get(folder + sidecar_stem(name), ()))
        ):
            return described
        proposal = self.proposals[folder + main]
        self.proposals[folder + main] = proposal.model_copy(update={"sidecars": (*proposal.sidecars, entry.address)})
        return described | {"main": folder + main}


def _split(address: str) -> tuple[str, str]:
    folder, slash, name = address.rpartition("/")
    return folder + slash, name
