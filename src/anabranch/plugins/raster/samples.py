"""Samples: a river whose channel splits and joins again, as a DEM, a picture, a map of classes, and lines."""

import json
from pathlib import Path

import numpy as np
import rasterio
from numpy.typing import NDArray
from rasterio.enums import ColorInterp
from rasterio.transform import from_origin

__all__ = ["make_samples"]

Grid = NDArray[np.float32]

CRS = "EPSG:32755"
WEST, NORTH, PIXEL = 489_000.0, 6_012_000.0, 10.0
ACQUIRED_AT = "2026-03-21T00:15:00+00:00"
NODATA = -9999.0
CLASSES = {
    1: ("water", (54, 112, 176)),
    2: ("wetland", (116, 176, 150)),
    3: ("forest", (42, 94, 56)),
    4: ("pasture", (160, 186, 96)),
    5: ("crops", (222, 196, 110)),
    6: ("bare ground", (176, 146, 122)),
}


def make_samples(folder: Path, size: int = 1536) -> dict[str, Path]:
    """Write a DEM, a scene, a map of classes, a truncated file and the channels; returns the paths by name."""
    heights, water = _land(size)
    classes = _classes(heights, water)
    paths = {name: folder / f"{name}.tif" for name in ("dem", "scene", "landcover", "broken")}
    _write_dem(paths["dem"], heights)
    _write_scene(paths["scene"], heights, classes)
    _write_classes(paths["landcover"], classes)
    whole = paths["dem"].read_bytes()
    paths["broken"].write_bytes(whole[: len(whole) * 3 // 5])
    paths["channels"] = folder / "channels.geojson"
    _write_channels(paths["channels"], size)
    return paths


def _land(size: int) -> tuple[Grid, Grid]:
    """Heights, and the distance of each pixel from the nearest channel."""
    random = np.random.default_rng(20)
    down, across = np.meshgrid(np.linspace(0, 1, size, dtype="f4"), np.linspace(0, 1, size, dtype="f4"), indexing="ij")
    rough = sum(_waves(random, size, 2**octave) / 2**octave for octave in range(1, 8))
    river, parted = _channels(across)
    away = np.minimum(np.abs(down - river), np.abs(down - parted) + 0.004)
    valley = np.clip(away * 3, 0, 1) ** 1.3
    heights = 140 - 8 * across + valley * (60 + 90 * rough) + 2 * rough
    return heights.astype("f4"), away.astype("f4")


def _channels(across: Grid) -> tuple[Grid, Grid]:
    """How far down the map the river and the channel that leaves it are, from 0 to 1."""
    river = 0.5 + 0.09 * np.sin(7 * across) + 0.02 * np.sin(31 * across)
    bulge = np.clip((across - 0.22) * (0.8 - across) * 12, 0, 1) ** 0.5
    return river.astype("f4"), (river - 0.17 * bulge - 0.012 * np.sin(43 * across)).astype("f4")


def _write_channels(path: Path, size: int) -> None:
    across = np.linspace(0, 1, 200, dtype="f4")
    features = [
        {
            "type": "Feature",
            "properties": {"name": name, "navigable": name == "river"},
            "geometry": {
                "type": "LineString",
                "coordinates": np.column_stack([WEST + across * size * PIXEL, NORTH - down * size * PIXEL]).tolist(),
            },
        }
        for name, down in zip(("river", "anabranch"), _channels(across), strict=True)
    ]
    crs = {"type": "name", "properties": {"name": f"urn:ogc:def:crs:{CRS.replace(':', '::')}"}}
    path.write_text(json.dumps({"type": "FeatureCollection", "crs": crs, "features": features}))


def _waves(random: np.random.Generator, size: int, count: int) -> Grid:
    """Smooth noise with about `count` hills across."""
    coarse = random.standard_normal((count + 3, count + 3)).astype("f4")
    place = np.linspace(0, count, size, dtype="f4")
    low = place.astype(int)
    part = place - low
    part = part * part * (3 - 2 * part)
    rows = coarse[low] * (1 - part)[:, None] + coarse[low + 1] * part[:, None]
    return np.asarray(rows[:, low] * (1 - part) + rows[:, low + 1] * part, "f4")


def _classes(heights: Grid, away: Grid) -> NDArray[np.uint8]:
    random = np.random.default_rng(21)
    patches = _waves(random, len(heights), 14)
    classes = np.select(
        [away < 0.008, away < 0.02, heights > 205, patches > 0.5, patches > -0.4], [1, 2, 3, 5, 4], default=3
    )
    return np.where(heights > 260, 6, classes).astype("u1")


def _shade(heights: Grid) -> Grid:
    south, east = np.gradient(heights, PIXEL)
    slope = np.arctan(3 * np.hypot(south, east))
    light = np.sin(0.8) * np.cos(slope) + np.cos(0.8) * np.sin(slope) * np.cos(2.3 - np.arctan2(south, -east))
    return np.asarray(np.clip(light, 0, 1), "f4")


def _write_dem(path: Path, heights: Grid) -> None:
    heights = heights.copy()
    corner = np.add.outer(np.arange(len(heights)), np.arange(len(heights))) < len(heights) // 6
    heights[corner] = NODATA
    profile = _profile(heights.shape, 1, "float32") | {"nodata": NODATA, "compress": "deflate"}
    with rasterio.open(path, "w", **profile) as file:
        file.write(heights, 1)
        file.set_band_description(1, "height above the sea")
        file.units = ("metre",)
        file.update_tags(acquisition_datetime=ACQUIRED_AT)


def _write_scene(path: Path, heights: Grid, classes: NDArray[np.uint8]) -> None:
    colours = np.zeros((256, 3), "f4")
    for value, (_, colour) in CLASSES.items():
        colours[value] = colour
    grain = np.random.default_rng(22).normal(1, 0.05, heights.shape).astype("f4")
    light = (0.45 + 0.75 * _shade(heights)) * grain
    picture = np.clip(colours[classes] * light[..., None], 0, 255).astype("u1")
    with rasterio.open(path, "w", **_profile(heights.shape, 3, "uint8")) as file:
        file.write(np.moveaxis(picture, 2, 0))
        file.colorinterp = (ColorInterp.red, ColorInterp.green, ColorInterp.blue)
        file.update_tags(acquisition_datetime=ACQUIRED_AT)


def _write_classes(path: Path, classes: NDArray[np.uint8]) -> None:
    profile = _profile(classes.shape, 1, "uint8") | {"nodata": 0, "compress": "lzw"}
    with rasterio.open(path, "w", **profile) as file:
        file.write(classes, 1)
        file.write_colormap(1, {0: (0, 0, 0, 0)} | {value: (*colour, 255) for value, (_, colour) in CLASSES.items()})
        file.update_tags(acquisition_datetime=ACQUIRED_AT)


def _profile(shape: tuple[int, ...], count: int, dtype: str) -> dict[str, object]:
    transform = from_origin(WEST, NORTH, PIXEL, PIXEL)
    return {
        "driver": "GTiff", "height": shape[0], "width": shape[1], "count": count, "dtype": dtype, "crs": CRS,
        "transform": transform,
    }  # fmt: skip
