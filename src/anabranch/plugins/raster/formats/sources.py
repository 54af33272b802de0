"""How the source of a raster is read: brought to this machine whole, or by ranges where it is large and allows it."""

from anabranch.engine.worker.context import Context
from anabranch.plugins.raster.files.codecs import missing_codec
from anabranch.plugins.raster.files.tiff import read_images
from anabranch.plugins.raster.settings import RasterSettings
from anabranch.storage.ranged_object import Ranges
from anabranch.storage.tiers import Stat

__all__ = ["open_ranges", "pin_source"]

MB = 2**20
CACHE_DIVISOR = 16


def pin_source(ctx: Context, source: str, found: Stat) -> str | None:
    """The version of a source that is read by ranges: of a large tiled TIFF in object storage. None for all others."""
    settings = ctx.settings(RasterSettings)
    if found.size <= settings.raster_ranged_mb * MB or not found.tag or not ctx.storage.is_remote(source):
        return None
    ranges = ctx.storage.open_ranges(source, found.tag)
    if error := missing_codec(ranges, ranges.name):
        raise error
    images = read_images(ranges, most=1)
    return found.tag if images and images[0].tiled else None


def open_ranges(ctx: Context, source: str, pin: str) -> Ranges:
    """The pinned version of a source, to be read by ranges in the sandbox."""
    memory = ctx.settings(RasterSettings).raster_memory_mb * MB
    return ctx.storage.open_ranges(source, pin, cache_bytes=memory // CACHE_DIVISOR)
