"""The file that the steps of a job read: the source itself, or the GeoTIFF that a sandbox makes of it."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from anabranch.engine.worker.context import Context
from anabranch.errors import AnabranchError, ContractViolationError, Permanent
from anabranch.geo.sidecar_names import find_kind, names_beside, sidecar_names
from anabranch.plugins.raster.files.magic_bytes import identify_format
from anabranch.plugins.raster.formats.models import Choice, Extracted, UsedSidecars
from anabranch.plugins.raster.formats.sources import open_ranges
from anabranch.plugins.raster.handler_models import CogSource, Plan
from anabranch.plugins.raster.models import Checked, Kind, Sidecar, ValidateOptions
from anabranch.plugins.raster.sandbox_calls import run_in_sandbox, sandbox_folder
from anabranch.plugins.raster.settings import RasterSettings
from anabranch.storage.addresses import parse_address
from anabranch.storage.ranged_object import Ranges, source_changed
from anabranch.storage.work_files import WorkFiles

__all__ = ["Prepared", "fetch_again", "find_sidecars", "find_versions", "pin_with_sidecars", "prepare"]

MAX_SIDECAR_BYTES = 2**30
STORED_NAME = "source"


@dataclass(frozen=True)
class Prepared:
    """A file to read, its source, what was made of that, and the sidecars that were read."""

    path: Path | Ranges
    name: str
    size: int
    sha256: str
    extracted: Extracted
    sidecars: tuple[Sidecar, ...] = ()

    def adapt(self, options: ValidateOptions) -> ValidateOptions:
        """The options of the validation: bands that are times are no colours."""
        if not self.extracted.temporal or options.raster_type is not None:
            return options
        return options.model_copy(update={"raster_type": Kind.TEMPORAL})

    def complete(self, checked: Checked, work: WorkFiles) -> Checked:
        """The result of the validation, with the facts of the source instead of the copy's, which is stored."""
        made, raster = self.extracted, checked.raster
        facts: dict[str, object] = {
            "warnings": (*made.notices, *raster.warnings),
            "times": made.times or raster.times,
            "sidecars": self.sidecars,
        }
        if made.origin and isinstance(self.path, Path):
            copied = {"name": self.name, "size_bytes": self.size, "driver": made.origin.driver}
            facts |= {"origin": made.origin.model_copy(update={"stored": work.put(self.path, STORED_NAME)}), **copied}
        return checked.model_copy(update={"raster": raster.model_copy(update=facts)})


def prepare(
    ctx: Context, source: str, sha256: str | None, choice: Choice, *, tag: str | None = None, pin: str | None = None
) -> Prepared:
    """Fetch a source and its sidecars, and make a GeoTIFF of them where that is needed.

    A pinned source stays where it is and is read by ranges.
    """
    if pin is not None:
        ranges = open_ranges(ctx, source, pin)
        digest = sha256 or ranges.sha256(ctx.progress)
        return Prepared(ranges, ranges.name, ranges.size, digest, Extracted(), choice.sidecars)
    fetched = ctx.storage.stage(source, sha256, tag=tag)
    path, facts = fetched.path, (fetched.path.name, fetched.size, fetched.sha256)
    if not choice.sidecars and not choice.variable and not choice.time and not _needs_conversion(path):
        return Prepared(path, *facts, Extracted())
    staged = tuple(_stage(ctx, sidecar) for sidecar in choice.sidecars)
    sidecars = tuple(sidecar for sidecar, _ in staged)
    folder = sandbox_folder(ctx) / "extracted"
    folder.mkdir(exist_ok=True)
    extracted = run_in_sandbox(
        ctx,
        "extract",
        Extracted,
        source=path,
        folder=folder,
        choice=choice.model_copy(update={"sidecars": sidecars}),
        settings=ctx.settings(RasterSettings),
        **{sidecar.kind: beside for sidecar, beside in staged},
    )
    return Prepared(_locate(folder, extracted.file) if extracted.file else path, *facts, extracted, sidecars)


