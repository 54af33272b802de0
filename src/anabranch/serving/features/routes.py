"""The routes of OGC API Features."""

import json
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi import Path as FromPath

from anabranch.errors import NotFound
from anabranch.serving.features.layers import ID, Layer
from anabranch.serving.features.links import GEOJSON, Urls
from anabranch.serving.features.metadata import JsonRoute, only_json
from anabranch.serving.features.models import (
    Conformance,
    Extent,
    Item,
    Items,
    Landing,
    PublishedLayer,
    PublishedLayers,
    SpatialExtent,
    WebLink,
)
from anabranch.serving.features.query import (
    RequestedFeatures,
    RequestedLayer,
    check_names,
    choose_columns,
    layers_of,
    order_by,
    read_id,
)
from anabranch.serving.features.reading import MAX_FEATURES, MAX_OFFSET, Page, PageQuery, read_page
from anabranch.serving.features.sql import column_of, join, literal
from anabranch.serving.stac.search.bounds import refuse

__all__ = ["router"]

DEFAULT_FEATURES, MAX_LAYERS = 100, 1_000
OGC = "http://www.opengis.net/spec"
CONFORMS_TO = [
    *(f"{OGC}/ogcapi-common-1/1.0/conf/{name}" for name in ("core", "landing-page", "json")),
    f"{OGC}/ogcapi-common-2/1.0/conf/collections",
    *(f"{OGC}/ogcapi-features-1/1.0/conf/{name}" for name in ("core", "geojson")),
    *(f"{OGC}/ogcapi-features-3/1.0/conf/{name}" for name in ("filter", "features-filter", "queryables")),
    *(f"{OGC}/cql2/1.0/conf/{name}" for name in (
        "cql2-text", "cql2-json", "basic-cql2", "advanced-comparison-operators", "case-insensitive-comparison",
        "basic-spatial-functions", "basic-spatial-functions-plus", "spatial-functions",
    )),
    *(f"{OGC}/ogcapi-tiles-1/1.0/conf/{name}" for name in ("core", "mvt", "tileset", "tilesets-list")),
]  # fmt: skip
router = APIRouter(route_class=JsonRoute)
JSON_ONLY = [Depends(only_json)]


async def _only_geojson(
    f: Annotated[
        Literal["json", "geojson"] | None, Query(description="The format; both are GeoJSON, which is also the default.")
    ] = None,
) -> None:
    """The format of features."""


def _described(model: type[Item] | type[Items]) -> Any:  # what FastAPI takes for a route
    """Described by this model: the database writes the answers."""
    return {
        "dependencies": [Depends(_only_geojson)],
        "response_class": Response,
        "responses": {200: {"model": model, "content": {GEOJSON: {}}}},
    }


@router.get("/", dependencies=JSON_ONLY, response_model_exclude_none=True)
async def landing(request: Request) -> Landing:
    return Landing(
        title="Anabranch features", description="Published vector layers.", links=Urls.of(request).link_landing()
    )


@router.get("/conformance", dependencies=JSON_ONLY)
async def conformance() -> Conformance:
    return Conformance(conforms_to=CONFORMS_TO)


@router.get("/collections", dependencies=JSON_ONLY, response_model_exclude_none=True)
async def collections(
    request: Request,
    limit: Annotated[
        int, Query(ge=1, description=f"How many at most; {MAX_LAYERS:,} for a larger value.")
    ] = MAX_LAYERS,
    offset: Annotated[int, Query(ge=0, le=MAX_OFFSET, description="How many to skip.")] = 0,
) -> PublishedLayers:
    urls, limit = Urls.of(request), min(limit, MAX_LAYERS)
    found, matched = await layers_of(request).list(limit, offset)
    links = [WebLink(rel="self", type="application/json", href=f"{urls.root}/collections")]
    if (after := offset + len(found)) < matched:
        href = f"{urls.root}/collections?limit={limit}&offset={after}"
        links.append(WebLink(rel="next", type="application/json", href=href))
    described = [_describe(layer, urls) for layer in found]
    return PublishedLayers(collections=described, number_matched=matched, number_returned=len(found), links=links)


@router.get("/collections/{collectionId}", dependencies=JSON_ONLY, response_model_exclude_none=True)
async def collection(request: Request, layer: RequestedLayer) -> PublishedLayer:
    return _describe(layer, Urls.of(request))


