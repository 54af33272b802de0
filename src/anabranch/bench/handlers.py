"""Handlers that only return the time they ran at, on the monotonic clock that all processes of a machine share."""

import time
from typing import Any

from anabranch.canonical import JsonObject
from anabranch.engine.worker.handler import handler
from anabranch.strict_model import StrictModel

__all__ = ["KINDS", "count", "list_items", "step_async", "step_plain", "step_quick"]

KINDS = ("quick", "async", "plain")


class ListParams(StrictModel):
    """How many items."""

    count: int


@handler("bench.quick", quick=True)
def step_quick(params: JsonObject) -> float:
    """A no-op in the worker's own thread; its result is the time of its call."""
    return time.monotonic()


@handler("bench.async")
async def step_async(params: JsonObject) -> float:
    """A no-op in the worker's loop."""
    return time.monotonic()


@handler("bench.plain")
def step_plain(params: JsonObject) -> float:
    """A no-op in a child process, where handlers run by default."""
    return time.monotonic()


@handler("bench.list", quick=True)
def list_items(params: ListParams) -> JsonObject:
    """Items for a fan-out."""
    return {"first": 0, "items": [{"name": f"item-{number}", "size": number} for number in range(params.count)]}


@handler("bench.count")
async def count(params: dict[str, Any]) -> int:  # those of the job, and results that are decoded when asked for
    """The fan-in: it gets every result and counts them."""
    return len(params["previous_results"])
