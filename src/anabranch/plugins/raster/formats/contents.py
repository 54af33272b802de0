"""What a netCDF, HDF5 or GRIB file holds: variables, of each the levels, and of each the time steps."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

from rasterio.io import DatasetReader

from anabranch.errors import Permanent
from anabranch.plugins.raster.files.magic_bytes import FileFormat
from anabranch.plugins.raster.files.reader import open_as
from anabranch.plugins.raster.formats.cf_time import parse_axis, write_moment

__all__ = ["Step", "Variable", "list_variables", "read_units"]

MAX_VARIABLES = 500
MAX_LAYERS = 100_000
_COORDINATES = ("coordinates", "bounds", "climatology", "cell_measures")
# Dimensions whose values are bands of one raster; every other one but time makes variables of its own.
_BANDS = ("band", "bands", "wavelength", "phony_dim_")
_TEXT = "(8-bit character)"
Tags = Mapping[str, str]


@dataclass(frozen=True)
class Step:
    """The bands of one time step; its label is the moment, or the text of the file where that is none."""

    label: str
    moment: datetime | None
    bands: tuple[int, ...]


@dataclass(frozen=True)
class Variable:
    """One raster of a file, with the name of its dataset and the driver that reads it."""

    name: str
    dataset: Path | str
    driver: str
    width: int
    height: int
    dtype: str
    unit: str
    title: str
    steps: tuple[Step, ...]
    names_of_others: frozenset[str] = frozenset()  # variables that are its coordinates


@dataclass(frozen=True)
class _Layer:
    """A band: its variable with the selectors of its levels, and its time."""

    variable: str
    selectors: tuple[tuple[str, str], ...]
    label: str
    moment: datetime | None
    band: int
    unit: str
    title: str


def list_variables(path: Path, found: FileFormat, wanted: str | None = None) -> tuple[Variable, ...]:
    """The variables of a file, or only the wanted one where it has that; by the first driver that finds any."""
    if '"' in str(path.resolve()):
        raise Permanent(
            f"{path.name} has a quotation mark in its name, which GDAL can't open",
            code="raster.format",
            remedy="Rename the file.",
        )
    errors: list[Permanent] = []
    for driver in found.drivers:
        try:
            if variables := _list(path, found, driver, wanted):
                return variables
        except Permanent as error:
            errors.append(error)
    if errors and any(error.code != "raster.damaged" for error in errors):
        raise next(error for error in errors if error.code != "raster.damaged")
    raise Permanent(
        f"{path.name} is {found.title} without a variable of two dimensions or more, or it is damaged",
        code="raster.damaged" if errors else "raster.variable",
        remedy="Send a file with a grid: at least rows and columns. Upload it again if it should have one.",
    )


def _list(path: Path, found: FileFormat, driver: str, wanted: str | None) -> tuple[Variable, ...]:
    local = path.resolve()
    with open_as(path, found, driver, local) as src:
        reported = _reported(src, local)
        if not reported:
            return _describe(src, driver, local, path.stem)
    base = (wanted or "").partition("[")[0]
    if base in reported:
        reported = {base: reported[base]}
    inside = "HDF5Image" if driver == "HDF5" else driver
    variables: list[Variable] = []
    errors: list[Permanent] = []
    for name, dataset in islice(reported.items(), MAX_VARIABLES):
        try:
            with open_as(path, found, inside, dataset) as src:
                variables += _describe(src, inside, dataset, name)
        except Permanent as error:  # one that can't be read does not hide the others
            errors.append(error)
    if not variables and errors:
        raise errors[0]
    others = frozenset[str]().union(*(each.names_of_others for each in variables))
    return tuple(each for each in variables if each.name not in others) or tuple(variables)


def _reported(src: DatasetReader, path: Path) -> dict[str, str]:
    """The datasets that GDAL reports for this very file, by the names of their variables; no other name is opened."""
    tags = src.tags(ns="SUBDATASETS")
    titles = {key.removesuffix("_DESC"): value for key, value in tags.items() if key.endswith("_DESC")}
    names = (
        value
        for key, value in tags.items()
        if key.endswith("_NAME") and not titles.get(key.removesuffix("_NAME"), "").endswith(_TEXT)
    )
    starts = (f'NETCDF:"{path}":', f'HDF5:"{path}"://', f'HDF5:"{path}":')
    found: dict[str, str] = {}
    for dataset in names:
        start = next((start for start in starts if dataset.startswith(start)), None)
        if start is not None:
            found[dataset.removeprefix(start)] = dataset
    return found


def _describe(src: DatasetReader, driver: str, dataset: Path | str, name: str) -> tuple[Variable, ...]:
    if src.count > MAX_LAYERS:
        raise Permanent(
            f"{name} has {src.count:,} layers, over the limit of {MAX_LAYERS:,}",
            code="raster.too_large",
            remedy="Split the file, for example by year.",
        )
    if src.width < 1 or src.height < 1:
        raise Permanent(
            f"{name} has no regular grid: its rows are of different lengths",
            code="raster.no_georeference",
            remedy="Interpolate it to a regular grid first, for example with `cdo setgridtype,regular`.",
        )
    layers = list((_read_messages if driver == "GRIB" else _read_layers)(src, name))
    groups: dict[tuple[str, tuple[tuple[str, str], ...]], list[_Layer]] = {}
    for layer in layers:
        groups.setdefault((layer.variable, layer.selectors), []).append(layer)
    levels = [variable for variable, _ in groups]
    others = frozenset(_coordinates(src.tags()))
    return tuple(
        Variable(
            name=variable if levels.count(variable) == 1 else f"{variable}[{_write(selectors)}]",
            dataset=dataset,
            driver=driver,
            width=src.width,
            height=src.height,
            dtype=src.dtypes[group[0].band - 1],
            unit=group[0].unit,
            title=group[0].title,
            steps=_steps(group),
            names_of_others=others,
        )
        for (variable, selectors), group in groups.items()
    )


def _write(selectors: Iterable[tuple[str, str]]) -> str:
    return ",".join(f"{name}={value}" if name else value for name, value in selectors)


def _coordinates(tags: Tags) -> Iterator[str]:
    for key, value in tags.items():
        if key.rpartition("#")[2] in _COORDINATES:
            yield from value.split()


def _steps(layers: list[_Layer]) -> tuple[Step, ...]:
    """The steps in the order of the file; bands of the same time are one step, those of GRIB messages are numbered."""
    steps: dict[str, Step] = {}
    for layer in layers:
        known = steps.get(layer.label)
        bands = (*known.bands, layer.band) if known else (layer.band,)
        steps[layer.label] = Step(layer.label, layer.moment, bands)
    return tuple(steps.values())


def read_units(src: DatasetReader) -> tuple[str, ...]:
    """The units of the bands; empty where they are not in UTF-8, which rasterio refuses."""
    try:
        return tuple(unit or "" for unit in src.units)
    except UnicodeDecodeError:
        return ("",) * int(src.count)


def _read_layers(src: DatasetReader, name: str) -> Iterator[_Layer]:
    """The bands of a netCDF or HDF5 variable, by the values of its dimensions beyond rows and columns."""
    tags = src.tags()
    extra = [part for part in tags.get("NETCDF_DIM_EXTRA", "").strip("{}").split(",") if part]
    axes = {dim: parse_axis(tags.get(f"{dim}#units", ""), tags.get(f"{dim}#calendar", "")) for dim in extra}
    timed = [dim for dim in extra if " since " in tags.get(f"{dim}#units", "").lower()]
    levels = [dim for dim in extra if dim not in timed and not dim.lower().startswith(_BANDS)]
    units = read_units(src)
    for band in src.indexes:
        own = src.tags(band)
        values = {dim: own.get(f"NETCDF_DIM_{dim}", "") for dim in extra}
        label, moment = "", None
        for dim in timed[:1]:
            axis = axes[dim]
            moment = axis.moment(_number(values[dim])) if axis else None
            label = write_moment(moment) if moment else f"{values[dim]} {tags[f'{dim}#units']}"
        yield _Layer(
            variable=name if isinstance(src.name, str) and ":" in src.name else own.get("NETCDF_VARNAME", name),
            selectors=tuple((dim, values[dim]) for dim in (*levels, *timed[1:])),
            label=label,
            moment=moment,
            band=band,
            unit=units[band - 1] or own.get("units", ""),
            title=own.get("long_name", own.get("standard_name", "")),
        )


def _read_messages(src: DatasetReader, name: str) -> Iterator[_Layer]:
    """The messages of a GRIB file; those of one element, level and time (members, say) are numbered."""
    layers: list[_Layer] = []
    for band in src.indexes:
        tags = src.tags(band)
        seconds = _number(tags.get("GRIB_VALID_TIME", "").split(" ")[0])
        moment = datetime.fromtimestamp(seconds, UTC) if 0 <= abs(seconds) < 1e11 else None
        layers.append(
            _Layer(
                variable=tags.get("GRIB_ELEMENT", name),
                selectors=(("", tags.get("GRIB_SHORT_NAME", "")),),
                label=write_moment(moment) if moment else "",
                moment=moment,
                band=band,
                unit=tags.get("GRIB_UNIT", "").strip("[]"),
                title=tags.get("GRIB_COMMENT", ""),
            )
        )
    places = [(layer.variable, layer.selectors, layer.label) for layer in layers]
    counts: dict[object, int] = {}
    for place in places:
        counts[place] = counts.get(place, 0) + 1
    seen: dict[object, int] = {}
    for place, layer in zip(places, layers, strict=True):
        seen[place] = seen.get(place, 0) + 1
        yield replace(layer, label=f"{layer.label}#{seen[place]}") if counts[place] > 1 else layer


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")
