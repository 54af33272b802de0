"""Parts of nodes' outputs, as expressions name them; what they look into is bounded."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, BinaryIO

from anabranch.canonical import Json, decode
from anabranch.engine.advancing.json_array import find_items
from anabranch.engine.advancing.transitions import (
    ABSENT,
    MAX_ITEMS,
    MAX_OUTPUT_BYTES,
    BeginCleanup,
    SetJob,
    TooLarge,
    Transition,
    Value,
)
from anabranch.engine.ports import JobStore, StoredValue
from anabranch.storage.large_results import REFERENCE_KEY, Results
from anabranch.workflows.expressions import Missing, Reference, walk

__all__ = ["Outputs"]


class Outputs:
    """Looks outputs up in the store, or in the work area if they are large."""

    def __init__(self, store: JobStore, results: Results) -> None:
        self._store = store
        self.results = results

    async def look_up(self, job_id: str, references: Sequence[Reference]) -> list[Value]:
        """The values of references; ABSENT if one does not exist, TooLarge if it exceeds what expressions may read."""
        found = await self._store.node_values(job_id, references)
        return [await self._read(value, reference) for value, reference in zip(found, references, strict=True)]

    async def _read(self, found: StoredValue | None, reference: Reference) -> Value:
        if found is None:
            return ABSENT
        if found.reference is None and found.many is None:
            return found.value
        if (size := _size(found, reference)) > MAX_OUTPUT_BYTES:
            return TooLarge(size)
        whole = await asyncio.to_thread(self._whole, found)
        try:
            return walk(whole, reference.path[2:], reference)
        except Missing:
            return ABSENT

    async def look_up_items(self, job_id: str, reference: Reference) -> Value:
        """The same for the source of a fan-out, which is never decoded as a whole where it is large."""
        (found,) = await self._store.node_values(job_id, [reference])
        if found is None or _size(found, reference) <= MAX_OUTPUT_BYTES:
            return await self._read(found, reference)
        path = reference.path[2:]
        if found.reference is not None:
            return await asyncio.to_thread(self._find, found.reference, path)
        if path[:1] != ("items",):
            return await self._read(found, reference)
        return await self._spool(job_id, str(reference.path[0]), path[1:])

    async def put_aside(self, job_id: str, transitions: Sequence[Transition]) -> tuple[Transition, ...]:
        """The same transitions, with a job's result put aside where it is large."""
        return tuple([await self._put_aside(job_id, change) for change in transitions])

    async def _put_aside(self, job_id: str, change: Transition) -> Transition:
        if isinstance(change, BeginCleanup):
            return BeginCleanup(await self._put_end_aside(job_id, change.end))
        return await self._put_end_aside(job_id, change) if isinstance(change, SetJob) else change

    async def _put_end_aside(self, job_id: str, change: SetJob) -> SetJob:
        if change.result is None:
            return change
        return replace(change, result=await asyncio.to_thread(self.results.put_job_aside, job_id, change.result))

    async def _spool(self, job_id: str, node: str, path: Sequence[str | int]) -> Value:
        """The results of a node with many tasks, gathered page by page in a file."""
        file = await asyncio.to_thread(self.results.spool, (b"[",))
        after, separator = -1, b""
        while page := await self._store.node_results(job_id, node, after):
            separator = await asyncio.to_thread(self._append, file, page.lines, separator)
            after = page.last
        with file:
            file.write(b"]")
            file.flush()
            return await asyncio.to_thread(_find_in, file, path)

    def _append(self, file: BinaryIO, lines: str, separator: bytes) -> bytes:
        """Write the results of completed tasks; returns the separator for the next one."""
        for line in lines.split("\n"):
            task: Any = decode(line)  # as app.node_results makes it
            if task["status"] == "completed":
                file.write(separator)
                separator = b","
                file.writelines(self.results.task_pieces(task["result"]))
        return separator

    def _find(self, stored: dict[str, Json], path: Sequence[str | int]) -> Value:
        with self.results.open(stored) as file:
            return _find_in(file, path)

    def _whole(self, found: StoredValue) -> Json:
        if found.many is not None:
            return self.results.collect(found.many)
        return self.results.bring_back({REFERENCE_KEY: found.reference})


def _size(found: StoredValue, reference: Reference) -> int:
    """How many bytes would be loaded, as far as that is known; a value that is stored inline is bounded already."""
    if found.reference is not None:
        return int(str(found.reference["size"]))
    many: Any = found.many or {}  # as app.lane_output makes it
    if "items_omitted" in many and reference.path[2:3] == ("items",):
        return MAX_OUTPUT_BYTES + 1
    return sum(int(item["reference"]["size"]) for item in many.get("items", ()) if "reference" in item)


def _find_in(file: BinaryIO, path: Sequence[str | int]) -> Value:
    try:
        return find_items(file, path, MAX_ITEMS)
    except LookupError:
        return ABSENT
    except ValueError:  # it is there, and no array
        return None
