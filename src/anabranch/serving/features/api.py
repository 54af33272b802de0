"""OGC API Features and vector tiles: what is published in `geo`, read-only."""

from typing import Any

from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp

from anabranch.errors import AnabranchError, InputError
from anabranch.serving.errors import Translate, raise_errors, spell_mistakes, translate_framework
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
    app = FastAPI(
        title="Anabranch features",
        openapi_url=None,  # the API describes all of its routes in one document
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        dependencies=[Depends(_check_parameters)],
    )
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


def _not_valid(error: Exception) -> AnabranchError:
    return InputError("features.query", str(error) or type(error).__name__)


def _not_valid_request(error: Exception) -> AnabranchError:
    assert isinstance(error, RequestValidationError)  # noqa: S101  # for the types
    return InputError("features.query", spell_mistakes(error))


def _refused(error: Exception) -> AnabranchError:
    """The checks that are shared with the catalog name its code."""
    assert isinstance(error, InputError)  # noqa: S101  # for the types
    return InputError("features.query", error.message, remedy=error.remedy) if error.code == "catalog.query" else error


def _refused_by_framework(error: Exception) -> AnabranchError:
    translated = translate_framework(error)
    return _not_valid(translated) if translated.code == "request.invalid" else translated


TRANSLATIONS: dict[type[Exception], Translate] = {
    InputError: _refused,
    ValueError: _not_valid,
    RecursionError: _not_valid,
    ArithmeticError: _not_valid,
    RequestValidationError: _not_valid_request,
    HTTPException: _refused_by_framework,
}
