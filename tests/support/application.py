"""The API as an application of the tests' own process."""

from typing import Any

from fastapi import FastAPI

from anabranch.api import main

__all__ = ["create_app"]


def create_app(*args: Any, **more: Any) -> FastAPI:
    """An application that leaves GDAL's drivers open, which later tests need; it takes what that of the API does."""
    return main.create_app(*args, **more, owns_process=False)
