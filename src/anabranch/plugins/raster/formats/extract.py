"""Any supported file becomes the plain GeoTIFF that all further steps read: unpacked, chosen, placed."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import rasterio
from affine import Affine
from rasterio.crs import CRS
from rasterio.io import DatasetReader

from anabranch.errors import Permanent
from anabranch.geo.sidecar_names import SidecarKind
from anabranch.plugins.raster.checks.combined_errors import raise_all
from anabranch.plugins.raster.checks.limits import check_limits
from anabranch.plugins.raster.files.magic_bytes import FileFormat
from anabranch.plugins.raster.files.reader import bounded, identify_file, open_as, open_raster
from anabranch.plugins.raster.files.source import Source
from anabranch.plugins.raster.formats.archive import Unpacked, unpack
from anabranch.plugins.raster.formats.choose import ALL_TIMES, choose_steps, choose_variable
from anabranch.plugins.raster.formats.contents import Step, Variable, list_variables, read_units
from anabranch.plugins.raster.formats.geotiff import Copy, Progress, compare_geotiff, write_geotiff
from anabranch.plugins.raster.formats.models import Choice, Extracted, TimeSteps, UsedSidecars
from anabranch.plugins.raster.formats.sidecars import Additions, read_additions
from anabranch.plugins.raster.models import Notice, Origin, Sidecar, Times
from anabranch.plugins.raster.settings import RasterSettings
from anabranch.redaction import show_text

__all__ = ["extract", "find_used_sidecars", "list_times"]

_WITH_VARIABLES = {"netCDF", "HDF5", "GRIB"}
_MAY_NAME_FILES = {"HDF5", "HFA"}  # external links, virtual datasets, external storage; spill files
_GLOBAL = "NC_GLOBAL#"
MAX_TAGS, MAX_TAG_CHARS = 64, 1_000
WGS84 = "EPSG:4326"


@dataclass(frozen=True)
class _Chosen:
    """The dataset that is read, and the bands of it; a format without variables has one, with all its bands."""

    dataset: Path | str
    driver: str
    variable: Variable | None = None
    steps: tuple[Step, ...] = ()


def extract(
    source: Path,
    folder: Path,
    choice: Choice,
    sidecars: Mapping[SidecarKind, Path],
    settings: RasterSettings,
    progress: Progress,
    *,
    confined: bool = True,
) -> Extracted:
    """The GeoTIFF of a choice, written below the folder; the source itself where it is one and needs nothing."""
    path, found = source, identify_file(source)[1]
    unpacked = unpack(source, folder, settings) if found.archive else None
    inside = unpacked.sidecars if unpacked else {}
    if unpacked:
        path, found = unpacked.path, identify_file(unpacked.path)[1]
    _require_readable(path, found, confined=confined)
    with bounded(settings.raster_memory_mb, GRIB_NORMALIZE_UNITS="NO"):
        chosen = _choose(path, found, choice)
        with _open(path, found, chosen) as src:
            bands = tuple(band for step in chosen.steps for band in step.bands) or tuple(src.indexes)
            raise_all(check_limits(src, path.stat().st_size, settings, count=len(bands)))
            added = read_additions(src, {**sidecars, **inside})
            for kind in sorted(sidecars.keys() & inside.keys()):
                added.skip(sidecars[kind], "the archive has one of its own")
            _assume_degrees(src, added, choice)
            _refuse_curvilinear(src, path.name, chosen)
            added.notices += [*_check_rows(src, path.name, chosen), *_warn_of_units(src)]
            used = tuple(beside for beside in choice.sidecars if beside.kind in added.used - inside.keys())
            origin = _describe_origin(found, chosen, used, unpacked, added)
            file = str(path.relative_to(folder)) if unpacked else ""
            if not found.readable or added.applied:
                target = folder / "source" / f"{path.stem}.tif"
                copy = _plan_copy(src, chosen, bands, added)
                write_geotiff(src, copy, target, progress)
                compare_geotiff(src, copy, target)
                file = str(target.relative_to(folder))
    return Extracted(
        file=file,
        origin=origin if file else None,
        times=_find_times(chosen),
        temporal=len(chosen.steps) > 1,
        notices=(*(unpacked.notices if unpacked else ()), *added.notices),
    )


def find_used_sidecars(source: Source, sidecars: Mapping[SidecarKind, Path], settings: RasterSettings) -> UsedSidecars:
    """Which sidecars of a GeoTIFF or JPEG 2000 file add something to it; only its header is read."""
    with bounded(settings.raster_memory_mb), open_raster(source) as src:
        added = read_additions(src, sidecars)
    return UsedSidecars(kinds=tuple(sorted(added.used)), notices=tuple(added.notices))


@contextmanager
def _open(path: Path, found: FileFormat, chosen: _Chosen) -> Iterator[DatasetReader]:
    """The chosen dataset; rows of a netCDF variable without coordinates stay in the order of the file."""
    with open_as(path, found, chosen.driver, chosen.dataset) as src:
        if chosen.driver != "netCDF" or not src.transform.is_identity:
            yield src
            return
    with rasterio.Env(GDAL_NETCDF_BOTTOMUP="NO"), open_as(path, found, chosen.driver, chosen.dataset) as src:
        yield src


def list_times(source: Path, variable: str | None, settings: RasterSettings, *, confined: bool = True) -> TimeSteps:
    """The time steps of a variable; an error where it has none, or where the variable must be chosen."""
    found = identify_file(source)[1]
    _require_readable(source, found, confined=confined)
    with bounded(settings.raster_memory_mb):
        chosen = _choose(source, found, Choice(variable=variable, time=ALL_TIMES))
    labels = tuple(step.label for step in chosen.steps if step.label)
    if chosen.variable is None or not labels or len(labels) > settings.raster_max_times:
        count = f"{len(labels):,} times, over the limit of {settings.raster_max_times:,}" if labels else "no times"
        raise Permanent(
            f"{show_text(chosen.variable.name) if chosen.variable else 'the raster'} of {source.name} has {count}",
            code="raster.time",
            remedy="Publish it with process_raster, or split the file.",
        )
    return TimeSteps(variable=chosen.variable.name, times=labels)


def _require_readable(path: Path, found: FileFormat, *, confined: bool) -> None:
    if not found.drivers:
        raise Permanent(
            f"{path.name} is {found.title}, which is not a supported raster format",
            code="raster.format",
            remedy=found.remedy.format(name=path.name),
        )
    if not confined and _MAY_NAME_FILES & set(found.drivers):
        raise Permanent(
            f"{path.name} is {found.title}, which may refer to other files, and this kernel can't keep them closed",
            code="raster.unconfined",
            remedy="Convert it to a GeoTIFF, or run workers on Linux 5.13 or later with Landlock.",
        )


def _choose(path: Path, found: FileFormat, choice: Choice) -> _Chosen:
    if not _WITH_VARIABLES & set(found.drivers):
        if choice.variable or choice.time:
            asked = "variable" if choice.variable else "time"
            raise Permanent(
                f"{path.name} is {found.title}, which has no variables or times to choose from",
                code=f"raster.{asked}",
                remedy=f"Omit `{asked}`.",
            )
        return _Chosen(path.resolve(), found.drivers[0])
    variables = list_variables(path, found, choice.variable)
    variable = choose_variable(path.name, variables, choice.variable)
    steps = choose_steps(path.name, variable, choice.time)
    return _Chosen(variable.dataset, variable.driver, variable, steps)


def _assume_degrees(src: DatasetReader, added: Additions, choice: Choice) -> None:
    """Take degrees of latitude and longitude without a datum, as CF files have them, for those of WGS 84."""
    if src.crs or added.crs or choice.input_crs or src.transform.is_identity or not _has_degrees(src.tags()):
        return
    added.crs = CRS.from_string(WGS84)
    added.applied.append("WGS 84 for latitudes and longitudes without a datum")
    message = "The file has latitudes and longitudes, but no datum; WGS 84 is used. Set `input_crs` if it is another."
    added.notices.append(Notice(code="raster.crs_assumed", message=message))


def _has_degrees(tags: Mapping[str, str]) -> bool:
    said = {value.lower() for key, value in tags.items() if key.endswith(("#standard_name", "#units"))}
    north, east = {"latitude", "degrees_north", "degree_north"}, {"longitude", "degrees_east", "degree_east"}
    return bool(said & north and said & east) and "projection_x_coordinate" not in said


def _refuse_curvilinear(src: DatasetReader, name: str, chosen: _Chosen) -> None:
    if chosen.variable is None or not src.transform.is_identity or "GEOLOCATION" not in src.tag_namespaces():
        return
    raise _irregular(name, chosen)


def _irregular(name: str, chosen: _Chosen) -> Permanent:
    variable = show_text(chosen.variable.name if chosen.variable else "the raster")
    return Permanent(
        f"{variable} of {name} has no regular grid: its coordinates are uneven, or one for each pixel",
        code="raster.no_georeference",
        remedy="Rectify it first: `gdalwarp -geoloc -t_srs EPSG:4326`; only you know which resolution fits.",
    )


def _check_rows(src: DatasetReader, name: str, chosen: _Chosen) -> list[Notice]:
    """GDAL places the rows of a Gaussian grid evenly; a warning where none of them moves by half a pixel."""
    rows = [float(part) for part in src.tags(ns="GEOLOCATION2").get("Y_VALUES", "").strip("{}").split(",") if part]
    if len(rows) != src.height:
        return []
    grid, rows = src.transform, sorted(rows, reverse=src.transform.e < 0)
    apart = max(abs(grid.f + (place + 0.5) * grid.e - row) for place, row in enumerate(rows))
    if apart > abs(grid.e) / 2:
        raise _irregular(name, chosen)
    message = f"The latitudes are not spaced evenly, but rows are: they are up to {apart:.2g} degrees off."
    return [Notice(code="raster.uneven_rows", message=message)]


def _warn_of_units(src: DatasetReader) -> Iterator[Notice]:
    if any(read_units(src)):
        return
    try:
        src.units  # noqa: B018  # rasterio reads them now
    except UnicodeDecodeError:
        yield Notice(code="raster.units", message="The units are not in UTF-8, and are left out.")


def _plan_copy(src: DatasetReader, chosen: _Chosen, bands: tuple[int, ...], added: Additions) -> Copy:
    units, unit = read_units(src), chosen.variable.unit if chosen.variable else ""
    scales = ((band, (src.scales[band - 1], src.offsets[band - 1])) for band in bands)
    return Copy(
        bands=bands,
        crs=src.crs or added.crs,
        transform=added.transform or src.transform or Affine.identity(),
        nodata=src.nodatavals[bands[0] - 1] if added.nodata is None else added.nodata,
        descriptions=tuple(_name_bands(src, chosen, bands, added)),
        units=tuple(show_text(units[band - 1] or added.units.get(band, "") or unit) for band in bands),
        scales=tuple(added.scales.get(band, own) for band, own in scales),
        mask=added.mask,
        tags=dict(_copy_tags(src, chosen)),
    )


def _name_bands(src: DatasetReader, chosen: _Chosen, bands: tuple[int, ...], added: Additions) -> Iterator[str]:
    """The names of bands: the time of each where there are several, else the variable's."""
    labels = {band: step.label for step in chosen.steps for band in step.bands}
    for band in bands:
        own = src.descriptions[band - 1] or added.descriptions.get(band, "")
        if chosen.variable is None:
            yield own
        elif len(chosen.steps) > 1:
            yield show_text(labels[band])
        else:
            yield show_text(chosen.variable.name)


