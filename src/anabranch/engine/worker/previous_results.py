"""All results of a node, for the one task that gets them: a list, or past a megabyte a file that is read when asked."""

import asyncio
import json
from array import array
from collections.abc import AsyncIterator, Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, overload

from anabranch.canonical import Json, decode, encode
from anabranch.engine.ports import JobStore, ResultPage
from anabranch.storage.large_results import Results

__all__ = ["ResultFile", "collect_results"]

MAX_LIST_CHARS = 1_000_000


class ResultFile(Sequence[Json]):
    """Results in a file, a line each: a hundred thousand of them need no memory. `list(…)` makes a list of them."""

    def __init__(self, path: str, count: int) -> None:
        """For a file with this many lines."""
        self._path = path
        self._count = count
        self._starts: array[int] | None = None

    def __len__(self) -> int:
        """How many there are."""
        return self._count

    def __iter__(self) -> Iterator[Json]:
        """One after the other, as the file is read."""
        with Path(self._path).open("rb") as file:
            yield from map(json.loads, file)

    @overload
    def __getitem__(self, place: int) -> Json: ...
    @overload
    def __getitem__(self, place: slice) -> list[Json]: ...
    def __getitem__(self, place: int | slice) -> Json | list[Json]:
        """One of them, or a list of some."""
        wanted = range(self._count)[place]
        if isinstance(wanted, range):
            return [self[each] for each in wanted]
        if self._starts is None:
            with Path(self._path).open("rb") as file:
                self._starts = array("Q", accumulate(map(len, file), initial=0))
        with Path(self._path).open("rb") as file:
            file.seek(self._starts[wanted])
            return json.loads(file.readline())  # type: ignore[no-any-return]  # JSON


async def collect_results(
    store: JobStore, results: Results, job_id: str, nodes: Sequence[str], path: str
) -> Sequence[Json]:
    """The results of the tasks of nodes, in order; where they are large, in a file at this path."""
    count, size = 0, 0
    listed: list[Json] = []
    async for page in _pages(store, job_id, nodes):
        text = await asyncio.to_thread(_bring_back, page.lines, results) if page.has_references else page.lines
        if size <= MAX_LIST_CHARS < size + len(text):
            await asyncio.to_thread(_append, path, "".join(f"{encode(each)}\n" for each in listed))
            listed.clear()
        count, size = count + page.count, size + len(text)
        if size > MAX_LIST_CHARS:
            await asyncio.to_thread(_append, path, f"{text}\n")
        else:
            listed += map(json.loads, text.split("\n"))
    return ResultFile(path, count) if size > MAX_LIST_CHARS else listed


async def _pages(store: JobStore, job_id: str, nodes: Sequence[str]) -> AsyncIterator[ResultPage]:
    for node in nodes:
        after = -1
        while page := await store.node_results(job_id, node, after):
            yield page
            after = page.last


def _bring_back(lines: str, results: Results) -> str:
    """The lines, with the results that were put aside in their place; these are not decoded."""
    whole = []
    for line in lines.split("\n"):
        task: Any = decode(line)  # as app.node_results makes it
        result = b"".join(results.task_pieces(task.pop("result"))).decode()
        whole.append(f'{encode(task)[:-1]},"result":{result}}}')
    return "\n".join(whole)


def _append(path: str, text: str) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with Path(path).open("a", encoding="utf-8") as file:
        file.write(text)
