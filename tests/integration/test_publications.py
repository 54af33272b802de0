"""Publications: what readers see changes in one transaction, every change has a number, and none is lost in a race."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from psycopg import Connection
from psycopg.types.json import Jsonb

from anabranch.adapters.postgres.connect import Role, connect
from anabranch.canonical import Json
from anabranch.contract.catalog import ItemAct
from anabranch.engine.model import Attempt, TaskKey
from anabranch.errors import AnabranchError, Conflict, Denied, Interrupted, NotFound, Transient
from anabranch.plugins.stac.catalog import (
    Acted,
    By,
    Publication,
    act,
    ensure_collection,
    publish,
    remove_collection,
    store_collection,
)
from anabranch.plugins.stac.collection import CollectionFacts, build_collection
from anabranch.plugins.stac.item import Origin, build_item, find_outputs
from anabranch.plugins.stac.pgstac.rebuild import check, rebuild
from anabranch.plugins.stac.publication_file import PublicationFile
from tests.support.items import raster_item

ANN = By(actor="ann", reason="blurred")
A, B, C = ("a" * 64, "b" * 64, "c" * 64)


def publication(job: str, item: str = "dem", west: float = 7.0, collection: str = "heights") -> Publication:
    """An item as a job makes it: its one file has the job in its key."""
    ring: list[Json] = [[west, 50], [west + 1, 50], [west + 1, 51], [west, 51], [west, 50]]
    output: dict[str, Json] = {
        "kind": "cog", "href": f"silver://jobs/{job}/{item}.tif", "media_type": "image/tiff", "size": 1,
        "sha256": job[:1] * 64, "name": "dem.tif",
    }  # fmt: skip
    raster = raster_item(item, outputs=[output], footprint={"type": "Polygon", "coordinates": [ring]})
    return Publication(build_item(collection, raster, Origin(job), "0.1.0"), find_outputs(raster))


@pytest.fixture
def handler(catalog_url: str) -> Iterator[Connection[Any]]:
    with connect(catalog_url, Role.HANDLER) as connection:
        ensure_collection(connection, CollectionFacts(id="heights"))
        yield connection


@pytest.fixture
def login(catalog_url: str) -> Iterator[Connection[Any]]:
    with connect(catalog_url, None) as connection:
        connection.execute("set search_path = pgstac, public")
        yield connection


def put(connection: Connection[Any], job: str, item: str = "dem", west: float = 7.0) -> tuple[str, ...]:
    return publish(connection, "heights", job, [publication(job, item, west)]).changed


def change(connection: Connection[Any], action: ItemAct, by: By = ANN, **given: Any) -> Acted:
    return act(connection, action, "heights", "dem", by, **given)


def history(login: Connection[Any]) -> list[tuple[int, str, int, str]]:
    """Number, action, the number of what it shows, and who did it, of each publication."""
    rows = """select p.number, p.action::text, s.number, p.actor from app.publications p
                join app.publications s on s.id = p.source where p.kind = 'item' order by p.number"""
    return login.execute(rows).fetchall()


def shown(login: Connection[Any]) -> list[str]:
    """The jobs whose content readers see of each item: in our rows and in pgstac, which must agree."""
    assert check(login) == []
    rows = "select content #>> '{properties,processing:expression,expression,job}' from pgstac.items order by id"
    return [job[:1] for (job,) in login.execute(rows)]


def extent(login: Connection[Any]) -> Any:
    rows = "select content #> '{extent,spatial,bbox,0}' from pgstac.collections where id = 'heights'"
    ((found,),) = login.execute(rows).fetchall()
    return found


def add_job(login: Connection[Any], job: str, platform: str, parent: str | None = None, **submitter: str) -> None:
    login.execute("insert into app.workflows values ('h', 'w', '{}', now()) on conflict do nothing")
    login.execute("""
        insert into app.jobs (job_id, identity, ordinal, scope, workflow, workflow_hash, parameters, priority, state,
                              generation, correlation_id, last_event, created_at, parent, platform)
        values (%s, %s, 0, %s, 'w', 'h', '{}', 5, 'running', 1, 'c', 1, now(),
                (select id from app.jobs where job_id = %s),
                coalesce((select platform from app.jobs where job_id = %s), %s))""",
        [job, job, platform, parent, parent, platform])  # fmt: skip
    login.execute(
        "insert into app.events (job, seq, at, kind, data) select id, 1, now(), 'job.submitted', %s from app.jobs"
        " where job_id = %s",
        [Jsonb(submitter), job],
    )


def test_p5_of_two_who_saw_the_same_number_one_publishes_and_may_repeat_it(
    handler: Connection[Any], login: Connection[Any]
) -> None:
    def try_publish(job: str) -> tuple[str, ...]:
        return publish(handler, "heights", job, [publication(job)], expected=0).changed

    assert try_publish(A) == ("dem",)
    with pytest.raises(Conflict, match="is at number 1 by now, not 0") as refused:
        try_publish(B)
    assert refused.value.code == "publication.moved"
    assert try_publish(A) == (), "an attempt that repeats is no other"
    with pytest.raises(Conflict):
        publish(handler, "heights", A, [publication(A, west=8.0)], expected=0)
    change(handler, "withdraw")
    assert try_publish(A) == ()
    assert [number for number, *_ in history(login)] == [1, 2]


def test_p5_an_item_of_a_batch_that_a_person_withdrew_meanwhile_stays_withdrawn(
    handler: Connection[Any], login: Connection[Any], tmp_path: Path
) -> None:
    put(handler, A)
    change(handler, "withdraw")
    batch = PublicationFile(tmp_path / "batch")
    batch.extend([replace(publication(B), expected=1), replace(publication(B, "new"), expected=0)])
    with pytest.raises(Conflict, match="is at number 2 by now, not 1"):
        publish(handler, "heights", B, batch)
    assert shown(login) == []


def test_p5_an_item_that_was_replaced_from_elsewhere_is_still_that_of_its_file(
    handler: Connection[Any], login: Connection[Any]
) -> None:
    sources: list[Any] = [
        {"address": f"bronze://{folder}/a.tif", "versions": {f"bronze://{folder}/a.tif": "1"}}
        for folder in ("in", "uploads")
    ]
    for job, source in zip((A, B), sources, strict=True):
        publish(handler, "heights", job, [replace(publication(job), made_from=source)])
    found = handler.execute("select * from app.find_made_from('heights', 'bronze://in/')").fetchall()
    assert found == [("dem", 2, True, sources[0]["address"], sources[0]["versions"], {})]


@pytest.mark.parametrize(
    ("versions", "hashes", "noted"),
    [({"tif": "2", "tfw": "1"}, {"tif": "a"}, True), ({"tif": "2", "tfw": "2"}, {"tif": "a", "tfw": "b"}, True),
     ({"tif": "2", "tfw": "1"}, {"tif": "b"}, False), ({"tif": "2", "tfw": "2"}, {"tif": "a"}, False),
     ({"tif": "2"}, {"tif": "a"}, False)],
)  # fmt: skip
def test_newer_versions_are_recorded_only_of_the_same_content(
    handler: Connection[Any], versions: dict[str, str], hashes: dict[str, str], noted: bool
) -> None:
    made: Any = {"address": "tif", "versions": {"tif": "1", "tfw": "1"}, "sha256": {"tif": "a", "tfw": "b"}}
    publish(handler, "heights", A, [replace(publication(A), made_from=made)])
    files = Jsonb([{"item": "dem", "versions": versions, "sha256": hashes}])
    handler.execute("select app.note_versions('heights', %s)", [files])
    ((found,),) = handler.execute("select versions from app.find_made_from('heights', 'tif')").fetchall()
    assert found == (versions if noted else made["versions"])


def test_p5_every_action_has_the_next_number_and_its_content_comes_back(
    handler: Connection[Any], login: Connection[Any]
) -> None:
    put(handler, A)
    put(handler, B)
    assert shown(login) == ["b"]
    assert change(handler, "rollback").number == 3
    assert shown(login) == ["a"]
    change(handler, "withdraw")
    assert shown(login) == []
    change(handler, "restore")
    assert shown(login) == ["a"]
    change(handler, "rollback", number=2)
    put(handler, C)
    assert shown(login) == ["c"]
    assert history(login) == [
        (1, "publish", 1, "anabranch"), (2, "replace", 2, "anabranch"), (3, "rollback", 1, "ann"),
        (4, "withdraw", 1, "ann"), (5, "restore", 1, "ann"), (6, "rollback", 2, "ann"), (7, "replace", 7, "anabranch"),
    ]  # fmt: skip


def test_c2_the_extent_is_that_of_the_items_that_are_left(handler: Connection[Any], login: Connection[Any]) -> None:
    put(handler, A, west=0)
    put(handler, B, "other", west=20)
    assert extent(login) == [0, 50, 21, 51]
    change(handler, "withdraw")
    assert extent(login) == [20, 50, 21, 51]
    change(handler, "restore")
    assert extent(login) == [0, 50, 21, 51]
    put(handler, C, west=10)
    assert extent(login) == [10, 50, 21, 51]
    act(handler, "withdraw", "heights", "other", ANN)
    change(handler, "withdraw")
    assert extent(login) == [-180, -90, 180, 90]
    assert check(login) == []


def test_c3_the_catalog_is_rebuilt_from_the_current_publications(
    handler: Connection[Any], login: Connection[Any]
) -> None:
    put(handler, A)
    put(handler, B)
    put(handler, C, "gone")
    act(handler, "withdraw", "heights", "gone", ANN)
    login.execute("delete from app.catalog_items")
    assert {found.kind for found in check(login)} == {"row", "unknown"}
    rebuild(login)
    assert shown(login) == ["b"]


@pytest.mark.parametrize(
    ("action", "given", "code"),
    [
        ("restore", {}, "publication.same"),
        ("rollback", {}, "publication.not_found"),
        ("rollback", {"number": 1}, "publication.same"),
        ("rollback", {"number": 7}, "publication.not_found"),
        ("withdraw", {"expected": 2}, "publication.moved"),
    ],
)
def test_p5_what_can_t_be_done_is_refused_and_changes_nothing(
    handler: Connection[Any], login: Connection[Any], action: ItemAct, given: dict[str, Any], code: str
) -> None:
    put(handler, A)
    with pytest.raises(AnabranchError) as caught:
        change(handler, action, **given)
    assert caught.value.code == code
    assert (len(history(login)), shown(login)) == (1, ["a"])


def test_what_was_never_published_has_no_way_back(handler: Connection[Any]) -> None:
    for collection, code in (("heights", "publication.not_found"), ("nowhere", "catalog.no_collection")):
        with pytest.raises(NotFound) as caught:
            act(handler, "withdraw", collection, "dem", ANN)
        assert caught.value.code == code


def test_p5_content_that_retention_removed_is_not_shown_again(handler: Connection[Any], login: Connection[Any]) -> None:
    put(handler, A)
    put(handler, B)
    login.execute("delete from app.former_publications")
    with pytest.raises(Conflict) as caught:
        change(handler, "rollback", number=1)
    assert caught.value.code == "publication.expired"


def test_retention_removes_only_objects_that_jobs_made(handler: Connection[Any], login: Connection[Any]) -> None:
    """An item may show a file that somebody else put there."""
    put(handler, A)
    login.execute("update app.published_files set tier = 'bronze', key = 'delivery/dem.tif'")
    put(handler, B)
    put(handler, C)
    login.execute("update app.former_publications set hidden_at = '2000-01-01'")
    login.execute("select app.expire_publications('1 day', '1 day', 10)")
    assert login.execute("select tier, key from app.expired_objects").fetchall() == [("silver", f"jobs/{B}/dem.tif")]


def expire(login: Connection[Any]) -> list[str]:
    """Let retention begin with what was replaced: the objects that it is about to remove."""
    login.execute("update app.former_publications set hidden_at = '2000-01-01'")
    login.execute("select app.expire_publications('1 day', '1 day', 10)")
    return [address for (address,) in login.execute("select app.find_expired_objects(10)")]


def test_p5_an_object_that_is_being_removed_is_not_published_again(
    handler: Connection[Any], login: Connection[Any]
) -> None:
    put(handler, A)
    put(handler, B)
    assert expire(login) == [f"silver://jobs/{A}/dem.tif"]
    shared = replace(publication(C), outputs=publication(A).outputs)
    with pytest.raises(Conflict) as caught:
        publish(handler, "heights", C, [shared])
    assert (caught.value.code, shown(login)) == ("publication.expired", ["b"])


def test_p5_an_object_that_is_being_published_is_not_removed(
    catalog_url: str, handler: Connection[Any], login: Connection[Any]
) -> None:
    put(handler, A)
    put(handler, B)
    shared = replace(publication(C, "other"), outputs=publication(A).outputs)
    with connect(catalog_url, Role.HANDLER) as other:
        other.execute("begin")
        publish(other, "heights", C, [shared])
        login.execute("set statement_timeout = '5s'")
        assert expire(login) == []
        other.execute("commit")
    assert login.execute("select app.find_expired_objects(10)").fetchall() == []
    assert login.execute("select from app.expired_objects").fetchall() == [], "it is used again"


def test_p5_an_attempt_that_repeats_does_not_undo_what_came_after(
    handler: Connection[Any], login: Connection[Any]
) -> None:
    put(handler, A)
    put(handler, B)
    assert put(handler, A) == ()
    assert shown(login) == ["b"]
    change(handler, "withdraw")
    assert put(handler, B) == ()
    assert shown(login) == []


def test_e15_who_finds_content_as_it_would_be_published_is_noted(
    handler: Connection[Any], login: Connection[Any]
) -> None:
    for job in (A, B, C):
        add_job(login, job, "roads")
    put(handler, A)
    assert publish(handler, "heights", B, [publication(A)]).changed == ()
    made: Any = publication(A).document
    remade = Publication(made | {"properties": made["properties"] | {"created": "2026-03-21T10:15:00Z"}})
    assert publish(handler, "heights", C, [remade], expected=0, keep_same=True).changed == ()
    change(handler, "withdraw")
    superseded = "select job_id from app.superseded_jobs order by 1"
    assert login.execute(superseded).fetchall() == [(A,), (B,), (C,)]
    change(handler, "restore")
    assert login.execute(superseded).fetchall() == []


def test_p7_a_key_belongs_to_the_owner_of_the_root_job_which_is_who_acts(
    handler: Connection[Any], login: Connection[Any]
) -> None:
    add_job(login, A, "roads", by="rita (https://login.example)", scope="admin")
    add_job(login, B, "task of a", parent=A)
    add_job(login, C, "rivers", by="rita (k1)", scope="admin")
    put(handler, B)
    assert history(login) == [(1, "publish", 1, "rita (https://login.example)")]
    with pytest.raises(Conflict) as caught:
        put(handler, C)
    assert (caught.value.code, shown(login)) == ("publication.owner", ["b"])
    with pytest.raises(Conflict):
        change(handler, "withdraw", By(owner="rivers", actor="ria"))
    assert change(handler, "withdraw", By(job_id=B, actor="somebody else")).number == 2
    assert history(login)[1][3] == "rita (https://login.example)", "a job's submitter acts, whatever it says"


@pytest.mark.parametrize("submitter", [{"scope": "operate"}, {}])
def test_s6_a_job_that_no_admin_submitted_withdraws_nothing(
    handler: Connection[Any], login: Connection[Any], submitter: dict[str, str]
) -> None:
    add_job(login, A, "roads", by="rita (k1)", **submitter)
    make_key(login, "k1", "admin")  # a name that looks like one of an admin's says nothing
    put(handler, A)
    with pytest.raises(Denied):
        change(handler, "withdraw", By(job_id=A))


def make_key(login: Connection[Any], key_id: str, scope: str) -> None:
    login.execute(
        """
        insert into app.keys (key_id, digest, name, platform, scope, made_at, made_by)
        values (%s, decode(repeat('00', 32), 'hex'), 'rita', 'roads', %s, now(), 'a test')""",
        [key_id, scope],
    )


def test_p7_only_its_owner_changes_a_collection_and_an_unknown_extension_is_no_hindrance(
    handler: Connection[Any], login: Connection[Any]
) -> None:
    add_job(login, A, "roads")
    add_job(login, C, "rivers")
    unknown = "https://example.com/unknown/v1.0.0/schema.json"
    document, _ = build_collection(CollectionFacts(id="ours", title="Ours"))
    document["stac_extensions"] = [unknown]
    store_collection(handler, document, document, By(A))
    for refused in (
        lambda: ensure_collection(handler, CollectionFacts(id="ours", title="Ours"), By(C)),
        lambda: publish(handler, "ours", C, [publication(C, collection="ours")]),
    ):
        with pytest.raises(NotFound) as missing:
            refused()
        assert missing.value.code == "catalog.no_collection"
    login.execute("insert into app.collection_writers values ('ours', 'rivers', 'a test', now())")
    assert not ensure_collection(handler, CollectionFacts(id="ours", title="Ours"), By(C)), "nothing would change"
    with pytest.raises(Conflict) as caught:
        ensure_collection(handler, CollectionFacts(id="ours", title="Theirs"), By(C))
    assert caught.value.code == "publication.owner"
    assert publish(handler, "ours", C, [publication(C, collection="ours")]).changed == ("dem",)
    assert ensure_collection(handler, CollectionFacts(id="ours", title="Still ours"), By(A))


def test_e3_a_lost_attempt_changes_nothing(handler: Connection[Any], login: Connection[Any]) -> None:
    put(handler, A)
    lost = ("publish", Attempt(TaskKey(1, 0), 1, 1))
    with pytest.raises(Interrupted):
        publish(handler, "heights", B, [publication(B)], lost)
    with pytest.raises(Interrupted):
        publish(handler, "heights", B, [], lost)
    with pytest.raises(Interrupted):
        change(handler, "withdraw", By(job_id=B), attempt=lost)
    with pytest.raises(Interrupted):
        ensure_collection(handler, CollectionFacts(id="rivers"), By(job_id=B), lost)
    with pytest.raises(Interrupted):
        ensure_collection(handler, CollectionFacts(id="heights", title="Taken over"), By(job_id=B), lost)
    assert (len(history(login)), shown(login)) == (1, ["a"])
    assert login.execute("select id, document ->> 'title' from app.collections").fetchall() == [("heights", None)]


def test_p7_every_change_of_a_collection_is_recorded_with_who_made_it(
    handler: Connection[Any], login: Connection[Any]
) -> None:
    add_job(login, A, "roads", by="rita (k1)")
    for title in ("Rivers", "Rivers", "Streams"):
        ensure_collection(handler, CollectionFacts(id="rivers", title=title), By(job_id=A, actor="somebody else"))
    remove_collection(handler, "rivers", By(actor="ann"))
    ensure_collection(handler, CollectionFacts(id="rivers"))
    rows = """select number, action::text, actor, at <= now(), body ->> 'title' from app.publications
               where kind = 'collection' and key = 'rivers' order by number"""
    assert login.execute(rows).fetchall() == [
        (1, "publish", "rita (k1)", True, "Rivers"), (2, "replace", "rita (k1)", True, "Streams"),
        (3, "withdraw", "ann", True, "Streams"), (4, "publish", "anabranch", True, None),
    ]  # fmt: skip
    assert check(login) == []


def at_once(url: str, *works: Callable[[Connection[Any]], object]) -> list[object]:
    """Do all at once, each over a connection of its own; what each returned, or the code of its error."""
    together = threading.Barrier(len(works))

    def run(work: Callable[[Connection[Any]], object]) -> object:
        with connect(url, Role.HANDLER) as connection:
            together.wait(30)
            try:
                return work(connection)
            except AnabranchError as error:
                return error.code

    with ThreadPoolExecutor(len(works)) as pool:
        return list(pool.map(run, works))


def test_p5_publishers_of_one_key_at_once_get_a_number_each(
    catalog_url: str, handler: Connection[Any], login: Connection[Any]
) -> None:
    jobs = [f"{n:064}" for n in range(6)]
    assert at_once(catalog_url, *[lambda c, job=job: put(c, job) for job in jobs]) == [("dem",)] * 6
    found = history(login)
    assert [number for number, *_ in found] == [1, 2, 3, 4, 5, 6]
    assert [action for _, action, *_ in found] == ["publish", *["replace"] * 5]
    assert len(shown(login)) == 1


def test_p5_of_two_that_expect_the_same_number_one_acts(
    catalog_url: str, handler: Connection[Any], login: Connection[Any]
) -> None:
    put(handler, A)
    put(handler, B)
    done = at_once(
        catalog_url,
        lambda c: change(c, "rollback", expected=2).number,
        lambda c: change(c, "withdraw", expected=2).number,
    )
    assert sorted(map(str, done)) == ["3", "publication.moved"]
    assert len(history(login)) == 3


@pytest.mark.parametrize("action", ["withdraw", "rollback"])
def test_p5_publishing_against_taking_back_leaves_one_after_the_other(
    catalog_url: str, handler: Connection[Any], login: Connection[Any], action: ItemAct
) -> None:
    put(handler, A)
    put(handler, B)
    number = {"rollback": 1}.get(action)
    assert at_once(catalog_url, lambda c: put(c, C), lambda c: change(c, action, number=number).number)[0] == ("dem",)
    actions = [action for _, action, *_ in history(login)]
    last = {"withdraw": [], "rollback": ["a"]}[action]
    assert shown(login) == (last if actions[-1] == action else ["c"])


def test_c3_a_rebuild_while_others_publish_loses_nothing(
    catalog_url: str, handler: Connection[Any], login: Connection[Any]
) -> None:
    put(handler, A)

    def rebuild_it(_: Connection[Any]) -> object:
        with connect(catalog_url, None) as own:
            return rebuild(own).collections

    def insist(job: str, item: str) -> Callable[[Connection[Any]], object]:
        """Try again as the engine does: a partition that goes away meanwhile ends an attempt."""

        def work(connection: Connection[Any]) -> object:
            while True:
                with suppress(Transient):
                    return put(connection, job, item)

        return work

    at_once(catalog_url, rebuild_it, insist(B, "dem"), insist(C, "other"))
    assert shown(login) == ["b", "c"]
