"""Opens `ctx.geo`; what it needs is imported when a handler first asks for it."""

from anabranch.engine.worker.context import Context
from anabranch.engine.worker.geo_library import GeoLibrary
from anabranch.errors import Permanent

__all__ = ["open_geo_library"]


def open_geo_library(ctx: Context) -> GeoLibrary:
    """What a handler publishes its own tables with."""
    try:
        from anabranch.plugins.vector.user_tables.library import TableLibrary
    except ImportError as error:
        remedy = "Install its packages with pip install 'anabranch[postgres,stac,vector]'."
        raise Permanent(f"ctx.geo can't be used here: {error}", code="geo.not_installed", remedy=remedy) from error
    return TableLibrary(ctx)
