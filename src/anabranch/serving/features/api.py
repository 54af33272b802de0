"""OGC API Features and vector tiles: what is published in `geo`, read-only."""

from functools import partial
from typing import Any

from fastapi import APIRouter, Depends, FastAPI, Request
from starlette.types import ASGIApp

from anabranch.errors import AnabranchError, InputError
from anabranch.serving.application import make_application
from anabranch.serving.errors import Translate, raise_errors, translate_invalid
from anabranch.serving.features.layers import Layers
from anabranch.serving.features.metadata import JsonRoute, add_metadata
from anabranch.serving.features.routes import router as features
from anabranch.serving.features.tiles import router as tiles
from anabranch.serving.parameters import query_names, refuse_unknown

__all__ = ["describe_features", "make_features"]


def make_features(layers: Layers) -> ASGIApp:
    """The application; it reads over the connections of these layers."""
    app = _application()
    app.state.layers = layers
    return raise_errors(app, TRANSLATIONS)


def describe_features() -> dict[str, Any]:  # OpenAPI's own shape
    """What the routes of the application declare, in the form of OpenAPI."""
    return _application().openapi()


def _application() -> FastAPI:
    app = make_application("Anabranch features", [Depends(_check_parameters)])
    router = APIRouter(route_class=JsonRoute)
    router.include_router(features)
    router.include_router(tiles)
    add_metadata(router)
    app.include_router(router)
    return app


async def _check_parameters(request: Request) -> None:
    """Refuse unknown parameters, where none may be a column's."""
    route = request.scope["route"]
    if route.name not in ("items", "collection_get_tile", "tilejson"):
        refuse_unknown(request.query_params.keys(), query_names(route.dependant), "features.query")


def _refused(error: Exception) -> AnabranchError:
    """The checks that are shared with the catalog name its code."""
    assert isinstance(error, InputError)  # noqa: S101  # for the types
    return InputError("features.query", error.message, remedy=error.remedy) if error.code == "catalog.query" else error


TRANSLATIONS: dict[type[Exception], Translate] = {
    **translate_invalid(partial(InputError, "features.query")),
    InputError: _refused,
}
