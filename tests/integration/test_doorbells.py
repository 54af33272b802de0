"""A doorbell wakes the workers that serve its queue, and no others."""

import select
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta

import pytest

from anabranch.adapters.postgres.connect import Role, connect
from anabranch.adapters.postgres.store.heartbeat import PostgresHeartbeat
from tests.support.waiting import PATIENCE_SECONDS

NOW = timedelta(0)


@pytest.fixture
def heartbeat(database_url: str) -> Iterator[PostgresHeartbeat]:
    with closing(PostgresHeartbeat(database_url, "test", ["raster", "light"])) as opened:
        yield opened


def ring(url: str, *queues: str) -> None:
    with connect(url, Role.APP) as connection:
        connection.execute("select app.ring(%s)", [list(queues)])


@pytest.mark.parametrize(
    ("queues", "rings"),
    [(["raster"], True), (["heavy"], False), (["heavy", "light"], True), ([], False), (["rasters"], False)],
)
def test_a17_only_who_serves_a_queue_hears_it(
    database_url: str, heartbeat: PostgresHeartbeat, queues: list[str], rings: bool
) -> None:
    ring(database_url, *queues)
    if queues:
        arrived = select.poll()
        arrived.register(vars(heartbeat)["_connection"].fileno(), select.POLLIN)
        assert arrived.poll(PATIENCE_SECONDS * 1000)
    assert heartbeat.wait(NOW) is rings
    assert heartbeat.wait(NOW) is False  # it is heard once
