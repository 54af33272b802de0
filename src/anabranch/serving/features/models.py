"""The answers of the features API, as OGC API Features and TileJSON name their parts."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

__all__ = ["Conformance", "Extent", "Item", "Items", "Landing", "PublishedLayer", "PublishedLayers", "SpatialExtent",
           "TileJson", "VectorLayer", "WebLink"]  # fmt: skip

CRS84 = "http://www.opengis.net/def/crs/OGC/1.3/CRS84"


class Answer(BaseModel):
    """A part of an answer; its names are written as OGC writes them."""

    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True)


class WebLink(Answer):
    """A link."""

    href: str
    rel: str
    type: str | None = None
    title: str | None = None
    templated: bool | None = None


class Landing(Answer):
    """Where everything begins."""

    title: str
    description: str
    links: list[WebLink]


class Conformance(Answer):
    """The classes of OGC's standards that are conformed to."""

    conforms_to: list[str]


class SpatialExtent(Answer):
    """Where the features are; the west of a box across 180 degrees is above its east."""

    bbox: list[list[float]]
    crs: str = CRS84


class Extent(Answer):
    """The extent of a layer."""

    spatial: SpatialExtent


class PublishedLayer(Answer):
    """A published layer."""

    id: str
    title: str
    description: str | None = None
    extent: Extent
    item_type: Literal["feature"] = "feature"
    crs: list[str] = [CRS84]
    links: list[WebLink]


class PublishedLayers(Answer):
    """A page of published layers."""

    collections: list[PublishedLayer]
    number_matched: int
    number_returned: int
    links: list[WebLink]


class Item(Answer):
    """A feature of GeoJSON."""

    type: Literal["Feature"]
    id: int
    geometry: dict[str, Any] | None  # GeoJSON's own shape
    properties: dict[str, Any]  # of the layer's columns
    links: list[WebLink] | None = None


class Items(Answer):
    """A page of features; the link `next` leads to the one after it."""

    type: Literal["FeatureCollection"]
    number_matched: int | None = None
    number_returned: int
    links: list[WebLink]
    features: list[Item]


class VectorLayer(BaseModel):
    """A layer within tiles."""

    id: str
    fields: dict[str, str]
    minzoom: int
    maxzoom: int


class TileJson(BaseModel):
    """The tiles of a layer, for maps."""

    tilejson: Literal["3.0.0"] = "3.0.0"
    name: str
    description: str | None = None
    scheme: Literal["xyz"] = "xyz"
    tiles: list[str]
    minzoom: int
    maxzoom: int
    bounds: list[float]
    vector_layers: list[VectorLayer]
