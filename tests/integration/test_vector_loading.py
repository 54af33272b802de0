"""Rows are loaded once, whatever attempts are lost, late or repeated (E3, V3)."""

import asyncio
import os
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest

from anabranch.app import handler_resources
from anabranch.engine.model import Claim, Ended
from anabranch.engine.worker.context import Context, NoLink, TaskFacts
from anabranch.errors import Interrupted, NotFound, Permanent
from anabranch.plugins.vector.handler_models import Chunk, StagedTable
from anabranch.plugins.vector.models import ColumnType, Family, TableShape, WrittenChunk
from anabranch.plugins.vector.tables.chunk_copier import ChunkCopier
from anabranch.plugins.vector.tables.chunk_writer import WrittenRows
from anabranch.plugins.vector.tables.load import copy_chunk, finish_table, make_table
from anabranch.settings import load_settings
from tests.support.copy_rows import columns_of, make_batch, write_rows
from tests.support.engine import EngineHarness, fan_out, open_harness
from tests.support.waiting import wait_until_async

pytestmark = pytest.mark.postgres

TABLE = "towns_12345678"
KEY = "layer0-point"
COLUMNS = columns_of(ColumnType.BIGINT)
POINTS = TableShape(geometry_type="Point", has_z=False, columns=COLUMNS)
MIXED = TableShape(geometry_type="MultiPoint", mixed=True, has_z=False, columns=COLUMNS)
CHUNK_BYTES = 150  # two rows
COPYING = "select count(*) from pg_stat_progress_copy where datname = current_database()"
WAITING_FOR_COMMIT = (
    "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
)


class Loading:
    """A task of a job, its attempts, and two files of rows for its table."""

    def __init__(self, engine: EngineHarness, url: str, folder: Path, written: WrittenRows) -> None:
        self._engine, self._url, self._folder, self._written = engine, url, folder, written
        self.resources = handler_resources(load_settings(home=folder), url, folder / "scratch")

    async def begin(self) -> tuple[Context, Claim]:
        """The context of the next attempt."""
        (claim,) = await self._engine.claim(1)
        facts = TaskFacts(
            claim.lane.job_id, claim.task_id, claim.lane.node, 0, claim.attempt, {}, "test", None,
            str(self._folder / "scratch"), fence=claim.fence,
        )  # fmt: skip
        return Context(facts, NoLink(), self.resources), claim

    async def lose(self, claim: Claim) -> Context:
        """The context of the attempt that follows one that lost its task, and may not know it yet."""
        await self._engine.end([claim], Ended.HANDED_BACK)
        return (await self.begin())[0]

    def make(self, ctx: Context) -> None:
        """Make the table."""
        make_table(ctx, TABLE, POINTS)

    def copy(self, ctx: Context, number: int = 0, path: Path | None = None) -> int:
        """Copy one of the files of rows."""
        chunk = Chunk(table=TABLE, number=number, rows=self._written.chunk_rows[number], file={})
        return copy_chunk(ctx, chunk, path or self.file(number))

    def sent(self, number: int) -> WrittenChunk:
        """One of the files as the sandbox sends it, with the shape of the table where it is the first."""
        rows = self._written.chunk_rows[number]
        return WrittenChunk(key=KEY, number=number, rows=rows, shape=None if number else POINTS)

    def finish(self, ctx: Context, **other: Any) -> None:
        """Finish the table, which must be as it was written."""
        written = self._written
        facts = {"rows": written.rows, "chunks": len(written.chunks), "bounds": written.bounds}
        finish_table(ctx, StagedTable(**{
            "table": TABLE, "name": "towns", "layer": "towns", "family": Family.POINT, "geometry_type": "Point",
            "columns": COLUMNS, "size": 1, "sha256": written.sha256, **facts, **other,
        }))  # fmt: skip

    def file(self, number: int) -> Path:
        """A file of rows."""
        return self._folder / self._written.chunks[number]

    def query(self, query: str) -> Any:
        """The first value of an answer."""
        with psycopg.connect(self._url) as connection:
            return (connection.execute(query.encode()).fetchone() or [None])[0]

    def numbers(self, table: str = TABLE) -> Any:
        """The column of the table, in order."""
        return self.query(f"select coalesce(array_agg(bigint order by gid), '{{}}') from geo.{table}")

    async def wait_for_lock(self) -> None:
        """Until a connection waits for another one's transaction."""
        await wait_until_async(lambda: self.query(WAITING_FOR_COMMIT) > 0, "a connection that waits")


