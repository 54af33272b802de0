"""Handlers for the workflows beside them."""

from typing import Any

from anabranch import Permanent, handler


@handler("raster_validate", queue="functionapp-tasks", quick=True)
def raster_validate(params: dict[str, Any]) -> dict[str, Any]:
    size = 10 if params["blob_name"] == "small.tif" else 500
    return {"file_size_mb": size, "blob_url": f"{params['container_name']}/{params['blob_name']}"}


@handler("raster_cog_fa", queue="functionapp-tasks", quick=True)
def raster_cog_fa(params: dict[str, Any]) -> dict[str, Any]:
    return {"by": "function app", **params}


@handler("raster_cog_docker", queue="container-tasks", quick=True)
def raster_cog_docker(params: dict[str, Any]) -> dict[str, Any]:
    return {"by": "docker", **params}


@handler("fails_on", quick=True)
def fails_on(params: dict[str, Any]) -> dict[str, Any]:
    if params["item"] in params["bad"]:
        raise Permanent(f"{params['item']} is bad")
    return {"item": params["item"]}


@handler("large_list", quick=True)
def large_list(params: dict[str, Any]) -> dict[str, Any]:
    return {"names": ["x" * 1000] * params["count"], "small": "kept"}


@handler("long_text", quick=True)
def long_text(params: dict[str, Any]) -> dict[str, Any]:
    return {"text": "x" * params["length"], "length": params["length"]}


@handler("returns_nothing", quick=True)
def returns_nothing(params: dict[str, Any]) -> None:
    pass
