"""Handlers that only return the time they ran at, on the monotonic clock that all processes of a machine share."""

import time
from typing import Any

from anabranch.engine.worker.handler import handler

__all__ = ["KINDS", "count", "list_items", "step_async", "step_plain", "step_quick"]

KINDS = ("quick", "async", "plain")


@handler("bench.quick", quick=True)
def step_quick(params: dict[str, Any]) -> float:  # any JSON
    """A no-op in the worker's own thread; its result is the time of its call."""
    return time.monotonic()


@handler("bench.async")
async def step_async(params: dict[str, Any]) -> float:  # any JSON
    """A no-op in the worker's loop."""
    return time.monotonic()


@handler("bench.plain")
def step_plain(params: dict[str, Any]) -> float:  # any JSON
    """A no-op in a child process, where handlers run by default."""
    return time.monotonic()


@handler("bench.list", quick=True)
def list_items(params: dict[str, Any]) -> dict[str, Any]:  # any JSON
    """Items for a fan-out."""
    return {"first": 0, "items": [{"name": f"item-{number}", "size": number} for number in range(params["count"])]}


@handler("bench.count")
async def count(params: dict[str, Any]) -> int:  # any JSON
    """The fan-in: it gets every result and counts them."""
    return len(params["previous_results"])
