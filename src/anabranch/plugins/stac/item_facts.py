"""The facts of a published vector layer, read back from its item: what `build_item` would make the same item of."""

from collections.abc import Mapping, Sequence
from typing import Any

from anabranch.contract.mosaic import DRAWN
from anabranch.plugins.stac.facts import Footprint, Output, Source, Table, VectorItem
from anabranch.plugins.stac.item import ROWS_SHA256, SHA256, TABLE_ASSET

__all__ = ["read_vector_item"]


def read_vector_item(document: Mapping[str, Any], files: Sequence[Output], parts: Sequence[str]) -> VectorItem:
    """The facts of an item as it is stored, with its files and the tables that it shows."""
    properties, assets = document["properties"], document["assets"]
    texts = ("title", "description", "datetime", "start_datetime", "end_datetime")
    software = {name: of for name, of in properties["processing:software"].items() if name != "anabranch"}
    return VectorItem(
        id=document["id"],
        footprint=Footprint.model_validate(document["geometry"]),
        bbox=tuple(document["bbox"]),
        outputs=[_name_asset(file, assets) for file in files],
        source=_read_source(properties["processing:expression"]["expression"]),
        software=software,
        table=Table(
            name=properties["anabranch:layer"],
            parts=list(parts),
            columns=properties["table:columns"],
            rows=properties["table:row_count"],
            geometry_type=properties["anabranch:geometry_type"],
            sha256=_read_hash(properties, assets),
        ),
        **{name: properties.get(name) for name in texts},
    )


def _read_hash(properties: Mapping[str, Any], assets: Mapping[str, Mapping[str, Any]]) -> str:
    earlier = assets[TABLE_ASSET].get("file:checksum", "")  # where releases before wrote it
    return str(properties.get(ROWS_SHA256) or earlier.removeprefix(SHA256))


def _name_asset(file: Output, assets: Mapping[str, Mapping[str, Any]]) -> Output:
    """The file with the key, title and other fields that its asset has."""
    (key, asset), *_ = [(key, asset) for key, asset in assets.items() if asset["href"] == file.href]
    return file.model_copy(update={"asset": key, "title": asset.get("title"), "drawn": asset.get(DRAWN)})


def _read_source(expression: Mapping[str, str]) -> Source | None:
    checksum = expression.get("source_checksum")
    if checksum is None and "source" not in expression:
        return None
    return Source(sha256=checksum.removeprefix(SHA256) if checksum else None, name=expression.get("source"))
