"""Answers are read from JSON by the types of their fields, and the API writes the same JSON."""

from datetime import UTC, datetime
from typing import Any

import pytest

from anabranch.api.answers.build import to_json
from anabranch.contract.answer import Page, read
from anabranch.contract.catalog import Item
from anabranch.contract.control import Limit, SetLimit
from anabranch.contract.jobs import Event, JobError, Node, Progress, Task, TaskCounts
from anabranch.contract.stack import Health, NewKey
from anabranch.contract.workflows import Workflows
from anabranch.enums import NodeStatus

AT = "2026-01-02T03:04:05.678900Z"
COUNTS = dict.fromkeys(("total", "ready", "running", "due", "completed", "failed", "cancelled"), 1)
NODE = {
    "name": "a", "status": "failed", "tasks": COUNTS, "done": 0, "opened_at": AT, "finished_at": None,
    "answer": None, "command": None,
    "progress": {"done": 1, "total": None, "message": "", "at": AT},
    "error": {"code": "handler.error", "message": "no", "remedy": "", "node": None, "type": "ValueError", "more": [1]},
}  # fmt: skip
LIMIT = {"kind": "queue", "name": "q", "most": 1, "paused": False, "reason": "", "set_by": "ann", "set_at": AT}


@pytest.mark.parametrize(
    ("kind", "raw"),
    [
        (Node, NODE),
        (JobError, NODE["error"]),
        (Limit, LIMIT),
        (SetLimit, {**LIMIT, "warning": None}),
        (Health, {"status": "ok", "components": {}, "queues": {"q": 1}}),
        (Workflows, {"items": [], "refused": [{"name": "w", "reason": "no"}]}),
    ],
)
def test_the_api_writes_the_json_that_the_client_reads(kind: type[Any], raw: object) -> None:
    assert to_json(read(kind, raw)) == raw


def test_parts_are_read_by_their_types() -> None:
    node = read(Node, NODE)
    moment = datetime(2026, 1, 2, 3, 4, 5, 678900, UTC)
    assert node.status is NodeStatus.FAILED
    assert node.tasks == TaskCounts(**COUNTS)
    assert node.progress == Progress(1, None, "", moment)
    assert node.error is not None
    assert (node.error.raw["more"], node.error.in_words) == ([1], "ValueError: no")
    assert read(Workflows, {"items": [], "refused": [{"name": "w", "reason": "no"}]}).refused == {"w": "no"}


def test_keys_and_words_of_a_newer_api_are_kept_in_the_raw_answer() -> None:
    node = read(Node, {**NODE, "status": "dreaming", "colour": "red"})
    assert (node.status, node.raw["colour"]) == ("dreaming", "red")


def test_a_field_that_an_older_api_lacks_is_none_or_empty() -> None:
    event = read(Event, {"seq": 1, "at": AT, "kind": "job.running", "node": None, "data": {}})
    assert event.by is None
    assert list(read(Page[Event], {"next": None})) == []
    with pytest.raises(KeyError):
        read(Event, {"seq": 1})


@pytest.mark.parametrize("raw", [None, [], "text", 1])
def test_other_json_is_no_answer(raw: object) -> None:
    with pytest.raises((KeyError, TypeError)):
        read(Task, raw)


def test_an_answer_prints_as_plain_values_without_its_secret() -> None:
    names = ("id", "name", "platform", "state", "made_by", "key")
    key = read(NewKey, {**dict.fromkeys(names, "x"), "scope": "read", "made_at": AT, "key": "secret"})
    assert "scope='read'" in repr(key)
    assert "secret" not in repr(key)


@pytest.mark.parametrize(
    ("start", "end", "moment", "shown"),
    [
        (None, None, AT, AT),
        ("2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z", None, "2026-01-01T00:00:00Z to 2026-02-01T00:00:00Z"),
        ("1970-01-01T00:00:00Z", "2026-02-01T00:00:00Z", None, "unknown, before 2026-02-01"),
        (None, None, None, "unknown"),
    ],
)
def test_c1_an_item_shows_when_it_is_of_or_that_this_is_unknown(
    start: str | None, end: str | None, moment: str | None, shown: str
) -> None:
    times = {"datetime": moment, "start_datetime": start, "end_datetime": end}
    item = Item("a", "scenes", None, None, times, {"data": {}}, ())
    assert (item.time, str(item)) == (shown, f"scenes/a ({shown}): data")
