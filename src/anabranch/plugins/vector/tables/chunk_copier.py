"""Copies files of rows into their tables while the sandbox writes the next ones."""

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from anabranch.engine.worker.context import Context
from anabranch.plugins.vector.handler_models import Chunk, ChunkRows
from anabranch.plugins.vector.models import TableKey, WrittenChunk
from anabranch.plugins.vector.tables.load import copy_chunk, make_table, mix_table
from anabranch.plugins.vector.tables.names import name_table

__all__ = ["ChunkCopier"]


class ChunkCopier:
    """Copies one file after the other in a thread, each in a transaction of its own, and removes it.

    A failed or lost attempt leaves tables that nobody sees, and the next one makes them again.
    """

    def __init__(self, ctx: Context, folder: Path, base: str) -> None:
        """Of files in this folder; `base` begins the names of the tables."""
        self._ctx, self._folder, self._base = ctx, folder, base
        self._thread = ThreadPoolExecutor(1)
        self._copies: list[tuple[WrittenChunk, Future[None]]] = []
        self._made: set[TableKey] = set()
        self.sizes: Counter[TableKey] = Counter()
        """The bytes of the files of each table."""

    @contextmanager
    def running(self) -> Iterator[None]:
        """Copy what is added; at the end of an error, only the file that is being copied."""
        try:
            yield
        finally:
            self._thread.shutdown(cancel_futures=True)

    def name(self, key: TableKey) -> str:
        """The name of a table, which follows from the job, so that the next attempt finds it."""
        return name_table(self._base, f"{self._ctx.job_id}/{key}")

    def add(self, chunk: WrittenChunk) -> None:
        """Copy a file when its turn comes; raises the error of a file before it."""
        self._raise_error()
        self.sizes[chunk.key] += (self._folder / chunk.file).stat().st_size
        self._copies.append((chunk, self._thread.submit(self._copy, chunk)))

    def finish(self, most_bytes: int) -> list[Chunk]:
        """Copy the rest, or if that has more bytes, store it for tasks that copy it in parallel."""
        waiting = [(chunk, copy) for chunk, copy in self._copies if not (copy.running() or copy.done())]
        left: list[WrittenChunk] = []
        if sum((self._folder / chunk.file).stat().st_size for chunk, _ in waiting) > most_bytes:
            left = [chunk for chunk, copy in reversed(waiting) if copy.cancel()][::-1]
        self._thread.shutdown()
        self._raise_error()
        return [self._put(chunk) for chunk in left]

    def _raise_error(self) -> None:
        for _, copy in self._copies:
            if copy.done() and not copy.cancelled():
                copy.result()

    def _copy(self, chunk: WrittenChunk) -> None:
        self._prepare(chunk)
        rows = ChunkRows(table=self.name(chunk.key), number=chunk.number, rows=chunk.rows)
        copy_chunk(self._ctx, rows, self._folder / chunk.file)
        (self._folder / chunk.file).unlink()

    def _prepare(self, chunk: WrittenChunk) -> None:
        if chunk.shape:
            change = mix_table if chunk.key in self._made else make_table
            change(self._ctx, self.name(chunk.key), chunk.shape)
            self._made.add(chunk.key)

    def _put(self, chunk: WrittenChunk) -> Chunk:
        self._prepare(chunk)
        stored = self._ctx.work.put(self._folder / chunk.file)
        (self._folder / chunk.file).unlink()
        return Chunk(table=self.name(chunk.key), number=chunk.number, rows=chunk.rows, file=stored)
