"""Whether a raster can be published, with every mistake at once where that is possible."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import TypeVar

from rasterio.crs import CRS
from rasterio.io import DatasetReader
from rasterio.transform import array_bounds

from anabranch.errors import Permanent
from anabranch.plugins.raster.bands import (
    check_alpha,
    check_dtype,
    check_masks,
    check_nodata,
    describe_bands,
    mask_kind,
)
from anabranch.plugins.raster.content import Content, look
from anabranch.plugins.raster.crs import name_crs, parse_crs, resolve_crs
from anabranch.plugins.raster.georef import check_bounds, check_grid, is_unrectified, upright
from anabranch.plugins.raster.kinds import Guess, detect, settle
from anabranch.plugins.raster.limits import check_limits, check_target, check_whole, raw_bytes
from anabranch.plugins.raster.mistakes import raise_all
from anabranch.plugins.raster.models import Box, CogOptions, Estimate, Kind, Mends, Notice, Validated, ValidateOptions
from anabranch.plugins.raster.profiles import profile_of
from anabranch.plugins.raster.reader import bounded, open_raster
from anabranch.plugins.raster.signs import name_content
from anabranch.plugins.raster.times import find_times
from anabranch.plugins.raster.view import count_pixels

__all__ = ["choose", "validate"]

MB = 1024**2
RATE_MB = 20
T = TypeVar("T")


@dataclass
class Findings:
    """What is collected while a raster is looked at."""

    mistakes: list[Permanent] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)
    mends: Mends = field(default_factory=Mends)

    def add(
        self, mistakes: tuple[Permanent, ...] = (), notices: tuple[Notice, ...] = (), mends: Mends | None = None
    ) -> None:
        """Take in what one check found."""
        self.mistakes += mistakes
        self.notices += notices
        changed = {} if mends is None else mends.model_dump(exclude_defaults=True)
        self.mends = self.mends.model_copy(update=changed)

    def attempt(self, check: Callable[[], T]) -> T | None:
        """What a check gives, or None where it raises a mistake, which is kept."""
        try:
            return check()
        except Permanent as mistake:
            self.mistakes.append(mistake)
            return None

    def settle(self) -> None:
        """Raise what is wrong: one mistake as it is, several as one that names them all."""
        raise_all(self.mistakes)


def validate(path: Path, options: ValidateOptions) -> Validated:
    """All that is known of a raster that can be published; else an error that says what is wrong and what to do."""
    with bounded(options.memory_mb), open_raster(path) as src:
        size = path.stat().st_size
        findings = Findings(mistakes=check_limits(src, size, options.limits))
        findings.settle()  # nothing is read of what asks for too much
        return _validate(src, path, size, options, findings)


def _validate(src: DatasetReader, path: Path, size: int, options: ValidateOptions, findings: Findings) -> Validated:
    name = PurePath(options.name or path.name).name
    _check_suffix(findings, path, name)
    crs = _check_place(findings, src, options)
    content = _check_pixels(findings, src, path, size)
    kinds = content and findings.attempt(lambda: _check_kind(src, content, options, name))
    findings.add(notices=kinds[1].notices if kinds else ())
    bounds = crs and _check_bounds(findings, src, crs)
    findings.settle()
    if kinds and options.target_crs:
        _check_target(findings, src, path, options, kinds[1])
        findings.settle()
    if not (crs and content and kinds and bounds):
        raise RuntimeError("a check failed and said nothing")
    return _describe(src, name, size, options, findings, crs, content, kinds, bounds)


def _check_suffix(findings: Findings, path: Path, name: str) -> None:
    found, suffix = name_content(path), PurePath(name).suffix.lower()
    if suffix and found.suffixes and suffix not in found.suffixes:
        message = f"The name ends in {suffix}, and the content is {found.title}."
        findings.add(notices=(Notice(code="raster.suffix", message=message),))


def _check_place(findings: Findings, src: DatasetReader, options: ValidateOptions) -> CRS | None:
    target, given = options.target_crs, options.input_crs
    hopeless = not src.crs and not given and is_unrectified(src)
    resolved = None if hopeless else findings.attempt(lambda: resolve_crs(src.crs, given))
    if target is not None:
        findings.attempt(lambda: parse_crs(target, "target_crs"))
    placed = check_grid(src, warped=target is not None)
    findings.add(placed.mistakes, placed.notices, placed.mends)
    if resolved is None:
        return None
    findings.add(notices=resolved.notices, mends=resolved.mends)
    return None if placed.mistakes else resolved.crs


def _check_bounds(findings: Findings, src: DatasetReader, crs: CRS) -> Box | None:
    bounds, mistake = check_bounds(src, crs)
    findings.add(mistakes=(mistake,) if mistake else ())
    return None if mistake else bounds


def _check_pixels(findings: Findings, src: DatasetReader, path: Path, size: int) -> Content | None:
    broken = [mistake for mistake in (check_dtype(src), check_masks(src), check_whole(src, size)) if mistake]
    findings.add(mistakes=tuple(broken))
    if broken:
        return None
    mends, notices = check_nodata(src, path)
    findings.add(notices=notices, mends=mends)
    content = findings.attempt(lambda: look(src))
    if content is None:
        return None
    findings.add(notices=findings.attempt(lambda: check_alpha(src)) or ())
    findings.add(tuple(content.mistakes()), tuple(content.notices()))
    if content.undeclared_nan:
        findings.add(mends=Mends(nodata="nan"))
    return content


def _check_kind(src: DatasetReader, content: Content, options: ValidateOptions, name: str) -> tuple[Kind, Guess]:
    detected = detect(src, content, name)
    settled = settle(src, detected, options.raster_type)
    profile_of(settled.kind, options.tier, src.dtypes[0])
    return detected.kind, settled


def _check_target(findings: Findings, src: DatasetReader, path: Path, options: ValidateOptions, guess: Guess) -> None:
    pixels = count_pixels(path, choose(guess.kind, findings.mends, options, discrete=guess.discrete))
    mistake = check_target(src, pixels, options.target_crs, options.limits)
    findings.add(mistakes=(mistake,) if mistake else ())


def choose(kind: Kind, mends: Mends, options: ValidateOptions, *, discrete: bool = False) -> CogOptions:
    """How the COG of a raster will be written."""
    return CogOptions(
        kind=kind,
        discrete=discrete,
        tier=options.tier,
        mends=mends,
        target_crs=options.target_crs,
        memory_mb=options.memory_mb,
    )


def _describe(
    src: DatasetReader,
    name: str,
    size: int,
    options: ValidateOptions,
    findings: Findings,
    crs: CRS,
    content: Content,
    kinds: tuple[Kind, Guess],
    bounds: Box,
) -> Validated:
    if src.width == 1 and src.height == 1:
        findings.add(notices=(Notice(code="raster.one_pixel", message="The raster is one pixel."),))
    if len(src.subdatasets) > 1:
        message = f"The file holds {len(src.subdatasets)} images; only the first is taken."
        findings.add(notices=(Notice(code="raster.more_images", message=message),))
    transform = upright(src, findings.mends)
    tags = {**src.tags(), **src.tags(ns="IMAGERY")}
    return Validated(
        name=name,
        driver=src.driver,
        size_bytes=size,
        width=src.width,
        height=src.height,
        dtype=src.dtypes[0],
        crs=name_crs(crs),
        transform=(transform.a, transform.b, transform.c, transform.d, transform.e, transform.f),
        bounds=array_bounds(src.height, src.width, transform),
        bounds_wgs84=bounds,
        bands=describe_bands(src, content.bands, exact=content.exact),
        mask=mask_kind(src),
        kind=kinds[1].kind,
        detected=kinds[0],
        why=kinds[1].why,
        discrete=kinds[1].discrete,
        nodata_percent=content.nodata_percent,
        mends=findings.mends,
        times=find_times(tags, name),
        estimate=_estimate(src, options, findings.mends),
        warnings=tuple(findings.notices),
    )


def _estimate(src: DatasetReader, options: ValidateOptions, mends: Mends) -> Estimate:
    raw = -(-raw_bytes(src) // MB)
    passes = 2 if mends.any or options.target_crs else 1
    return Estimate(memory_mb=options.memory_mb, disk_mb=raw * (passes + 1), seconds=5 + raw * passes // RATE_MB)
