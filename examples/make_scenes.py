"""Write two small scenes, with a red and a near-infrared band each, into a folder: python make_scenes.py FOLDER."""

import sys
from pathlib import Path

import numpy as np
import rasterio
from rasterio.transform import from_origin

__all__ = ["make_scenes"]

SIZE = 256
PIXEL_METRES = 10.0
NORTH = 5_400_000.0


def make_scenes(folder: Path) -> None:
    """Write north.tif and south.tif, which lie side by side."""
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(7)
    for number, name in enumerate(("north", "south")):
        growth = np.linspace(0.1, 0.9, SIZE)[:, None] * np.ones(SIZE) + random.normal(0, 0.02, (SIZE, SIZE))
        bands = np.stack([2_000 * (1 - growth), 3_000 * growth]).clip(0).astype("u2")
        transform = from_origin(500_000, NORTH - number * SIZE * PIXEL_METRES, PIXEL_METRES, PIXEL_METRES)
        profile = {"driver": "GTiff", "height": SIZE, "width": SIZE, "count": 2, "dtype": "uint16"}
        with rasterio.open(folder / f"{name}.tif", "w", crs="EPSG:32633", transform=transform, **profile) as file:
            file.write(bands)
            file.descriptions = ("red", "nir")
            file.update_tags(acquisition_datetime="2026-05-04T10:20:00Z")


if __name__ == "__main__":
    make_scenes(Path(sys.argv[1]))
