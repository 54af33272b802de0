"""URLs of layers as the caller sees them, and the links that lead there."""

from dataclasses import dataclass
from typing import Self
from urllib.parse import quote, urlencode

from fastapi import Request

from anabranch.serving.features.metadata import GRID
from anabranch.serving.features.models import WebLink
from anabranch.serving.stac.links import OPENAPI

__all__ = ["GEOJSON", "MVT", "Urls"]

GEOJSON, JSON, MVT = "application/geo+json", "application/json", "application/vnd.mapbox-vector-tile"
SCHEMA = "application/schema+json"
TILESETS = "http://www.opengis.net/def/rel/ogc/1.0/tilesets-vector"
QUERYABLES = "http://www.opengis.net/def/rel/ogc/1.0/queryables"
TILING = "http://www.opengis.net/def/rel/ogc/1.0/tiling-schemes"


@dataclass(frozen=True)
class Urls:
    """The URLs below the features API."""

    root: str

    @classmethod
    def of(cls, request: Request) -> Self:
        """As the caller of this request sees them."""
        return cls(str(request.base_url).rstrip("/"))

    def layer(self, name: str, path: str = "", query: list[tuple[str, str]] | None = None) -> str:
        """The URL of a layer, or of a path below it."""
        return f"{self.root}/collections/{quote(name, safe='')}{path}{'?' + urlencode(query) if query else ''}"

    def tiles(self, name: str, query: list[tuple[str, str]]) -> str:
        """The template of the URLs of its tiles."""
        return self.layer(name, f"/tiles/{GRID}/{{z}}/{{x}}/{{y}}", query)

    def link_landing(self) -> list[WebLink]:
        """The links of the landing page."""
        api = self.root.removesuffix("/features")
        return [
            WebLink(rel="self", type=JSON, title="This document", href=self.root),
            WebLink(rel="service-desc", type=OPENAPI, title="OpenAPI description", href=f"{api}/openapi.json"),
            WebLink(rel="service-doc", type="text/html", title="Its routes", href=f"{api}/docs"),
            WebLink(rel="conformance", type=JSON, title="Conformance classes", href=f"{self.root}/conformance"),
            WebLink(rel="data", type=JSON, title="Layers", href=f"{self.root}/collections"),
            WebLink(rel=TILING, type=JSON, title="Tile matrix sets", href=f"{self.root}/tileMatrixSets"),
        ]

    def link_layer(self, name: str) -> list[WebLink]:
        """The links of a layer."""
        return [
            WebLink(rel="self", type=JSON, title="This layer", href=self.layer(name)),
            WebLink(rel="items", type=GEOJSON, title="Features", href=self.layer(name, "/items")),
            WebLink(rel=QUERYABLES, type=SCHEMA, title="What filters may name", href=self.layer(name, "/queryables")),
            WebLink(rel=TILESETS, type=JSON, title="Vector tiles", href=self.layer(name, "/tiles")),
            WebLink(rel="tilejson", type=JSON, title="Tiles", href=self.layer(name, f"/tiles/{GRID}/tilejson.json")),
        ]
