"""A page of releases, requests or the audit reads what it shows, however many of them there are and of whom."""

from hashlib import md5
from typing import Any

import psycopg
import pytest

from anabranch.adapters.postgres.connect import connect
from anabranch.adapters.postgres.database import call_text
from anabranch.canonical import encode
from tests.support.meter import Meter

pytestmark = pytest.mark.postgres

PAGE = 50
FILLED = """
    insert into app.assets (asset_id, platform, refs, tags, made_by, made_at)
    select md5('a' || i), 'ddh', jsonb_build_object('dataset_id', i::text, 'resource_id', 'dem'), '{}', 'me', now()
      from generate_series(1, {count}) i;
    insert into app.asset_refs (platform, name, value, asset_id)
    select platform, key, value, asset_id from app.assets, jsonb_each_text(refs);
    insert into app.releases (release_id, asset_id, platform, ordinal, data_type, collection, item_id, made_by, made_at)
    select md5('r' || i), md5('a' || i), 'ddh', 1, 'raster', 'ddh-raster', 'i' || i, 'me', now()
      from generate_series(1, {count}) i;
    insert into app.revisions (release_id, revision, platform, order_hash, approval_required, submitted_by, made_at,
                               approval_status, processing_status, job_id)
    select md5('r' || i), 1, 'ddh', '', true, 'me', now(),
           case when i <= 4 then 'pending_review' else 'approved' end::app.approval_status,
           case when i <= 2 then 'failed' else 'completed' end::app.processing_status, md5('j' || i)
      from generate_series(1, {count}) i;
    insert into app.requests (request_id, platform, asset_id, release_id, revision, body, made_by, correlation_id,
                              made_at)
    select md5('q' || i)::uuid, 'ddh', md5('a' || i), md5('r' || i), 1, '{}', 'me', '', now()
      from generate_series(1, {count}) i;
    insert into app.audit (at, platform, actor, action, asset_id, data)
    select now(), 'ddh', 'me', 'release.created', md5('a' || i % {count}), '{}' from generate_series(1, 3 * {count}) i
"""
FIRST = {"dataset_id": "1"}
RELEASES: list[tuple[dict[str, Any], int]] = [
    ({}, PAGE),
    ({"release_id": "r1"}, 1),
    ({"asset_id": "a1"}, 1),
    ({"job_id": "j1"}, 1),
    ({"request_id": "q1"}, 1),
    ({"refs": FIRST}, 1),
    ({"refs": {**FIRST, "resource_id": "dem"}}, 1),
    ({"refs": {**FIRST, "resource_id": "other"}}, 0),
    ({"refs": {"resource_id": "dem"}}, PAGE),
    ({"refs": FIRST, "processing_status": "failed"}, 1),
    ({"refs": {"resource_id": "dem"}, "processing_status": "failed"}, 2),
    ({"processing_status": "failed"}, 2),
    ({"processing_status": "completed"}, PAGE),
    ({"approval_status": "approved"}, PAGE),
    ({"approval_status": "rejected"}, 0),
    ({"review": True}, 2),
]


@pytest.fixture(params=[5_000, pytest.param(100_000, marks=pytest.mark.slow)])
def full_url(request: pytest.FixtureRequest, database_url: str) -> str:
    """So many releases of one platform, the oldest of which are those that fit few look-ups; none of another."""
    with connect(database_url, None) as admin, admin.transaction():
        try:
            admin.execute("load 'auto_explain'")
        except psycopg.Error:
            pytest.skip("this PostgreSQL has no auto_explain")
        admin.execute("set local session_replication_role = replica")
        admin.execute(FILLED.replace("{count}", str(request.param)).encode())
    return database_url


def hashed(wanted: dict[str, Any]) -> str:
    """The look-up with the ids that these names stand for."""
    ids = {name: md5(value.encode()).hexdigest() for name, value in wanted.items() if name.endswith("_id")}
    return encode({**wanted, **ids})


@pytest.mark.parametrize("analyzed", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a19_lists_of_a_platform_read_what_they_show(full_url: str, analyzed: bool) -> None:
    with Meter(full_url) as meter:
        if analyzed:
            meter.connection.execute("analyze")
        rows: list[Any] = []

        def ask(function: str, *arguments: object) -> None:
            rows[:] = meter.connection.execute(call_text(function).encode(), arguments).fetchall()

        calls = [
            *(
                (
                    ("list_releases", platform_filter, hashed(wanted), None, PAGE),
                    shown if platform_filter != "arcgis" else 0,
                )
                for wanted, shown in RELEASES
                for platform_filter in ("ddh", "*", "arcgis")
            ),
            (("list_releases", "ddh", "{}", 100, PAGE), PAGE),
            *(
                ((name, platform_filter, *rest, None, PAGE), PAGE if platform_filter == "ddh" else 0)
                for name, rest in (("list_requests", (None, None)), ("list_audit", (None,)))
                for platform_filter in ("ddh", "arcgis")
            ),
        ]
        found = {}
        for call, shown in calls:
            ask(*call)
            assert len(rows) == shown, call
            found[str(call)] = meter.measure(ask, *call)
    assert {call: work for call, work in found.items() if work.buffers > 4_000 or work.rows > 8_000} == {}
