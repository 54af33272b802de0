"""Routes of tipg that describe a layer and its tiles: queryables, tile matrix sets and tilesets, as JSON only."""

from collections.abc import Callable
from inspect import signature
from typing import Annotated, Any, Literal, get_args, get_origin

from fastapi import APIRouter, Depends, Query
from fastapi.routing import APIRoute
from morecantile import tms
from morecantile.defaults import TileMatrixSets
from tipg.collections import Column as TipgColumn
from tipg.collections import PgCollection
from tipg.dependencies import OutputType, QueryablesOutputType
from tipg.factory import OGCFeaturesFactory, OGCTilesFactory

from anabranch.serving.features.layers import GEOMETRY, ID, Column, Layer
from anabranch.serving.features.query import RequestedLayer

__all__ = ["GRID", "JsonRoute", "add_metadata", "json_type", "only_json"]

GRID: Literal["WebMercatorQuad"] = "WebMercatorQuad"
WHOLE, MOMENT = {"type": "integer"}, {"format": "date-time"}
SCHEMAS = {
    **dict.fromkeys(("smallint", "integer", "bigint"), WHOLE),
    **dict.fromkeys(("timestamptz", "timestamp with time zone"), MOMENT),
    "date": {"format": "date"},
}
GRIDS = TileMatrixSets({GRID: tms.get(GRID)})


async def only_json(
    f: Annotated[
        Literal["json"] | None, Query(description="The format of the answer; there is one, which is also the default.")
    ] = None,
) -> None:
    """The format of an answer: HTML pages of tipg would load scripts of other sites."""


class JsonRoute(APIRoute):
    """A route without HTML pages."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        """As in FastAPI, with JSON as the only format."""
        given = signature(endpoint)
        parts = [part.replace(annotation=_without_html(part.annotation)) for part in given.parameters.values()]
        endpoint.__signature__ = given.replace(parameters=parts)  # type: ignore[attr-defined]  # what inspect looks at first
        super().__init__(path, endpoint, **options)


def _without_html(annotation: Any) -> Any:
    chosen = {getattr(part, "dependency", None) for part in get_args(annotation)[1:]}
    is_format = get_origin(annotation) is Annotated and chosen & {OutputType, QueryablesOutputType}
    return Annotated[None, Depends(only_json)] if is_format else annotation


class Queryables(OGCFeaturesFactory):
    """What a filter may name."""

    def register_routes(self) -> None:
        """Only what is described above."""
        self._queryables_route()  # type: ignore[no-untyped-call]  # of a package without types


class Tilesets(OGCTilesFactory):
    """Tile matrix sets, and the tilesets of a layer."""

    def register_routes(self) -> None:
        """Only what is described above."""
        self._tilematrixsets_routes()  # type: ignore[no-untyped-call]  # as above
        self._tilesets_routes()  # type: ignore[no-untyped-call]  # as above


def add_metadata(router: APIRouter) -> None:
    """Add the routes to a router that has those of tiles, to which they link."""
    found: dict[str, Any] = {"collection_dependency": _find}  # what FastAPI takes for a dependency
    Tilesets(router=router, with_common=False, supported_tms=GRIDS, with_viewer=False, **found)
    Queryables(router=router, with_common=False, **found)


class _Collection(PgCollection):
    @property
    def queryables(self) -> dict[str, dict[str, str]]:
        """The types of JSON, and the formats of times, which tipg leaves out."""
        found: dict[str, dict[str, str]] = super().queryables
        for column in self.properties:
            found[column.name] |= SCHEMAS.get(column.type, {})
        return found


async def _find(layer: RequestedLayer) -> PgCollection:
    return _describe(layer)


def _describe(layer: Layer) -> PgCollection:
    """A layer as tipg describes one."""
    shape = TipgColumn(
        name=GEOMETRY,
        type="geometry",
        geometry_type=layer.geometry_type,
        srid=4326,
        bounds=[layer.box.west, layer.box.south, layer.box.east, layer.box.north],
    )
    columns = [shape, TipgColumn(name=ID, type="bigint"), *map(_to_tipg, layer.columns)]
    about = {"id": layer.name, "title": layer.title, "description": layer.description}
    stored = {"type": "Table", "schema": "geo", "table": layer.name, "table_columns": columns, "properties": columns}
    return _Collection.model_validate({**about, **stored})


def json_type(column: Column) -> str:
    """The type of JSON of a column's values."""
    return str(_to_tipg(column).json_type)


def _to_tipg(column: Column) -> TipgColumn:
    return TipgColumn(name=column.name, type=column.type, description=column.description)
