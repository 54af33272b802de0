"""The STAC API over pgstac: read-only, with file URLs in place of addresses."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any, Literal

import attr
from fastapi import APIRouter, Depends, FastAPI, HTTPException, Request, Response
from fastapi.responses import JSONResponse
from geojson_pydantic import MultiPolygon
from stac_fastapi.api.app import StacApi
from stac_fastapi.api.models import (
    ItemCollectionUri,
    create_get_request_model,
    create_post_request_model,
    create_request_model,
)
from stac_fastapi.extensions import (
    CollectionSearchExtension,
    FieldsExtension,
    ItemCollectionFilterExtension,
    OffsetPaginationExtension,
    SearchFilterExtension,
    TokenPaginationExtension,
)
from stac_fastapi.extensions.fields import FieldsConformanceClasses
from stac_fastapi.extensions.query import QueryConformanceClasses
from stac_fastapi.extensions.sort import ItemCollectionSortExtension, SearchSortExtension
from stac_fastapi.pgstac.config import Settings
from stac_fastapi.pgstac.core import CoreCrudClient
from stac_fastapi.pgstac.extensions import QueryExtension
from stac_fastapi.pgstac.types.search import PgstacSearch
from stac_fastapi.types.errors import InvalidQueryParameter, NotFoundError
from starlette.routing import Route
from starlette.types import ASGIApp

from anabranch.contract.published_links import find_addresses, name_files, table_of
from anabranch.errors import InputError, NotFound
from anabranch.geo.boxes import Box
from anabranch.serving.caller import platform_of
from anabranch.serving.errors import Translate, raise_errors, translate_invalid
from anabranch.serving.published import FilesByItem, Published, mark_in_place
from anabranch.serving.stac.epsg import add_epsg
from anabranch.serving.stac.links import (
    Document,
    add_features,
    add_layer,
    add_predecessor,
    add_tiles,
    complete_landing,
    root_of,
)
from anabranch.serving.stac.pool import NO_COLLECTION, Catalog, hide_extent
from anabranch.serving.stac.queryables import Queryables
from anabranch.serving.stac.search.bounds import BOUNDS
from anabranch.serving.stac.search.cql2 import parse_filter, spell_out
from anabranch.serving.stac.search.request import check_request
from anabranch.serving.stac.search.times import filter_times

__all__ = ["describe_stac", "make_stac"]

NEWEST_ITEMS = 10  # that are looked at for tiles
COLLECTION = "/collections/{collection_id}"
ABOUT = {"title": "Anabranch catalog", "description": "What is published.", "landing_page_id": "anabranch"}
STAC_VERSION = "1.1.0"
# The version that clients know; the later one adds a list of sortable fields, which we don't have.
SORT = "https://api.stacspec.org/v1.0.0/{}#sort"


@attr.s
class Reader(CoreCrudClient):  # type: ignore[misc]  # of a package without types
    """Answers the routes of the STAC API."""

    async def landing_page(self, **named: Any) -> Any:
        """The landing page."""
        request = named["request"]
        return await complete_landing(await super().landing_page(**named), request, _catalog_of(request))

    async def all_collections(self, *given: Any, **named: Any) -> Any:
        """A page of collections, or those that match a search."""
        named["limit"] = min(named.get("limit") or BOUNDS.page, BOUNDS.page)
        catalog = _catalog_of(named["request"])
        found = await super().all_collections(*given, **named, visible=await catalog.list_visible())
        if catalog.is_anonymous:
            found = {**found, "collections": [hide_extent(each) for each in found["collections"]]}
        return await _named(found, named["request"])

    async def get_collection(self, collection_id: str, request: Request, **named: Any) -> Any:
        """One collection, with a link to its tiles if its newest items have rasters."""
        catalog = _catalog_of(request)
        if not await catalog.may_read(collection_id):
            raise NotFoundError(f"Collection {collection_id} does not exist.")  # as of one that does not
        collection = await _named(await super().get_collection(collection_id, request, **named), request)
        if catalog.is_anonymous:
            collection = hide_extent(collection)
        if request.scope["route"].path == COLLECTION:  # others call this to know whether there is one
            newest = await catalog.search({"collections": [collection_id], "limit": NEWEST_ITEMS})
            add_layer(collection, (await _named({"features": newest}, request))["features"], root_of(request))
        return collection

    async def _search_base(self, search_request: Any, request: Request) -> Any:
        """Search for items; every route with items ends here."""
        search_request.limit = min(search_request.limit or BOUNDS.page, BOUNDS.page)
        if area := _find_area(search_request.bbox):
            search_request.bbox, search_request.intersects = None, MultiPolygon.model_validate(area)
        if not search_request.filter_expr and (condition := filter_times(search_request.query or {})):
            search_request.query, search_request.filter_expr = None, condition
            search_request.filter_lang = "cql2-json"
        search_request.filter_expr = spell_out(search_request.filter_expr)
        await _restrict(search_request, _catalog_of(request))
        return await _named(await super()._search_base(search_request, request), request)

    async def get_search(self, *given: Any, **named: Any) -> Any:
        """Items that match a search."""
        return _as_geojson(await super().get_search(*given, **named))

    async def post_search(self, *given: Any, **named: Any) -> Any:
        """Items that match a search."""
        return _as_geojson(await super().post_search(*given, **named))

    async def item_collection(self, *given: Any, **named: Any) -> Any:
        """Items of a collection."""
        return _as_geojson(await super().item_collection(*given, **named))

    def _clean_search_args(self, base_args: Document, filter_query: str | None = None, **given: Any) -> Document:
        """The search in pgstac's form; the parent class validates a filter at unbounded cost."""
        visible = given.pop("visible", None)  # of a search for collections
        if visible is not None:
            base_args |= {"ids": sorted(visible) or [NO_COLLECTION]}
        if area := _find_area(base_args.get("bbox")):  # also of a search for collections
            base_args |= {"bbox": None, "intersects": area}
        language = given.pop("filter_lang", None)
        if filter_query:
            base_args |= {"filter": parse_filter(filter_query, language), "filter_lang": "cql2-json"}
        cleaned: Document = super()._clean_search_args(base_args, **given)
        return cleaned


