"""What calls of functions read: pages, and rows that their plans handle."""

import json
from typing import Any, NamedTuple

import psycopg
from psycopg import Connection
from psycopg.rows import TupleRow

from anabranch.adapters.postgres.connect import connect
from anabranch.adapters.postgres.database import call_text
from anabranch.canonical import encode

__all__ = ["BATCH", "Meter", "Work"]

BATCH = 100


class Work(NamedTuple):
    """What a call read: pages, and rows that its plans handled or threw away."""

    buffers: int
    rows: int


class Meter:
    """A connection in the shoes of a worker, whose statements are measured inside of its functions too."""

    def __init__(self, url: str) -> None:
        self.connection: Connection[TupleRow] = connect(url, None, name="meter")
        self._plans: list[dict[str, Any]] = []
        self._tokens: dict[tuple[Any, ...], int] = {}
        self.connection.add_notice_handler(self._hear)
        row = self.connection.execute(
            "select app.open_session('worker', 'host', 1, 'member', '{default}', 1, interval '1 hour', '{}')"
        ).fetchone()
        self.session = row and row[0]

    def __enter__(self) -> "Meter":
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()

    def value(self, function: str, *arguments: object) -> Any:
        row = self.connection.execute(call_text(function).encode(), arguments).fetchone()
        return row and row[0]

    def claim(self, limit: int = BATCH) -> list[Any]:
        found = self.value("claim", self.session, ["default"], limit, "{}", False) or {"tasks": [], "fresh": []}
        fresh = [(lane, idx, 1) for lane, first, count, _ in found["fresh"] for idx in range(first, first + count)]
        tasks = [*found["tasks"], *fresh]
        self._tokens |= {tuple(task[:3]): found.get("token") for task in tasks}
        return tasks

    def report(self, tasks: list[Any], ended: str = "completed", **more: object) -> list[str]:
        reports = [
            {
                "lane": lane,
                "idx": idx,
                "attempt": attempt,
                "token": self._tokens[lane, idx, attempt],
                "ended": ended,
                "body": {"code": "x"},
                "ran": 0.01,
                **more,
            }
            for lane, idx, attempt, *_ in tasks
        ]
        answers: list[str] = self.value("report", self.session, encode(reports))
        return answers

    def measure(self, call: Any, *arguments: Any) -> Work:
        """The work of a call; the first one also makes plans, and reads the catalog."""
        settings = (
            "load 'auto_explain'; set auto_explain.log_min_duration = 0; set auto_explain.log_nested_statements = on;"
            "set auto_explain.log_analyze = on; set auto_explain.log_buffers = on; set auto_explain.log_timing = off;"
            "set auto_explain.log_format = json; set client_min_messages = log"
        )
        self.connection.execute(settings)
        self._plans.clear()
        call(*arguments)
        plans = [plan["Plan"] for plan in self._plans if "FOR KEY SHARE" not in plan["Query Text"]]
        self.connection.execute("reset client_min_messages; set auto_explain.log_min_duration = -1")
        outer = plans[-1]
        return Work(outer["Shared Hit Blocks"] + outer["Shared Read Blocks"], sum(map(_rows, plans)))

    def least(self, call: Any, *arguments: Any) -> Work:
        """The work of a call that can be repeated: other databases' changes make a session read the catalog again."""
        return min(self.measure(call, *arguments) for _ in range(3))

    def _hear(self, notice: psycopg.errors.Diagnostic) -> None:
        text = notice.message_primary or ""
        if "plan:" in text:
            self._plans.append(json.loads(text[text.index("{") :]))


def _rows(plan: dict[str, Any]) -> int:
    removed = sum(int(count) for name, count in plan.items() if name.startswith("Rows Removed"))
    return int((plan["Actual Rows"] + removed) * plan["Actual Loops"]) + sum(map(_rows, plan.get("Plans", ())))
