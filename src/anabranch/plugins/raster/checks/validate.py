"""Checks that a raster can be published; reports all errors at once where possible."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from rasterio.crs import CRS
from rasterio.io import DatasetReader
from rasterio.transform import array_bounds

from anabranch.errors import Permanent
from anabranch.geo.boxes import Box
from anabranch.plugins.raster.checks.bands import (
    check_alpha,
    check_dtype,
    check_masks,
    check_nodata,
    describe_bands,
    mask_kind,
)
from anabranch.plugins.raster.checks.classify import Guess, detect_kind, resolve_kind
from anabranch.plugins.raster.checks.combined_errors import raise_all
from anabranch.plugins.raster.checks.crs import name_crs, parse_crs, resolve_crs
from anabranch.plugins.raster.checks.georef import check_bounds, check_grid, crs_of, is_unrectified, upright
from anabranch.plugins.raster.checks.limits import check_limits, check_target, check_whole, raw_bytes
from anabranch.plugins.raster.checks.pixel_sample import PixelSample, sample_pixels
from anabranch.plugins.raster.checks.times import find_times
from anabranch.plugins.raster.cog.encoding import encoding_of
from anabranch.plugins.raster.cog.target_area import check_area
from anabranch.plugins.raster.cog.target_view import find_target
from anabranch.plugins.raster.files.magic_bytes import identify_format
from anabranch.plugins.raster.files.reader import bounded, choose_threads, open_raster
from anabranch.plugins.raster.files.source import Source
from anabranch.plugins.raster.models import CogOptions, Estimate, Kind, Notice, Repairs, Validated, ValidateOptions
from anabranch.plugins.raster.settings import RasterSettings

__all__ = ["choose", "validate"]

MB = 1024**2
MB_PER_SECOND = 20
DEFAULT_OPTIONS, DEFAULT_SETTINGS = ValidateOptions(), RasterSettings()
T = TypeVar("T")


@dataclass
class Findings:
    """The errors, notices and repairs found while a raster is checked."""

    errors: list[Permanent] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)
    repairs: Repairs = field(default_factory=Repairs)

    def add(
        self, errors: tuple[Permanent, ...] = (), notices: tuple[Notice, ...] = (), repairs: Repairs | None = None
    ) -> None:
        """Add the findings of one check."""
        self.errors += errors
        self.notices += notices
        changed = {} if repairs is None else repairs.model_dump(exclude_defaults=True)
        self.repairs = self.repairs.model_copy(update=changed)

    def attempt(self, check: Callable[[], T]) -> T | None:
        """The result of a check, or None where it raises an error, which is kept."""
        try:
            return check()
        except Permanent as error:
            self.errors.append(error)
            return None

    def raise_errors(self) -> None:
        """Raise the errors: one as it is, several as one that lists them all."""
        raise_all(self.errors)


def validate(
    path: Source, options: ValidateOptions = DEFAULT_OPTIONS, settings: RasterSettings = DEFAULT_SETTINGS
) -> Validated:
    """All facts of a raster that can be published; else an error with the reason and a remedy."""
    with bounded(settings.raster_memory_mb, choose_threads(path)), open_raster(path) as src:
        size = path.stat().st_size
        findings = Findings(errors=check_limits(src, size, settings))
        findings.raise_errors()  # a raster over the limits is not read
        return _validate(src, path, size, options, settings, findings)


def _validate(
    src: DatasetReader, path: Source, size: int, options: ValidateOptions, settings: RasterSettings, findings: Findings
) -> Validated:
    _check_suffix(findings, path)
    crs = _check_place(findings, src, options)
    sample = _check_pixels(findings, src, path, size)
    kinds = sample and findings.attempt(lambda: _check_kind(src, sample, options, path.name))
    findings.add(notices=kinds[1].notices if kinds else ())
    bounds = crs and _check_bounds(findings, src, crs)
    findings.raise_errors()
    if kinds and crs and bounds and options.target_crs:
        findings.add(notices=tuple(check_area(src, crs, parse_crs(options.target_crs, "target_crs"), bounds)))
        _check_target(findings, src, path, bounds, options, settings, kinds[1])
        findings.raise_errors()
    if not (crs and sample and kinds and bounds):
        raise RuntimeError("a check failed without an error")
    estimate = _estimate(src, options, settings, findings.repairs)
    return _describe(src, path.name, size, estimate, findings, crs, sample, kinds, bounds)


def _check_suffix(findings: Findings, path: Source) -> None:
    found, suffix = identify_format(path), path.suffix.lower()
    if suffix and found.suffixes and suffix not in found.suffixes:
        message = f"The extension is {suffix}, but the content is {found.title}."
        findings.add(notices=(Notice(code="raster.suffix", message=message),))


def _check_place(findings: Findings, src: DatasetReader, options: ValidateOptions) -> CRS | None:
    target, given = options.target_crs, options.input_crs
    hopeless = not crs_of(src) and not given and is_unrectified(src)
    resolved = None if hopeless else findings.attempt(lambda: resolve_crs(crs_of(src), given))
    if target is not None:
        findings.attempt(lambda: parse_crs(target, "target_crs"))
    placed = check_grid(src, warped=target is not None)
    findings.add(placed.errors, placed.notices, placed.repairs)
    if resolved is None:
        return None
    findings.add(notices=resolved.notices, repairs=resolved.repairs)
    return None if placed.errors else resolved.crs


def _check_bounds(findings: Findings, src: DatasetReader, crs: CRS) -> Box | None:
    found = check_bounds(src, crs)
    if isinstance(found, Permanent):
        findings.add(errors=(found,))
        return None
    return found


def _check_pixels(findings: Findings, src: DatasetReader, path: Source, size: int) -> PixelSample | None:
    broken = [error for error in (check_dtype(src), check_masks(src), check_whole(src, size)) if error]
    findings.add(errors=tuple(broken))
    if broken:
        return None
    repairs, notices = check_nodata(src, path)
    findings.add(notices=notices, repairs=repairs)
    sample = findings.attempt(lambda: sample_pixels(src))
    if sample is None:
        return None
    findings.add(notices=findings.attempt(lambda: check_alpha(src)) or ())
    findings.add(tuple(sample.errors()), tuple(sample.notices()))
    if sample.undeclared_nan:
        findings.add(repairs=Repairs(nodata="nan"))
    return sample


def _check_kind(src: DatasetReader, sample: PixelSample, options: ValidateOptions, name: str) -> tuple[Kind, Guess]:
    detected = detect_kind(src, sample, name)
    settled = resolve_kind(src, detected, options.raster_type)
    encoding_of(settled.kind, options.profiles[0], src.dtypes[0])
    return detected.kind, settled


def _check_target(
    findings: Findings,
    src: DatasetReader,
    path: Source,
    bounds: Box,
    options: ValidateOptions,
    settings: RasterSettings,
    guess: Guess,
) -> None:
    target = find_target(path, choose(guess.kind, findings.repairs, options, settings, discrete=guess.discrete))
    error = check_target(src, bounds, target.width * target.height, options.target_crs, settings)
    findings.add(errors=(error,) if error else ())


def choose(
    kind: Kind, repairs: Repairs, options: ValidateOptions, settings: RasterSettings, *, discrete: bool
) -> CogOptions:
    """The options with which the COG of a raster will be written."""
    return CogOptions(
        kind=kind,
        discrete=discrete,
        profile=options.profiles[0],
        repairs=repairs,
        target_crs=options.target_crs,
        memory_mb=settings.raster_memory_mb,
    )


def _describe(
    src: DatasetReader,
    name: str,
    size: int,
    estimate: Estimate,
    findings: Findings,
    crs: CRS,
    sample: PixelSample,
    kinds: tuple[Kind, Guess],
    bounds: Box,
) -> Validated:
    if src.width == 1 and src.height == 1:
        findings.add(notices=(Notice(code="raster.one_pixel", message="The raster is one pixel."),))
    if len(src.subdatasets) > 1:
        message = f"The file holds {len(src.subdatasets)} images; only the first is used."
        findings.add(notices=(Notice(code="raster.more_images", message=message),))
    transform = upright(src, findings.repairs)
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
        bands=describe_bands(src, sample.bands, exact=sample.exact),
        mask=mask_kind(src),
        kind=kinds[1].kind,
        detected=kinds[0],
        why=kinds[1].why,
        discrete=kinds[1].discrete,
        nodata_percent=sample.nodata_percent,
        repairs=findings.repairs,
        times=find_times(tags, name),
        estimate=estimate,
        warnings=tuple(findings.notices),
    )


def _estimate(src: DatasetReader, options: ValidateOptions, settings: RasterSettings, repairs: Repairs) -> Estimate:
    raw = -(-raw_bytes(src) // MB)
    passes = 2 if repairs.any or options.target_crs else 1
    return Estimate(
        memory_mb=settings.raster_memory_mb, disk_mb=raw * (passes + 1), seconds=5 + raw * passes // MB_PER_SECOND
    )