def fetch_again(ctx: Context, validated: CogSource) -> Path | Ranges:
    """The file that an earlier step validated and stored; made once more from the same source where it is gone."""
    raster, source, sha256 = validated.raster, validated.source, validated.sha256
    if (origin := raster.origin) is None:
        return open_ranges(ctx, source, validated.pin) if validated.pin else ctx.storage.fetch(source, sha256)
    with suppress(ContractViolationError):  # another job validated it, whose work files are its own
        if origin.stored and (stored := ctx.work.fetch(origin.stored, cached=True)):
            return stored
    choice = Choice(
        variable=origin.variable or None,
        time=origin.time or None,
        input_crs=raster.repairs.crs,
        sidecars=origin.sidecars,
    )
    return prepare(ctx, source, sha256, choice).path


def pin_with_sidecars(ctx: Context, plan: Plan, sidecars: tuple[Sidecar, ...], pin: str | None) -> Plan:
    """The plan of a source with sidecars: it is read by ranges where they add nothing, else copied whole."""
    if pin is None or not sidecars:
        return plan.model_copy(update={"sidecars": sidecars, "pin": pin})
    staged = tuple(_stage(ctx, sidecar) for sidecar in sidecars)
    found = run_in_sandbox(
        ctx,
        "find_used",
        UsedSidecars,
        source=open_ranges(ctx, plan.source, pin),
        settings=ctx.settings(RasterSettings),
        **{sidecar.kind: path for sidecar, path in staged},
    )
    if found.kinds:
        return plan.model_copy(update={"sidecars": sidecars})
    read = tuple(sidecar for sidecar, _ in staged)
    return plan.model_copy(update={"pin": pin, "sidecars": read, "warnings": (*plan.warnings, *found.notices)})


def find_sidecars(ctx: Context, source: str, given: tuple[str, ...]) -> Iterator[Sidecar]:
    """The sidecars of a raster: those given, and those beside it; one of each kind."""
    name = parse_address(source).name
    seen: set[str] = set()
    for address in (*given, *_list_beside(ctx, source)):
        kind = find_kind(parse_address(address).name, name)
        if kind is None:
            raise Permanent(
                f"{parse_address(address).name[:80]} is no sidecar of {name[:80]}",
                code="raster.sidecar",
                remedy=f"Give files like {', '.join(sidecar_names(name))}.",
            )
        if kind not in seen:
            seen.add(kind)
            yield Sidecar(kind=kind, address=address)


def find_versions(
    ctx: Context, source: dict[str, str], sidecars: tuple[Sidecar, ...], expected: dict[str, str] | None
) -> dict[str, str]:
    """The versions of a source and its sidecars by address; `source.changed` if one is not as expected."""
    versions = source | {each.address: ctx.storage.stat(each.address).tag for each in sidecars}
    for address, version in (expected or {}).items():
        if versions.get(address) != version:
            raise source_changed(address)
    return versions


def _list_beside(ctx: Context, source: str) -> Iterator[str]:
    """The addresses of sidecars in the folder of a source; none beside an upload, which is alone in its folder."""
    at = parse_address(source)
    folder, name = PurePosixPath(at.path).parent, at.name
    if folder.parts[:1] == ("uploads",):
        return
    for beside in names_beside(name):
        address = f"{at.tier}://{folder / beside}"
        with suppress(AnabranchError):  # it does not exist or can't be checked: no reason to fail
            ctx.storage.stat(address)
            yield address


def _stage(ctx: Context, sidecar: Sidecar) -> tuple[Sidecar, Path]:
    size = ctx.storage.stat(sidecar.address).size
    if size > MAX_SIDECAR_BYTES:
        raise Permanent(
            f"{parse_address(sidecar.address).name[:80]} has {size:,} bytes, over the limit of {MAX_SIDECAR_BYTES:,}",
            code="raster.sidecar",
            remedy="Leave it out, or write what it says into the raster.",
        )
    staged = ctx.storage.stage(sidecar.address, sidecar.sha256 or None)
    return sidecar.model_copy(update={"sha256": staged.sha256}), staged.path


def _needs_conversion(path: Path) -> bool:
    if not path.is_file() or path.stat().st_size == 0:
        return False  # the validation says so
    found = identify_format(path)
    return found.archive or (bool(found.drivers) and not found.readable)


def _locate(folder: Path, file: str) -> Path:
    """A file that the sandbox wrote; its answer is not trusted."""
    path = folder / file
    if path.is_symlink() or not path.resolve().is_relative_to(folder.resolve()):
        raise Permanent(
            f"the sandbox named {file[:80]!r}, which is outside its folder",
            code="raster.library",
            remedy="Report it with the source file.",
        )
    return path
