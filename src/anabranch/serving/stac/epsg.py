"""`proj:epsg` beside `proj:code`, for clients that know only the older field."""

import re

from anabranch.serving.stac.links import Document

__all__ = ["add_epsg"]

EPSG = re.compile(r"EPSG:(\d{1,9})")
# The release of the extension with both fields; the next one only removed the older field.
NEWER, BOTH = (f"https://stac-extensions.github.io/projection/v{version}/schema.json" for version in ("2.0.0", "1.2.0"))


def add_epsg(item: Document) -> None:
    """Add the EPSG code of an item's CRS, where it has one, and declare the release of the extension that allows it."""
    properties = item.get("properties") or {}
    found = EPSG.fullmatch(str(properties.get("proj:code")))
    if not found or "proj:epsg" in properties:
        return
    properties["proj:epsg"] = int(found[1])
    if extensions := item.get("stac_extensions"):
        item["stac_extensions"] = [BOTH if uri == NEWER else uri for uri in extensions]
