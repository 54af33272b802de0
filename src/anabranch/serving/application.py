"""The FastAPI application of a part of what is served."""

from collections.abc import Sequence

from fastapi import FastAPI
from fastapi.params import Depends

__all__ = ["make_application"]


def make_application(title: str, dependencies: Sequence[Depends] = ()) -> FastAPI:
    """An application without pages of its own: the API describes the routes of all of them in one document."""
    return FastAPI(
        title=title,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        dependencies=dependencies,
    )
