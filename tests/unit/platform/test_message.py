"""The body of a message has the fields of its format, whatever is in what happened."""

import json
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from anabranch.canonical import JsonObject
from anabranch.platform.notifications.message import VERSION, build_body
from anabranch.platform.notifications.ports import DueDelivery


def build(event: str, data: JsonObject) -> Any:  # JSON
    due = DueDelivery(
        1, UUID(int=1), "https://example.org", (), (), "standard", 15, UUID(int=2), event, "asset", data,
        "c", datetime(2026, 6, 1, tzinfo=UTC),
    )  # fmt: skip
    return json.loads(build_body(due, "https://data.example.org"))


@pytest.mark.parametrize(
    ("event", "code", "remedy"),
    [
        ("release.failed", "publication.release", "Submit an order for the release"),
        ("release.expired", "gate.timed_out", "anabranch releases resubmit"),
        ("job.failed", "gate.timed_out", "Signal it sooner"),
    ],
)
def test_o6_an_error_has_a_remedy(event: str, code: str, remedy: str) -> None:
    assert remedy in build(event, {"error": {"code": code, "message": "no"}})["error"]["remedy"]


def test_what_happened_replaces_no_field_of_the_format() -> None:
    data: JsonObject = {
        "version": "2025-01",
        "type": "x",
        "release_version": "2025-01",
        "result_url": "/api/platform/status/1",
    }
    said = build("release.created", data)
    assert (said["version"], said["type"], said["release_version"]) == (VERSION, "release.created", "2025-01")
    assert said["result_url"] == "https://data.example.org/api/platform/status/1"
