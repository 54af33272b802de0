"""Handlers to try workflows with: small, harmless, and each with one behaviour."""

import asyncio
import random
from typing import Literal, TypedDict

from pydantic import Field

from anabranch import Context, Permanent, Resource, Throttled, Transient, handler
from anabranch.canonical import Json, JsonObject
from anabranch.plugins.demo.phases import Phases, work_in_phases
from anabranch.strict_model import StrictModel

__all__ = [
    "chunk_processor",
    "echo",
    "fail",
    "flaky",
    "hello_world",
    "list_items",
    "memory_hog",
    "multi_phase",
    "size_check",
    "sleep",
]


@handler("echo", quick=True)
def echo(params: JsonObject) -> JsonObject:
    """Return the parameters."""
    return params


@handler("hello_world", quick=True)
def hello_world(name: str = "World") -> dict[str, str]:
    """Greet someone."""
    return {"message": f"Hello {name}"}


class SleepParams(StrictModel):
    """How long to wait."""

    seconds: float = Field(1, ge=0, le=3600)


@handler("sleep")
async def sleep(params: SleepParams, ctx: Context) -> dict[str, float]:
    """Wait, in the worker's event loop."""
    await asyncio.sleep(params.seconds)
    return {"slept": params.seconds}


class FailParams(StrictModel):
    """How it fails, and how likely that is."""

    category: Literal["permanent", "transient", "throttled", "resource", "bug"] = "permanent"
    probability: float = Field(1, ge=0, le=1)
    message: str = "it was asked to fail"


@handler("fail", quick=True)
def fail(params: FailParams) -> dict[str, bool]:
    """Fail with the given category."""
    if random.random() >= params.probability:  # noqa: S311  # a demonstration, not a secret
        return {"failed": False}
    kinds = {"permanent": Permanent, "transient": Transient, "throttled": Throttled, "resource": Resource}
    raise kinds.get(params.category, TypeError)(params.message)


class FlakyParams(StrictModel):
    """How often it fails before it works."""

    failures: int = Field(2, ge=0, le=100)


@handler("flaky", quick=True)
def flaky(params: FlakyParams, ctx: Context) -> dict[str, int]:
    """Fail a few times, then work."""
    if ctx.attempt <= params.failures:
        raise Transient(f"attempt {ctx.attempt} of {params.failures} that fail")
    return {"attempts": ctx.attempt}


class PhaseParams(StrictModel):
    """How many phases, and how long each takes."""

    phases: int = Field(3, ge=1, le=1000)
    seconds: float = Field(0.1, ge=0, le=3600)


@handler("multi_phase")
def multi_phase(params: PhaseParams, ctx: Context) -> Phases:
    """Work in phases; another attempt continues after the last completed phase."""
    return work_in_phases(params.phases, params.seconds, ctx)


class SizeParams(StrictModel):
    """A size to judge."""

    size_mb: float = Field(ge=0)
    limit_mb: float = Field(100, gt=0)


class JudgedSize(StrictModel):
    """A size, and whether it is large."""

    size_mb: float
    is_large: bool


@handler("size_check", quick=True)
def size_check(params: SizeParams) -> JudgedSize:
    """Return whether a size is large."""
    return JudgedSize(size_mb=params.size_mb, is_large=params.size_mb >= params.limit_mb)


class ListParams(StrictModel):
    """How many items."""

    count: int = Field(10, ge=0, le=1_000_000)


class ListedItem(TypedDict):
    """An item of a fan-out."""

    name: str
    size: int


@handler("list_items", quick=True)
def list_items(params: ListParams) -> dict[str, list[ListedItem]]:
    """A source for fan-outs: items with a name and a size."""
    return {"items": [{"name": f"item-{number}", "size": number % 7} for number in range(params.count)]}


class ChunkParams(StrictModel):
    """A chunk of a larger whole."""

    chunk: Json
    factor: float = 1


class Weight(StrictModel):
    """How many items there are, and what they weigh together."""

    items: int
    weight: float


@handler("chunk_processor", quick=True)
def chunk_processor(params: ChunkParams) -> Weight:
    """Weigh a chunk: an item, or a list of them."""
    chunk = params.chunk if isinstance(params.chunk, list) else [params.chunk]
    sizes = [item["size"] for item in chunk if isinstance(item, dict) and isinstance(item.get("size"), int | float)]
    weight = sum(size for size in sizes if isinstance(size, int | float)) * params.factor
    return Weight(items=len(chunk), weight=weight)


class MemoryParams(StrictModel):
    """How much memory."""

    megabytes: int = Field(100, ge=1, le=1_000_000)


@handler("memory_hog", heavy=True)
def memory_hog(params: MemoryParams) -> dict[str, int]:
    """Allocate memory and write to all of it."""
    return {"bytes": len(b"x" * (params.megabytes * 1_000_000))}