def _describe(layer: Layer, urls: Urls) -> PublishedLayer:
    extent = Extent(spatial=SpatialExtent(bbox=[list(layer.box)]))
    links = urls.link_layer(layer.name)
    return PublishedLayer(id=layer.name, title=layer.title, description=layer.description, extent=extent, links=links)


@router.get("/collections/{collectionId}/items", **_described(Items))
async def items(
    request: Request,
    layer: RequestedLayer,
    query: RequestedFeatures,
    sortby: Annotated[
        str | None, Query(description="Columns, separated by commas; - before one is descending.")
    ] = None,
    limit: Annotated[
        int, Query(ge=1, description=f"How many at most; {MAX_FEATURES:,} for a larger value.")
    ] = DEFAULT_FEATURES,
    offset: Annotated[int, Query(ge=0, le=MAX_OFFSET, description="How many to skip.")] = 0,
    after: Annotated[
        int | None, Query(ge=0, lt=2**63, description="The id to begin after, as in the link `next`.")
    ] = None,
) -> Response:
    if after is not None and (sortby or offset):
        refuse("after is given with sortby or offset", "Use one of them.")

    def choose(layer: Layer) -> PageQuery:
        check_names(request, layer)
        columns, most = choose_columns(layer, query.properties), min(limit, MAX_FEATURES)
        return PageQuery(query.condition(request, layer), order_by(layer, sortby), columns, most, offset, after)

    chosen, page = await read_page(layers_of(request), layer, choose)
    more = [("after", page.last)] if not (sortby or offset) else [("offset", offset + page.returned)]
    links = _link_page(request, layer, [] if _is_last(page, chosen) else more)
    counts = {} if page.matched is None else {"numberMatched": page.matched}
    rest = f'"features":[{page.features}]'
    return _answer(links, rest, type="FeatureCollection", **counts, numberReturned=page.returned)


def _is_last(page: Page, chosen: PageQuery) -> bool:
    ends = page.matched is not None and chosen.after is None and chosen.offset + page.returned >= page.matched
    return page.is_last or page.returned == 0 or ends


def _link_page(request: Request, layer: Layer, more: Sequence[tuple[str, object]]) -> list[WebLink]:
    urls, given = Urls.of(request), request.query_params.multi_items()
    links = [
        WebLink(rel="self", type=GEOJSON, title="This page", href=urls.layer(layer.name, "/items", given)),
        WebLink(rel="collection", type="application/json", title=layer.title, href=urls.layer(layer.name)),
    ]
    if more:
        kept = [(name, value) for name, value in given if name not in ("after", "offset")]
        href = urls.layer(layer.name, "/items", [*kept, *((name, str(value)) for name, value in more)])
        links.append(WebLink(rel="next", type=GEOJSON, title="Next page", href=href))
    return links


@router.get("/collections/{collectionId}/items/{featureId}", **_described(Item))
async def item(
    request: Request,
    layer: RequestedLayer,
    feature: Annotated[str, FromPath(alias="featureId", description="The id of a feature.")],
    properties: Annotated[str | None, Query(description="The columns to return, separated by commas.")] = None,
) -> Response:
    number = read_id(feature)
    if number is not None:
        condition = join(" = ", [column_of(ID), literal(number)])

        def choose(layer: Layer) -> PageQuery:
            return PageQuery(condition, column_of(ID), choose_columns(layer, properties), 1, 0)

        _, page = await read_page(layers_of(request), layer, choose)
        if page.returned:
            feature = page.features.removeprefix("{").removesuffix("}")
            return _answer(_link_item(request, layer, number), feature)
    raise NotFound("feature.not_found", f"layer {layer.name} has no feature {feature[:40]}")


def _link_item(request: Request, layer: Layer, number: int) -> list[WebLink]:
    urls = Urls.of(request)
    return [
        WebLink(rel="self", type=GEOJSON, title="This feature", href=urls.layer(layer.name, f"/items/{number}")),
        WebLink(rel="collection", type="application/json", title=layer.title, href=urls.layer(layer.name)),
    ]


def _answer(links: Sequence[WebLink], rest: str, **members: str | int) -> Response:
    """A GeoJSON object with links and members of ours, completed by what the database wrote."""
    head = {**members, "links": [link.model_dump(exclude_none=True) for link in links]}
    return Response(f"{json.dumps(head).removesuffix('}')}, {rest}}}", media_type=GEOJSON)
