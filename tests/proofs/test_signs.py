"""What health and metrics read is bounded by what is open: the jobs and tasks that have ended cost nothing."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg import Connection
from psycopg.rows import TupleRow

from anabranch.adapters.postgres.database import query_text
from anabranch.adapters.postgres.store.vitals import PostgresVitals

pytestmark = pytest.mark.postgres
ENDED, OPEN = 30_000, 200
LARGE = {"jobs", "nodes", "lanes", "items", "outcomes", "attempts", "events"}
FILL = f"""
insert into app.workflows values ('h', 'w', '{{}}', now());
insert into app.jobs (job_id, identity, ordinal, scope, platform, workflow, workflow_hash, parameters, priority, state,
                      generation, correlation_id, last_event, created_at)
select n, n, 0, '', '', 'w', 'h', '{{}}', 5,
       case when n % {ENDED // OPEN} = 0 then 'running' else 'completed' end::app.job_state, 0, '', 1, now()
  from generate_series(1, {ENDED}) n;
insert into app.lanes (job, node, purpose, generation, queue, priority, handler, with_parameters, policy, width,
                       next_index, running, remaining, failed, tolerated, closed, opened_at, served_at, itemized, ripe)
select j.id, 'n', 'work', 0, 'default', 5, 'h', false, '{{}}', 1, case when j.state = 'running' then 0 else 1 end,
       0, 1, 0, 0, j.state <> 'running', now(), now(), false, false from app.jobs j;
vacuum analyze app.jobs, app.lanes;
"""


@pytest.fixture
def filled(database_url: str) -> Iterator[Connection[TupleRow]]:
    with psycopg.connect(database_url, autocommit=True) as connection:
        for statement in filter(str.strip, FILL.split(";\n")):
            connection.execute(statement.encode())
        yield connection


def read_whole(plan: dict[str, Any]) -> Iterator[str]:
    """The tables that a plan reads from end to end."""
    if plan["Node Type"] == "Seq Scan":
        yield plan["Relation Name"]
    for part in plan.get("Plans", ()):
        yield from read_whole(part)


@pytest.mark.parametrize(
    ("name", "parameters"), [("vitals", {}), ("gauges", {}), ("stuck_jobs", {"after": 0, "limit": 5000})]
)
def test_e14_signs_read_no_large_table_whole(
    filled: Connection[TupleRow], name: str, parameters: dict[str, int]
) -> None:
    row = filled.execute(f"explain (format json) {query_text(name)}".encode(), parameters).fetchone()
    assert row
    assert set(read_whole(row[0][0]["Plan"])) & LARGE == set()


async def test_a16_what_holds_the_horizon_is_named(database_url: str) -> None:
    signs = PostgresVitals(database_url, name="test signs")
    await signs.open()
    try:
        with psycopg.connect(database_url, application_name="a long one") as holder:
            holder.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            holder.execute("select txid_current()")
            held = (await signs.read_vitals()).horizon
            assert held
            assert "(a long one)" in held.holder
            assert (await signs.gauges()).horizon_seconds >= held.seconds
        held = (await signs.read_vitals()).horizon
        assert held is None or "a long one" not in held.holder
    finally:
        await signs.close()