def _copy_tags(src: DatasetReader, chosen: _Chosen) -> Iterator[tuple[str, str]]:
    """The tags of the file; of one with variables only its global attributes, whose names lose their prefix."""
    prefix = _GLOBAL if chosen.variable else ""
    tags = ((key.removeprefix(prefix), value) for key, value in src.tags().items() if key.startswith(prefix))
    kept = ((key, value) for key, value in tags if len(value) <= MAX_TAG_CHARS and key != "AREA_OR_POINT")
    yield from list(kept)[:MAX_TAGS]


def _find_times(chosen: _Chosen) -> Times | None:
    moments = [step.moment for step in chosen.steps]
    if chosen.variable is None or not moments or None in moments:
        return None
    known = [moment for moment in moments if moment]
    rule = f"the time coordinate of {show_text(chosen.variable.name)}"
    if len(known) == 1:
        return Times(moment=known[0], origin="coordinate", rule=rule)
    return Times(start=min(known), end=max(known), origin="coordinate", rule=rule)


def _describe_origin(
    found: FileFormat, chosen: _Chosen, sidecars: tuple[Sidecar, ...], unpacked: Unpacked | None, added: Additions
) -> Origin:
    labels = [step.label for step in chosen.steps if step.label]
    return Origin(
        format=found.title,
        driver=chosen.driver,
        member=unpacked.member if unpacked else "",
        variable=chosen.variable.name if chosen.variable else "",
        time=ALL_TIMES if len(chosen.steps) > 1 else labels[0] if labels else "",
        sidecars=sidecars,
        applied=tuple(added.applied),
    )