@attr.s
class Api(StacApi):
    """stac-fastapi's application without health routes: our API has them."""

    def add_health_check(self) -> None:
        """Add none."""


def _catalog_of(request: Request) -> Catalog:
    """The catalog as the caller may see it."""
    catalog: Catalog = request.app.state.catalog
    return catalog.seen_by(platform_of(request))


async def _restrict(search: Any, catalog: Catalog) -> None:  # stac-fastapi's, which has no types
    """Limit a search to what the caller may see, and refuse a page after what the caller may not."""
    if search.token:
        await catalog.check_token(search.token)
    wanted = {"collections": search.collections, "ids": search.ids, "filter": search.filter_expr, "query": search.query}
    found = await catalog.restrict({name: value for name, value in wanted.items() if value})
    search.collections, search.query, search.filter_expr = map(found.get, ("collections", "query", "filter"))
    search.filter_lang = found.get("filter-lang", search.filter_lang)


def _find_area(bbox: Sequence[float] | None) -> Document | None:
    """The area of a box that pgstac can't take: it has heights, or crosses 180 degrees."""
    if not bbox or (len(bbox) == 4 and not Box.of(bbox).crosses):
        return None
    return Box.of(bbox).to_geojson()


def _as_geojson(answer: Any) -> Any:  # a document, or a response with selected fields
    if isinstance(answer, JSONResponse):
        answer.headers["Content-Type"] = "application/geo+json"
    return answer


async def _named(document: Any, request: Request) -> Any:  # a document, or a response with selected fields
    if isinstance(document, JSONResponse):
        return document
    root = root_of(request)
    published: Published = request.app.state.published.seen_by(platform_of(request))
    files = FilesByItem(await published.find_all(set(find_addresses(document))))
    if "features" not in document:
        return name_files(document, files.find(), root)
    draws_in_place = request.app.state.draws_in_place
    items = [_name_item(item, files, root, draws_in_place=draws_in_place) for item in document["features"]]
    return {**document, "features": items}


def _name_item(document: Document, files: FilesByItem, root: str, *, draws_in_place: bool) -> Document:
    key = f"{document.get('collection')}/{document.get('id')}"
    ours = files.find(key)
    item: Document = name_files(document if draws_in_place else mark_in_place(document, ours), ours, root)
    item.get("properties", {}).setdefault("datetime", None)  # pgstac omits nulls, but STAC requires this one
    add_tiles(item, root)
    if table := _find_table(document):
        add_features(item, table, root)
    add_predecessor(item, files.find_predecessor(key), root)
    add_epsg(item)
    return item


