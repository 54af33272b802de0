import psycopg
import pytest

from anabranch import InputError
from anabranch.adapters.postgres.store.budget import check_budget
from anabranch.app import connections_needed

pytestmark = pytest.mark.postgres


def test_e19_a_stack_takes_at_most_half_of_the_servers_connections(database_url: str) -> None:
    with psycopg.connect(database_url) as connection:
        row = connection.execute("show max_connections").fetchone()
    assert row
    check_budget(database_url, int(row[0]) // 2)
    with pytest.raises(InputError, match="more than half"):
        check_budget(database_url, int(row[0]) // 2 + 1)


def test_e19_every_worker_counts() -> None:
    assert connections_needed(2) - connections_needed(1) == 7
