"""Images for benchmarks: waves and a little noise, in three bands."""

from collections.abc import Iterator

__all__ = ["make_pictures"]


def make_pictures(count: int, size: int) -> Iterator[bytes]:
    """Square GeoTIFFs side by side on the ground, `size` pixels wide, all different."""
    import numpy as np
    from rasterio.io import MemoryFile
    from rasterio.transform import from_origin

    random = np.random.default_rng(1)
    y, x = np.mgrid[0:size, 0:size].astype(np.float32)
    waves = np.stack([np.sin(x / (211 + 13 * band)) * np.cos(y / 173) for band in range(3)])
    for number in range(count):
        noise = random.normal(0, 3, waves.shape).astype(np.float32)
        pixels = np.clip(128 + 90 * waves + noise, 0, 255).astype(np.uint8)
        with MemoryFile() as file:
            placed = {"crs": "EPSG:32633", "transform": from_origin(500_000 + number * size, 5_000_000, 1, 1)}
            with file.open(driver="GTiff", width=size, height=size, count=3, dtype="uint8", **placed) as out:
                out.write(pixels)
            yield bytes(file.read())
