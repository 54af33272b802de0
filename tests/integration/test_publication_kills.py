"""A process that publishes is killed after each of its statements: all of the change is there, or nothing (E2, P5)."""

import signal
from collections.abc import Callable, Iterator
from itertools import count
from multiprocessing import Pipe, get_context
from multiprocessing.connection import Connection as Line
from typing import Any

import pytest
from psycopg import Connection
from psycopg.rows import TupleRow

from anabranch.adapters.postgres.connect import Role, connect
from anabranch.embedded.cluster import Cluster
from anabranch.plugins.stac.catalog import By, Publication, act, ensure_collection, publish, remove_collection
from anabranch.plugins.stac.collection import CollectionFacts
from anabranch.plugins.stac.item import Origin, build_item, find_outputs
from anabranch.plugins.stac.pgstac.rebuild import check
from anabranch.testing.postgres import Databases
from tests.support.items import raster_item
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = [
    pytest.mark.postgres,
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
]
ANN = By(actor="ann", reason="blurred")
Work = Callable[[Connection[Any], int], object]


@pytest.fixture(scope="module")
def url(postgres: Cluster, postgres_admin: Connection[TupleRow], catalog_template: str) -> str:
    """One catalog for all tests, whose items have names of their own."""
    return Databases(postgres, postgres_admin).make(catalog_template)


@pytest.fixture
def handler(url: str) -> Iterator[Connection[Any]]:
    with connect(url, Role.HANDLER) as connection:
        ensure_collection(connection, CollectionFacts(id="heights"))
        yield connection


@pytest.fixture
def login(url: str) -> Iterator[Connection[Any]]:
    with connect(url, None) as connection:
        connection.execute("set search_path = pgstac, public")
        yield connection


def put(connection: Connection[Any], number: int, item: str, collection: str = "heights") -> None:
    """Publish new content of an item, by a job of its own."""
    job = f"{number:064}"
    output: Any = {
        "kind": "cog", "href": f"silver://jobs/{job}/{item}.tif", "media_type": "image/tiff", "size": 1,
        "sha256": job, "name": "dem.tif",
    }  # fmt: skip
    raster = raster_item(item, outputs=[output])
    document = build_item(collection, raster, Origin(job), "0.1.0")
    publish(connection, collection, job, [Publication(document, find_outputs(raster))])


def is_done_after(url: str, statement: int, work: Callable[[Connection[Any]], object]) -> bool:
    """Kill a process after so many round trips to the database; whether it had done its work by then."""
    ours, theirs = Pipe()
    process = get_context("fork").Process(target=_work_and_wait, args=(url, statement, work, theirs), daemon=True)
    process.start()
    theirs.close()
    assert ours.poll(PATIENCE_SECONDS)
    done: bool = ours.recv()
    process.kill()
    process.join()
    return done


def _work_and_wait(url: str, statement: int, work: Callable[[Connection[Any]], object], line: Line) -> None:
    with connect(url, Role.HANDLER) as connection:
        numbers, wait = count(1), Connection.wait

        def wait_and_count(own: Connection[Any], *given: Any, **named: Any) -> Any:
            answer = wait(own, *given, **named)
            if next(numbers) == statement:
                line.send(False)
                signal.pause()
            return answer

        Connection.wait = wait_and_count  # type: ignore[method-assign,assignment]  # of this process, which is killed
        work(connection)
        line.send(True)
        signal.pause()


def count_publications(login: Connection[Any]) -> int:
    ((found,),) = login.execute("select count(*)::integer from app.publications").fetchall()
    return int(found)


def hide(connection: Connection[Any], number: int) -> None:
    put(connection, number, "dem")
    act(connection, "withdraw", "heights", "dem", ANN)


def make(connection: Connection[Any], number: int) -> None:
    ensure_collection(connection, CollectionFacts(id=f"made_{number}"))


SLOW = pytest.mark.slow
NUMBERS = count(1_000, 2)
# What is there, and what is done then by the process that is killed; both have a number that is used once.
WORKS: list[Any] = [
    pytest.param(make, lambda c, n: put(c, n + 1, "dem", f"made_{n}"), id="publish"),
    pytest.param(lambda c, n: put(c, n, "dem"), lambda c, n: put(c, n + 1, "dem"), id="replace"),
    pytest.param(lambda c, n: put(c, n, "dem"), lambda c, _: act(c, "withdraw", "heights", "dem", ANN), id="withdraw"),
    pytest.param(hide, lambda c, _: act(c, "restore", "heights", "dem", ANN), id="restore", marks=SLOW),
    pytest.param(hide, lambda c, _: act(c, "rollback", "heights", "dem", ANN, number=1), id="rollback", marks=SLOW),
    pytest.param(lambda _c, _n: None, make, id="create", marks=SLOW),
    pytest.param(make, lambda c, n: remove_collection(c, f"made_{n}", ANN), id="remove", marks=SLOW),
]


@pytest.mark.parametrize(("prepare", "work"), WORKS)
def test_p5_a_publisher_that_is_killed_after_any_statement_leaves_all_or_nothing(
    url: str, handler: Connection[Any], login: Connection[Any], prepare: Work, work: Work
) -> None:
    outcomes: list[int] = []
    done = False
    while not done:
        prepare(handler, number := next(NUMBERS))  # it works after the last kill
        before = count_publications(login)
        done = is_done_after(url, len(outcomes) + 1, lambda c, number=number: work(c, number))  # type: ignore[misc]
        outcomes.append(count_publications(login) - before)
        assert check(login) == [], "our rows and pgstac agree"
    assert outcomes == sorted(outcomes), "nothing before the commit, and all after it"
    assert set(outcomes) == {0, 1}
    put(handler, next(NUMBERS), "dem")
    assert check(login) == []
