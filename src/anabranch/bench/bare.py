"""A hand-written upper bound: batched claims with SKIP LOCKED and a counter, no engine; same processes and server.

It has no fence, attempt, result, retry, priority, cancel or second job: a system with those can't be as fast.
"""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg
from psycopg import Connection
from psycopg.rows import TupleRow

from anabranch.bench.statistics import query_text
from anabranch.errors import Unavailable

__all__ = ["BareFigures", "BareLoop", "run_bare_loop"]

WARM_TASKS = 2_000
IDLE_SECONDS = 0.001
# The planner would sort all ready rows for each claim.
PLANNER_OPTIONS = "-c plan_cache_mode=force_generic_plan -c enable_seqscan=off -c enable_bitmapscan=off -c jit=off"


@dataclass(frozen=True)
class BareFigures:
    """The figures of the bare loop."""

    tasks: int
    wall_s: float
    tasks_per_s: float


class BareLoop:
    """The submitter, with its processes running."""

    def __init__(self, connection: Connection[TupleRow]) -> None:
        """Made by `run_bare_loop`."""
        self._connection = connection

    def measure(self, tasks: int) -> BareFigures:
        """Measure a fan-out of this many tasks, from its submission until the last is counted."""
        begun = time.monotonic()
        self._connection.execute(query_text("bare_fill").encode(), {"tasks": tasks})
        while _first(self._connection, "bare_left"):
            time.sleep(max(0.001, (time.monotonic() - begun) / 100))
        wall = time.monotonic() - begun
        return BareFigures(tasks, round(wall, 4), round(tasks / wall, 1))


@contextmanager
def run_bare_loop(url: str, workers: int, manner: str) -> Iterator[BareLoop]:
    """A warm loop on an empty database."""
    with psycopg.connect(url, autocommit=True, options=PLANNER_OPTIONS) as connection:
        connection.execute(query_text("bare_schema").encode())
        command = [sys.executable, "-P", "-m", __name__, url, manner]
        processes = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(workers)]
        try:
            for process in processes:
                if not process.stdout or process.stdout.readline() != b"ready\n":
                    raise Unavailable("bench.died", "a process of the bare loop did not start")
            loop = BareLoop(connection)
            loop.measure(WARM_TASKS)
            yield loop
        finally:
            for process in processes:
                process.terminate()
                process.communicate()


def _serve(url: str, manner: str) -> None:
    """Claim and complete tasks in batches until killed; the work itself is a no-op."""
    with psycopg.connect(url, autocommit=True, options=PLANNER_OPTIONS, prepare_threshold=0) as connection:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        step = _turn if manner == "turns" else _claim_and_complete
        taken: list[int] = []
        while True:
            idle = not taken
            taken = step(connection, taken)
            if idle and not taken:
                time.sleep(IDLE_SECONDS)


def _claim_and_complete(connection: Connection[TupleRow], _taken: list[int]) -> list[int]:
    taken = _first(connection, "bare_claim", batch=100)
    for task in taken:
        _work(task)
    if taken:
        _first(connection, "bare_complete", done=taken)
    return taken


def _turn(connection: Connection[TupleRow], done: list[int]) -> list[int]:
    taken = _first(connection, "bare_turn", done=done, batch=200)
    for task in taken:
        _work(task)
    return taken


def _work(_task: int) -> None:
    pass


def _first(connection: Connection[TupleRow], name: str, **parameters: object) -> list[int]:
    row = connection.execute(query_text(name).encode(), parameters).fetchone()
    return (row[0] or []) if row else []


if __name__ == "__main__":
    _serve(*sys.argv[1:])
