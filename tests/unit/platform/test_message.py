"""The body of a message has the fields of its format, whatever is in what happened."""

import json
from datetime import UTC, datetime
from uuid import UUID

from anabranch.canonical import JsonObject
from anabranch.platform.notifications.message import VERSION, build_body
from anabranch.platform.notifications.ports import DueDelivery


def test_what_happened_replaces_no_field_of_the_format() -> None:
    data: JsonObject = {
        "version": "2025-01",
        "type": "x",
        "release_version": "2025-01",
        "result_url": "/api/platform/status/1",
    }
    due = DueDelivery(
        1, UUID(int=1), "https://example.org", (), (), "standard", 15, UUID(int=2), "release.created", "asset", data,
        "c", datetime(2026, 6, 1, tzinfo=UTC),
    )  # fmt: skip
    said = json.loads(build_body(due, "https://data.example.org"))
    assert (said["version"], said["type"], said["release_version"]) == (VERSION, "release.created", "2025-01")
    assert said["result_url"] == "https://data.example.org/api/platform/status/1"