def _find_table(item: Document) -> str | None:
    assets = item.get("assets") if "table:columns" in (item.get("properties") or {}) else None
    found = (table_of(asset.get("href")) for asset in (assets or {}).values() if isinstance(asset, dict))
    return next(filter(None, found), None)


def make_stac(catalog: Catalog, published: Published, *, draws_in_place: bool) -> ASGIApp:
    """The application; it reads over the connections of a catalog."""
    app = _application()
    app.state.published = published
    app.state.catalog = catalog
    app.state.draws_in_place = draws_in_place
    app.state.get_connection = _connections(catalog)
    return raise_errors(app, TRANSLATIONS)


def describe_stac() -> Document:
    """What the packages of the application say of its routes, in the form of OpenAPI."""
    return _application().openapi()


def _application() -> FastAPI:
    app = FastAPI(
        title="Anabranch catalog",
        openapi_url="/api",  # stac-fastapi changes its route
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        dependencies=[Depends(check_request)],
    )
    _add_routes(app)
    return app


def _add_routes(app: FastAPI) -> None:
    search = [
        QueryExtension(),
        SearchSortExtension(conformance_classes=[SORT.format("item-search")]),
        FieldsExtension(),
        SearchFilterExtension(client=Queryables()),
        TokenPaginationExtension(),
    ]
    items = [
        QueryExtension(conformance_classes=[QueryConformanceClasses.ITEMS]),
        ItemCollectionSortExtension(conformance_classes=[SORT.format("ogcapi-features")]),
        FieldsExtension(conformance_classes=[FieldsConformanceClasses.ITEMS]),
        ItemCollectionFilterExtension(client=Queryables()),
        TokenPaginationExtension(),
    ]
    collections = CollectionSearchExtension.from_extensions([OffsetPaginationExtension()])
    post = create_post_request_model(search, base_model=PgstacSearch)
    Api(
        app=app,
        router=APIRouter(),
        stac_version=STAC_VERSION,
        settings=_settings(),
        extensions=[*search, *items, collections],
        client=Reader(pgstac_search_model=post, **ABOUT),  # type: ignore[call-arg]  # of a package without types
        response_class=JSONResponse,
        items_get_request_model=create_request_model(
            model_name="ItemCollectionUri", base_model=ItemCollectionUri, extensions=items, request_type="GET"
        ),  # type: ignore[arg-type]  # as above
        search_get_request_model=create_get_request_model(search),
        search_post_request_model=post,
        collections_get_request_model=collections.GET,
        middlewares=[],  # the defaults trust a caller's proxy headers, and allow every origin
    )
    # The landing page looks up the URLs of both; the API describes all of its routes in one document.
    app.router.routes[:0] = [
        Route("/api", _no_page, name="openapi"),
        Route("/api.html", _no_page, name="swagger_ui_html"),
    ]


def _settings() -> Settings:
    """Fixed settings: environment variables and files must not enable what is disabled here."""
    return Settings.model_construct(
        **{name: field.get_default(call_default_factory=True) for name, field in Settings.model_fields.items()}
        | {
            "stac_fastapi_title": ABOUT["title"],
            "stac_fastapi_description": ABOUT["description"],
            "openapi_url": "/api",
            "docs_url": None,
            "cors_origins": (),
        }
    )


async def _no_page(_: Request) -> Response:
    raise HTTPException(404, "the catalog is described at /openapi.json")


def _connections(catalog: Catalog) -> Any:  # as stac-fastapi calls it
    def get_connection(_: Request, __: Literal["r", "w"] = "r") -> AbstractAsyncContextManager[Any]:
        return catalog.connection()

    return get_connection


def _not_found(error: Exception) -> NotFound:
    return NotFound("item.not_found", str(error), remedy="The collections are listed at /stac/collections.")


INVALID = translate_invalid(partial(InputError, "catalog.query", remedy="Fix the search."))
TRANSLATIONS: dict[type[Exception], Translate] = {
    NotFoundError: _not_found,
    InvalidQueryParameter: INVALID[ValueError],
    **INVALID,
}
