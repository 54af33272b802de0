"""Compares the rasters of a set with each other: a pure function over their facts."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from statistics import median_low

from anabranch.plugins.raster.collections.models import Comparison, Difference, Odd, Property, RasterFacts
from anabranch.plugins.raster.models import Kind

__all__ = ["compare_facts"]

# Kinds of one band of measured values: pixels alone often don't say which of them it is.
MEASURED = frozenset(
    {Kind.DEM, Kind.CONTINUOUS, Kind.VEGETATION_INDEX, Kind.FLOOD_DEPTH, Kind.POPULATION, Kind.HYDROLOGY}
)
ROUNDING = 1e-9
PLAIN: dict[Property, Callable[[RasterFacts], str]] = {
    "bands": lambda facts: str(facts.bands),
    "dtype": lambda facts: facts.dtype,
    "crs": lambda facts: facts.crs,
    "kind": lambda facts: "measured values" if facts.kind in MEASURED else str(facts.kind),
}


def compare_facts(rasters: Sequence[RasterFacts], tolerance: float) -> Comparison:
    """What most rasters have, and those that differ; a pixel size may differ by the tolerance, a share.

    Bands, data type and CRS must be equal. All kinds of measured values are compatible.
    """
    if not rasters:
        return Comparison(compared=0, tolerance=tolerance)
    majority = {name: Counter(map(read, rasters)).most_common(1)[0][0] for name, read in PLAIN.items()}
    in_majority = [facts.pixel_size for facts in rasters if facts.crs == majority["crs"]]
    usual = median_low(size[0] for size in in_majority), median_low(size[1] for size in in_majority)
    odd = [
        Odd(source=facts.source, item_id=facts.item_id, differs=differs)
        for facts in rasters
        if (differs := tuple(_find_differences(facts, majority, usual, tolerance)))
    ]
    known: dict[Property, str] = {**majority, "pixel_size": _show(usual)}
    return Comparison(compared=len(rasters), tolerance=tolerance, majority=known, odd=tuple(odd))


def _find_differences(
    facts: RasterFacts, majority: dict[Property, str], usual: tuple[float, float], tolerance: float
) -> Iterator[Difference]:
    for name, read in PLAIN.items():
        if (value := read(facts)) != majority[name]:
            value = str(facts.kind) if name == "kind" else value
            yield Difference(property=name, value=value, majority=majority[name])
    # Sizes in another CRS have other units; that CRS is a difference by itself.
    if facts.crs == majority["crs"] and any(
        abs(size / other - 1) > tolerance + ROUNDING for size, other in zip(facts.pixel_size, usual, strict=True)
    ):
        yield Difference(property="pixel_size", value=_show(facts.pixel_size), majority=_show(usual))


def _show(size: tuple[float, float]) -> str:
    return f"{size[0]:.6g} x {size[1]:.6g}"
