"""The verdict on a set of rasters, and its report."""

from collections.abc import Iterator, Sequence
from itertools import chain, islice

from anabranch.engine.worker.context import Context
from anabranch.errors import Permanent
from anabranch.plugins.raster.collections.compare import compare_facts
from anabranch.plugins.raster.collections.models import Comparison, FileReport, Odd, SetReport, summarize_warnings
from anabranch.plugins.raster.item.publication import put_output
from anabranch.plugins.raster.models import Notice
from anabranch.plugins.raster.settings import RasterSettings
from anabranch.plugins.stac.facts import Output
from anabranch.sandbox.faults import Failure, list_some, refuse_set
from anabranch.strict_model import StrictModel

__all__ = ["Verdict", "judge_set"]

MAX_OUTPUTS = 1_000  # that a result lists; the report lists all


class Verdict(StrictModel):
    """Whether a set is accepted, why not, and the address of its report."""

    accepted: bool
    failure: Failure | None = None
    count: int
    failed: int
    odd: int
    warnings: tuple[Notice, ...]
    outputs: tuple[Output, ...]
    report: str


def judge_set(collection: str, files: Sequence[FileReport], ctx: Context, *, allow_mixed: bool) -> Verdict:
    """Write the report of a set; it is accepted if no file failed, and all are alike or may be mixed."""
    tolerance = ctx.settings(RasterSettings).raster_pixel_tolerance
    comparison = compare_facts([file.facts for file in files if file.facts], tolerance)
    failed = [file for file in files if file.failure]
    failure = _find_failure(comparison, files, failed, allow_mixed=allow_mixed)
    path = ctx.scratch / "report.json"
    report = SetReport(
        collection=collection, count=len(files), failed=len(failed), comparison=comparison, files=tuple(files)
    )
    path.write_text(report.model_dump_json(indent=2, exclude_defaults=True) + "\n")
    written = put_output(ctx, path, "report", "application/json")
    listed = chain.from_iterable(file.outputs for file in files)
    return Verdict(
        accepted=failure is None,
        failure=failure,
        count=len(files),
        failed=len(failed),
        odd=len(comparison.odd),
        warnings=(*summarize_warnings(files), *_warn(comparison.odd)),
        outputs=(*islice(listed, MAX_OUTPUTS), written),
        report=written.href,
    )


def _find_failure(
    comparison: Comparison, files: Sequence[FileReport], failed: Sequence[FileReport], *, allow_mixed: bool
) -> Failure | None:
    if failed:
        return refuse_set(
            [(file.source, file.failure) for file in failed if file.failure], len(files), code="raster.files"
        )
    if comparison.odd and not allow_mixed:
        named = (_describe(odd) for odd in comparison.odd)
        return Failure.of(
            Permanent(
                f"{len(comparison.odd)} of {len(files)} rasters differ from the others:"
                f" {list_some(named, len(comparison.odd))}",
                code="raster.mixed",
                remedy="Leave them out, give `target_crs` or `raster_type` where that makes them alike, or set "
                "`allow_mixed` to publish them together.",
            )
        )
    return None


def _describe(odd: Odd) -> str:
    differs = (f"{one.property} {one.value[:80]} instead of {one.majority[:80]}" for one in odd.differs)
    return f"{odd.source} ({', '.join(differs)})"


def _warn(odd: Sequence[Odd]) -> Iterator[Notice]:
    if odd:
        message = f"{len(odd)} rasters differ from the others: {list_some(map(_describe, odd), len(odd))}"
        yield Notice(code="raster.mixed", message=message)