@pytest.fixture
async def loading(catalog_url: str, tmp_path: Path) -> AsyncIterator[Loading]:
    batches = (make_batch([f"POINT ({n} 50)"] * 2, bigint=[n, n + 1]) for n in (1, 3))
    async with open_harness(catalog_url) as engine:
        await engine.submit(fan_out(1))
        yield Loading(engine, catalog_url, tmp_path, write_rows(tmp_path, *batches, chunk_bytes=CHUNK_BYTES, name=KEY))


async def test_e3_rows_are_not_copied_again_where_the_report_was_lost(loading: Loading) -> None:
    first, claim = await loading.begin()
    loading.make(first)
    assert [loading.copy(first, 0), loading.copy(first, 0)] == [2, 0]
    second = await loading.lose(claim)
    assert [loading.copy(second, 0), loading.copy(second, 1)] == [0, 2]
    assert loading.numbers() == [1, 2, 3, 4]


async def test_e3_an_attempt_that_lost_its_task_writes_nothing(loading: Loading) -> None:
    late, claim = await loading.begin()
    loading.make(late)
    current = await loading.lose(claim)
    loading.copy(current, 0)
    for work in (loading.make, lambda ctx: loading.copy(ctx, 1), loading.finish):
        with pytest.raises(Interrupted):
            work(late)
    assert loading.numbers() == [1, 2], "the late attempt neither dropped the table nor added to it"
    assert loading.query("select rows from app.layer_tables") is None, "nor finished it"
    loading.make(current)
    assert loading.numbers() == []


@pytest.mark.parametrize("is_lost", [True, False])
async def test_e3_an_attempt_waits_for_an_earlier_one_amid_its_copying(
    loading: Loading, tmp_path: Path, is_lost: bool
) -> None:
    early, claim = await loading.begin()
    loading.make(early)
    slow = tmp_path / "slow"
    os.mkfifo(slow)
    content = loading.file(0).read_bytes()
    copying = asyncio.create_task(asyncio.to_thread(loading.copy, early, 0, slow))
    with await asyncio.to_thread(slow.open, "wb", buffering=0) as pipe:
        pipe.write(content[:-5])
        await wait_until_async(lambda: loading.query(COPYING) > 0, "the copying")
        again = await loading.lose(claim) if is_lost else early
        waiting = asyncio.create_task(asyncio.to_thread(loading.copy, again, 0))
        await loading.wait_for_lock()
        pipe.write(content[-5:])
    if is_lost:
        with pytest.raises(Interrupted):
            await copying
    assert (await waiting) == (2 if is_lost else 0)
    assert is_lost or await copying == 2
    assert loading.numbers() == [1, 2]


async def test_v3_finishing_twice_gives_the_same_table(loading: Loading) -> None:
    ctx, claim = await loading.begin()
    loading.make(ctx)
    for number in (0, 1):
        loading.copy(ctx, number)
    loading.finish(ctx)
    again = await loading.lose(claim)
    loading.finish(again)
    assert loading.copy(again, 1) == 0
    assert loading.numbers() == [1, 2, 3, 4]
    assert loading.query(f"select count(*) from pg_indexes where tablename = '{TABLE}'") == 2


@pytest.mark.parametrize("done", [[], ["gid"], ["geom"], ["gid", "geom"]], ids="-".join)
async def test_v3_an_attempt_goes_on_where_an_earlier_one_ended_amid_its_indexes(
    loading: Loading, done: list[str]
) -> None:
    first, claim = await loading.begin()
    loading.make(first)
    for number in (0, 1):
        loading.copy(first, number)
    with first.catalog() as connection:
        connection.execute("select app.close_layer_table(%s)", [TABLE])
    for column in done:
        with first.catalog() as connection:
            connection.execute("select app.index_layer_table(%s, %s)", [TABLE, column])
    loading.finish(await loading.lose(claim))
    indexes = (
        f"select array_agg(indisprimary order by indisprimary) from pg_index where indrelid = 'geo.{TABLE}'::regclass"
    )
    assert loading.query(indexes) == [False, True]
    assert loading.query("select rows from app.layer_tables") == 4


