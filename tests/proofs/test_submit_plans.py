"""What a submission reads doesn't grow with the number of jobs in the table, whatever the planner knows of it."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from psycopg import Connection
from psycopg.rows import TupleRow

from anabranch.adapters.postgres.connect import connect
from anabranch.adapters.postgres.database import call_text
from anabranch.adapters.postgres.store.rows import write_batch
from anabranch.engine.submitting.submission import IdempotencyKey, Submission
from tests.support.engine import fan_out

pytestmark = pytest.mark.postgres
BATCH, MANY = 50, 50_000
# Indexes get deeper by a page or two.
MOST_GROWTH = 1.5
EXPLAIN = f"explain (analyze, buffers, timing off, format json) {call_text('submit_batch')}"
FILL = [
    """insert into app.jobs (job_id, identity, ordinal, scope, platform, workflow, workflow_hash, parameters, priority,
                             state, generation, correlation_id, last_event, created_at)
       select md5(i::text), md5(i::text), 0, scope, platform, workflow, workflow_hash, '{}', 5, 'completed', 0, 'c',
              1, now()
         from (select * from app.jobs limit 1) j, generate_series(1, %(many)s) i""",
    """insert into app.nodes (job, name, position, state, generation)
       select id, 'work', 1, 'completed', 0 from app.jobs where state = 'completed'""",
    """insert into app.events (job, seq, at, kind, data)
       select id, 1, now(), 'job.submitted', '{}' from app.jobs where state = 'completed'""",
    """insert into app.idempotency_keys
       select 'test', md5(i::text), 'r', 'j', 'completed', true, now() from generate_series(1, %(many)s) i""",
]


@pytest.fixture
def connection(database_url: str) -> Iterator[Connection[TupleRow]]:
    """A connection that keeps its plans; only the test analyzes."""
    with connect(database_url, None) as admin:
        for table in ("jobs", "nodes", "events", "idempotency_keys", "rights", "lanes", "workflows"):
            admin.execute(f"alter table app.{table} set (autovacuum_enabled = off)".encode())
        yield admin


class Submitter:
    """Submits batches of new jobs on one connection."""

    def __init__(self, connection: Connection[TupleRow]) -> None:
        self._connection = connection
        row = connection.execute(
            "select app.open_session('api', 'host', 1, 'member', '{}', 0, interval '1 hour', '{}')"
        ).fetchone()
        self._session = row and row[0]
        self._made = 0

    def pages(self) -> float:
        """How many pages a submission of a batch touches."""
        workflows, submissions = write_batch([self._next() for _ in range(BATCH)])
        row = self._connection.execute(EXPLAIN.encode(), (self._session, workflows, submissions)).fetchone()
        plan: dict[str, Any] = row[0][0]["Plan"] if row else {}
        assert plan["Actual Rows"] == BATCH
        return float(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]) / BATCH

    def _next(self) -> Submission:
        self._made += 1
        key = IdempotencyKey(str(self._made), "r", timedelta(hours=1))
        return Submission(
            fan_out(2), {"n": self._made}, "test", 5, rerun=False, correlation_id="c", key=key, begins=True
        )


@pytest.mark.parametrize("analyzed", ["never", "when it was empty", "when it was full"])
def test_e15_what_a_submission_reads_does_not_grow_with_the_jobs(
    connection: Connection[TupleRow], analyzed: str
) -> None:
    submitter = Submitter(connection)
    if analyzed == "when it was empty":
        connection.execute("analyze")
    few = [submitter.pages() for _ in range(3)][-1]
    for fill in FILL:
        connection.execute(fill.encode(), {"many": MANY})
    if analyzed == "when it was full":
        connection.execute("analyze")
    many = [submitter.pages() for _ in range(2)][-1]
    assert many < few * MOST_GROWTH
