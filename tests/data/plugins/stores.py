"""Handlers that use storage and the database, wherever handlers run."""

import asyncio
import os
from dataclasses import asdict
from typing import Any

from anabranch import Context, Job, TaskSpec, register_handler, register_job


@register_job
class Stores(Job):
    """One task by the handler of each kind, with the same parameters."""

    job_type = "stores"
    stages = [
        {"number": 1, "name": "act", "task_type": "store_plain", "parallelism": "dynamic", "on_failure": "continue"}
    ]

    def create_tasks_for_stage(self, stage: int, params: dict[str, Any]) -> list[TaskSpec]:
        return [TaskSpec(params, kind, f"store_{kind}") for kind in params["kinds"]]


def act(params: dict[str, Any], ctx: Context) -> object:
    """Turn a source into an output, or whatever else is asked for."""
    if params.get("sql"):
        with ctx.database() as connection:
            return [str(value) for value in connection.execute(params["sql"]).fetchone()]
    if params.get("environment"):
        return [value for value in os.environ.values() if params["environment"] in value]
    if params.get("folder"):
        return [[found.key, found.size] for found in ctx.storage.list(params["folder"])]
    source = ctx.storage.fetch(params["source"], params.get("sha256"))
    made = ctx.scratch / "made.txt"
    made.write_bytes(source.read_bytes().upper())
    return {
        **asdict(ctx.storage.put(made, tier="gold", name="out/made.txt", media_type="text/plain")),
        "name": source.name,
    }


@register_handler("store_plain")
def plain(params: dict[str, Any], ctx: Context) -> object:
    return act(params, ctx)


@register_handler("store_heavy", heavy=True)
def heavy(params: dict[str, Any], ctx: Context) -> object:
    return act(params, ctx)


@register_handler("store_quick", quick=True)
def quick(params: dict[str, Any], ctx: Context) -> object:
    return act(params, ctx)


@register_handler("store_async")
async def in_loop(params: dict[str, Any], ctx: Context) -> object:
    if params.get("sql"):
        async with ctx.pool.connection() as connection:
            return [str(value) for value in await (await connection.execute(params["sql"])).fetchone()]
    return await asyncio.to_thread(act, params, ctx)