async def test_v1_a_table_that_is_not_what_was_read_is_refused(loading: Loading) -> None:
    ctx, _ = await loading.begin()
    loading.make(ctx)
    loading.copy(ctx, 0)
    with pytest.raises(Permanent, match="2 rows of 1 files, not 4 of 2"):
        loading.finish(ctx)
    with pytest.raises(Permanent, match="the extent"):
        loading.finish(ctx, rows=2, chunks=1, bounds=(1, 50, 1, 51))


async def test_rows_of_a_table_that_was_dropped_are_refused_with_what_to_do(loading: Loading) -> None:
    ctx, _ = await loading.begin()
    for work in (loading.copy, loading.finish):
        with pytest.raises(NotFound) as refused:
            work(ctx)
        assert (refused.value.code, "--rerun" in refused.value.remedy) == ("vector.table_lost", True)


async def test_a_file_is_copied_while_the_next_one_is_written(loading: Loading, tmp_path: Path) -> None:
    ctx, _ = await loading.begin()
    copier = ChunkCopier(ctx, tmp_path, "towns")
    with copier.running():
        copier.add(loading.sent(0))
        await wait_until_async(lambda: not loading.file(0).exists(), "the copy of the first file")
        assert loading.numbers(copier.name(KEY)) == [1, 2]
        copier.add(loading.sent(1))
        assert copier.finish(most_bytes=2**20) == []
    assert loading.numbers(copier.name(KEY)) == [1, 2, 3, 4]
    loading.finish(ctx, table=copier.name(KEY), size=copier.sizes[KEY])


async def test_files_that_are_left_when_the_last_is_written_are_for_other_tasks(
    loading: Loading, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ctx, _ = await loading.begin()
    content, slow, wait = loading.file(0).read_bytes(), loading.file(0), ThreadPoolExecutor.shutdown
    slow.unlink()
    os.mkfifo(slow)

    def let_go(*given: Any, **options: Any) -> None:
        if not pipe.closed:
            pipe.write(content)
            pipe.close()
        wait(*given, **options)

    monkeypatch.setattr(ThreadPoolExecutor, "shutdown", let_go)
    copier = ChunkCopier(ctx, tmp_path, "towns")
    with copier.running():
        copier.add(loading.sent(0))
        pipe = slow.open("wb", buffering=0)
        copier.add(loading.sent(1))
        (left,) = copier.finish(most_bytes=0)
    assert loading.numbers(copier.name(KEY)) == [1, 2]
    assert copy_chunk(ctx, left, ctx.work.require(left.file)) == 2
    assert loading.numbers(copier.name(KEY)) == [1, 2, 3, 4]


async def test_e3_an_attempt_that_lost_its_task_stops_copying(loading: Loading, tmp_path: Path) -> None:
    late, claim = await loading.begin()
    copier = ChunkCopier(late, tmp_path, "towns")
    with copier.running():
        copier.add(loading.sent(0))
        await wait_until_async(lambda: not loading.file(0).exists(), "the copy of the first file")
        await loading.lose(claim)
        copier.add(loading.sent(1))
        with pytest.raises(Interrupted):
            copier.finish(most_bytes=2**20)
    assert loading.numbers(copier.name(KEY)) == [1, 2]


async def test_points_that_multiple_ones_follow_become_multiple(loading: Loading, tmp_path: Path) -> None:
    ctx, _ = await loading.begin()
    batches = [make_batch([f"{kind} (1 50)"] * 2, bigint=[1, 2]) for kind in ("POINT", "MULTIPOINT", "POINT")]
    written = write_rows(tmp_path, *batches, chunk_bytes=CHUNK_BYTES, name=KEY)
    copier = ChunkCopier(ctx, tmp_path, "towns")
    with copier.running():
        for number, rows in enumerate(written.chunk_rows):
            shape = MIXED if number == 1 else POINTS if number == 0 else None
            copier.add(WrittenChunk(key=KEY, number=number, rows=rows, shape=shape))
        assert copier.finish(most_bytes=2**20) == []
    facts = {"table": copier.name(KEY), "rows": 6, "chunks": len(written.chunks), "bounds": written.bounds}
    loading.finish(ctx, **facts, geometry_type="MultiPoint")
    assert loading.query(f"select array_agg(distinct geometrytype(geom)) from geo.{facts['table']}") == ["MULTIPOINT"]
