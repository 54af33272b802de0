"""Partners, approvers and publications race on a real server, over connections of their own: one wins (P3, P4, P5)."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import Connection
from psycopg.rows import TupleRow
from structlog.testing import capture_logs

from anabranch.adapters.postgres.connect import Role, connect
from anabranch.adapters.postgres.store.invariants import examine
from anabranch.contract.platform import Accepted
from anabranch.engine.model import JobState
from anabranch.errors import AnabranchError, Conflict, Denied, Interrupted
from anabranch.gateway import Gateway
from anabranch.item_actions import ItemAction
from anabranch.job_control import RetryChoice
from anabranch.platform.action_by import ALL_PLATFORMS, ActionBy
from anabranch.platform.notifications.ports import EndpointChange
from anabranch.platform.orders import PlatformOrder
from anabranch.plugins.stac.catalog import By, Publication, act, ensure_collection, publish
from anabranch.plugins.stac.collection import CollectionFacts
from anabranch.plugins.stac.item import Origin, build_item, find_outputs
from anabranch.settings import Settings
from tests.support.data_hub import make_policy
from tests.support.items import raster_item
from tests.support.waiting import PATIENCE_SECONDS, wait_until_async

pytestmark = pytest.mark.postgres

# Whoever reviews it answers the first gate; the second keeps the job open, so that a test publishes as its task would.
WORKFLOW = """
workflow_id: reviewed
inputs:
  source: {type: string, required: true}
  collection: {type: string, required: true}
  item_id: {type: string, required: true}
  approval: {type: boolean, default: false}
nodes:
  review: {type: gate, answer: {approved: {type: boolean, required: true}, why: {type: string}}, next: publish}
  publish: {type: gate}
"""
CROWD = 4
COLLECTION = "ddh-raster"
BY = ActionBy("ddh", "ddh/ann (k0)", "so", "test")
WAITING = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
KEY = "select from app.publication_keys where kind = 'item' and key = %s for update"
Act = Callable[[Gateway, ActionBy], Awaitable[Any]]


class Hub:
    """Several processes of the API on one database, whose calls meet at a lock that the test holds."""

    def __init__(self, url: str, gateways: list[Gateway], handler: Connection[TupleRow]) -> None:
        self.url = url
        self.gateways = gateways
        self.releases = gateways[0].releases
        self.handler = handler
        self.by = [replace(BY, actor=f"ddh/p{number} (k{number})") for number in range(len(gateways))]

    async def race(self, lock: str, held: str, *acts: Act) -> list[Any]:
        """Let acts run at once, each in a process of its own: all wait for a row, and then go on together."""
        with psycopg.connect(self.url) as holder:
            holder.execute("select app.set_platform_filter('*')")
            holder.execute(lock.encode(), [held])
            racing = [
                asyncio.create_task(_try(act, gateway, by))
                for act, gateway, by in zip(acts, self.gateways, self.by, strict=False)
            ]
            await self.wait_for_locks(len(acts))
            holder.commit()
            async with asyncio.timeout(PATIENCE_SECONDS):
                return await asyncio.gather(*racing)

    async def wait_for_locks(self, count: int) -> None:
        """Wait until so many calls wait for a lock."""
        with psycopg.connect(self.url, autocommit=True) as watcher:
            await wait_until_async(lambda: watcher.execute(WAITING).fetchone() == (count,), "that all wait")

    async def submit(self, dataset: int, version: str = "1", source: str = "a", **more: Any) -> Accepted:
        """A release that waits for its review."""
        accepted = await self.releases.submit(order(dataset, version, source, **more), BY)
        async with asyncio.timeout(PATIENCE_SECONDS):
            while (await self.gateways[0].reads.job(str(accepted.job_id))).job.state is not JobState.WAITING:
                await asyncio.sleep(0.01)
        return accepted

    async def publish(self, accepted: Accepted, *layers: str, attempt: int = 1, fence: Any = None) -> None:
        """What the task of an approved revision does; an item for each layer, where there are some.

        Another attempt makes another content; `fence` is that of a worker.
        """
        await asyncio.to_thread(self._publish, accepted, layers or ("",), attempt, fence)

    def _publish(self, accepted: Accepted, layers: Sequence[str], attempt: int, fence: Any) -> None:
        job_id = str(accepted.job_id)
        title = f"revision {accepted.revision}" + (f", attempt {attempt}" if attempt > 1 else "")
        ensure_collection(self.handler, CollectionFacts(id=COLLECTION), By(job_id))
        made = []
        for layer in layers:
            facts = raster_item(f"{accepted.parameters['item_id']}{layer}", title=title)
            made.append(Publication(build_item(COLLECTION, facts, Origin(job_id), "0.1.0"), find_outputs(facts)))
        publish(self.handler, COLLECTION, job_id, made, fence)

    async def make(self, dataset: int, revisions: int, *, waiting: bool = False) -> list[Accepted]:
        """A release with so many published revisions, and one more that waits for its review."""
        made = []
        for number in range(revisions + waiting):
            made.append(await self.submit(dataset, source=str(number), reprocess=number > 0))
            if number < revisions:
                await self.releases.decide(made[-1].release_id, True, BY)
                await self.publish(made[-1])
        return made

    async def show(self, release_id: str) -> Any:  # a row of app.release_details
        return await self.releases.find("release_id", release_id, "*")

    async def audit(self, asset_id: str) -> list[tuple[str, str]]:
        """Who decided what, the newest last."""
        lines = await self.releases.platforms.audit("*", limit=100, asset_id=asset_id)
        return [(line.action, line.actor) for line in reversed(lines) if not line.action.startswith("revision.")]

    def history(self, item: str) -> list[tuple[int, str, str]]:
        """The publications of an item: number, action and what it shows."""
        query = """select p.number, p.action::text, s.body #>> '{properties,title}' from app.publications p
                     join app.publications s on s.id = p.source where p.key = %s order by p.number"""
        with psycopg.connect(self.url) as connection:
            found = connection.execute(query, [f"{COLLECTION}/{item}"]).fetchall()
        with psycopg.connect(self.url) as connection:
            assert examine(connection) == []
        assert [number for number, *_ in found] == list(range(1, len(found) + 1))  # P5
        return found


async def _try(act: Act, gateway: Gateway, by: ActionBy) -> Any:
    try:
        return await act(gateway, by)
    except Conflict as error:
        return error.code


def order(dataset: int, version: str = "1", source: str = "a", **more: Any) -> PlatformOrder:
    refs: dict[str, str | int] = {"dataset_id": dataset, "resource_id": "r", "version_id": version}
    return PlatformOrder(platform="ddh", refs=refs, source=f"bronze://ddh/{source}.tif", **more)


def submitting(dataset: int, version: str = "1", **more: Any) -> Act:
    return lambda gateway, by: gateway.releases.submit(order(dataset, version, **more), by)


def deciding(release_id: str, approved: bool, revision: int | None = None) -> Act:
    return lambda gateway, by: gateway.releases.decide(release_id, approved, by, revision)


def rolling_back(release_id: str, number: int | None = None) -> Act:
    return lambda gateway, by: gateway.releases.roll_back(release_id, number, by)


def revoking(release_id: str) -> Act:
    return lambda gateway, by: gateway.releases.revoke(release_id, by)


def clearing(release_id: str) -> Act:
    return lambda gateway, by: gateway.releases.clear(release_id, "internal", by)


def publishing(hub: Hub, accepted: Accepted, *layers: str) -> Act:
    return lambda gateway, by: hub.publish(accepted, *layers)


@asynccontextmanager
async def open_hub(url: str, home: Path, processes: int) -> AsyncIterator[Hub]:
    (home / "plugins").mkdir()
    (home / "plugins" / "reviewed.yaml").write_text(WORKFLOW)
    settings = Settings(plugins=(str(home / "plugins"),), home=home)
    async with AsyncExitStack() as stack:
        gateways = []
        for _ in range(processes):
            gateways.append(Gateway(settings, url))
            stack.push_async_callback(gateways[-1].close)
            await gateways[-1].open()
            await gateways[-1].ready()
        with connect(url, Role.HANDLER) as handler:
            hub = Hub(url, gateways, handler)
            await hub.releases.save_platform(
                "ddh", make_policy("one_approver", raster="reviewed"), replace(BY, platform_filter="*")
            )
            yield hub


@pytest.fixture
async def hub(request: pytest.FixtureRequest, catalog_url: str, tmp_path: Path) -> AsyncIterator[Hub]:
    """Two processes, or as many as a test asks for."""
    async with open_hub(catalog_url, tmp_path, getattr(request, "param", 2)) as opened:
        yield opened


@pytest.mark.parametrize("hub", [CROWD], indirect=True)
async def test_p3_of_submits_at_once_one_makes_the_release_and_ordinals_have_no_gap(hub: Hub) -> None:
    first = await hub.submit(1, "0")
    for turn in range(1, 5):
        await hub.releases.decide(first.release_id, True, BY)
        versions = [f"{turn}a", f"{turn}b", f"{turn}a", f"{turn}b"]
        lock = "select from app.assets where asset_id = %s for update"
        answers = await hub.race(lock, first.asset_id, *(submitting(1, version) for version in versions))
        made = [one for one in answers if isinstance(one, Accepted)]
        assert sorted(one.verdict for one in made) == ["create", "same"]
        assert len({(one.release_id, one.job_id, one.request_id) for one in made}) == 1
        assert [one for one in answers if not isinstance(one, Accepted)] == ["release.unresolved"] * 2
        first = await hub.submit(1, versions[answers.index(made[0])])
    found = await hub.releases.platforms.releases("*", {"asset_id": first.asset_id}, limit=9)
    assert sorted(one["ordinal"] for one in found) == [1, 2, 3, 4, 5]
    assert [action for action, _ in await hub.audit(first.asset_id)].count("release.created") == 5


@pytest.mark.parametrize("hub", [CROWD], indirect=True)
async def test_p3_of_first_submits_at_once_one_makes_the_asset(hub: Hub) -> None:
    gate = asyncio.Barrier(CROWD)

    async def submit(number: int, dataset: int) -> Any:
        await gate.wait()
        return await _try(submitting(dataset, str(number % 2)), hub.gateways[number], hub.by[number])

    for dataset in range(10, 15):
        answers = await asyncio.gather(*(submit(number, dataset) for number in range(CROWD)))
        made = [one for one in answers if isinstance(one, Accepted)]
        assert sorted(one.verdict for one in made) == ["create", "same"]
        assert [one for one in answers if not isinstance(one, Accepted)] == ["release.unresolved"] * 2
        assert [action for action, _ in await hub.audit(made[0].asset_id)][:1] == ["release.created"]


JOB = "select from app.jobs where job_id = %s for update"


async def test_p4_of_an_approval_and_a_rejection_at_once_one_counts(hub: Hub) -> None:
    for dataset in range(3):
        (made,) = await hub.make(dataset, 0, waiting=True)
        sides = [dataset % 2 == 0, dataset % 2 == 1]
        answers = await hub.race(JOB, str(made.job_id), *(deciding(made.release_id, side) for side in sides))
        assert answers.count("release.decided") == 1
        winner = next(place for place, answer in enumerate(answers) if answer != "release.decided")
        decided = "approved" if sides[winner] else "rejected"
        found = await hub.show(made.release_id)
        assert (found["approval_status"], found["decided_by"]) == (decided, hub.by[winner].actor)
        assert (await hub.audit(made.asset_id))[2:] == [(f"release.{decided}", hub.by[winner].actor)]


async def test_p4_an_overwrite_never_discards_an_approval_that_was_committed(hub: Hub) -> None:
    """Whichever comes first, the other is refused."""
    for dataset in range(3):
        made = await hub.submit(dataset)
        answers = await hub.race(
            JOB, str(made.job_id), deciding(made.release_id, True, 1), submitting(dataset, source="b", overwrite=True)
        )
        refused = [answer for answer in answers if isinstance(answer, str)]
        assert len(refused) == 1, answers
        shown = await hub.show(made.release_id)
        if refused == ["release.approved"]:
            assert (shown["revision"], shown["approval_status"]) == (1, "approved")
        else:
            assert (shown["revision"], shown["approval_status"]) == (2, "pending_review")


@pytest.mark.parametrize("hub", [CROWD], indirect=True)
async def test_p7_of_several_approvers_at_once_one_has_approved(hub: Hub) -> None:
    (made,) = await hub.make(1, 0, waiting=True)
    answers = await hub.race(JOB, str(made.job_id), *[deciding(made.release_id, True)] * CROWD)
    (approver,) = {answer["decided_by"] for answer in answers}
    assert (await hub.audit(made.asset_id))[2:] == [("release.approved", approver)]


async def test_p5_of_two_rollbacks_at_once_one_counts(hub: Hub) -> None:
    made = (await hub.make(1, 2))[0]
    item = str(made.parameters["item_id"])
    answers = await hub.race(KEY, f"{COLLECTION}/{item}", *[rolling_back(made.release_id)] * 2)
    assert answers.count("publication.moved") == 1
    (back,) = [answer for answer in answers if answer != "publication.moved"]
    assert (back["number"], back["shown_revision"]) == (3, 1)
    assert [action for action, _ in await hub.audit(made.asset_id)].count("release.rolled_back") == 1
    assert hub.history(item)[2:] == [(3, "rollback", "revision 1")]


async def test_p5_a_rollback_against_the_publication_of_a_reprocess_undoes_nothing_that_nobody_saw(hub: Hub) -> None:
    """It goes back from what was shown when it was asked for, or not at all."""
    made = await hub.make(1, 2, waiting=True)
    item, last = str(made[0].parameters["item_id"]), made[-1]

    async def approve(gateway: Gateway, by: ActionBy) -> Any:
        found = await gateway.releases.decide(last.release_id, True, by)
        await hub.publish(last)
        return found

    answers = await hub.race(KEY, f"{COLLECTION}/{item}", approve, rolling_back(last.release_id))
    shown = hub.history(item)[2:]
    if answers[1] == "publication.moved":
        assert shown == [(3, "replace", "revision 3")]
    else:
        assert shown == [(3, "rollback", "revision 1"), (4, "replace", "revision 3")]
    assert (await hub.show(last.release_id))["shown_revision"] == 3


async def test_p5_a_job_that_is_tried_again_does_not_undo_a_rollback(hub: Hub) -> None:
    made = (await hub.make(1, 2))[-1]
    item = str(made.parameters["item_id"])
    await hub.publish(made, attempt=2)  # as its exports do
    await hub.releases.roll_back(made.release_id, None, BY)
    await hub.publish(made, attempt=2)  # what it has published before changes nothing
    with pytest.raises(Conflict) as refused:
        await hub.publish(made, attempt=3)
    assert refused.value.code == "publication.release"
    assert [action for _, action, _ in hub.history(item)] == ["publish", "replace", "replace", "rollback"]
    assert (await hub.show(made.release_id))["shown_revision"] == 1


async def test_p5_a_job_that_is_tried_again_does_not_undo_that_its_item_was_unpublished(hub: Hub) -> None:
    (made,) = await hub.make(1, 1)
    item = str(made.parameters["item_id"])
    await hub.gateways[0].publishing.act(ItemAction("withdraw", COLLECTION, item, "ben", "so"))
    with pytest.raises(Conflict) as refused:
        await hub.publish(made, attempt=2)
    assert refused.value.code == "publication.release"


async def test_p5_a_job_withdraws_only_while_its_release_shows_its_revision(hub: Hub) -> None:
    """Neither before it publishes, nor when it repeats after a rollback."""
    first = await hub.submit(1)
    await hub.releases.decide(first.release_id, True, BY)
    await hub.publish(first, "-a", "-b")
    last = await hub.submit(1, source="b", reprocess=True)
    await hub.releases.decide(last.release_id, True, BY)
    item = str(last.parameters["item_id"])
    with pytest.raises(Denied):
        act(hub.handler, "withdraw", COLLECTION, f"{item}-a", By(str(last.job_id)))

    await hub.publish(last, "-b")
    await hub.releases.roll_back(last.release_id, None, BY)
    await hub.publish(last, "-b")
    assert [action for _, action, _ in hub.history(f"{item}-a")] == ["publish", "withdraw", "rollback"]
    assert [action for _, action, _ in hub.history(f"{item}-b")] == ["publish", "replace", "rollback"]


async def test_p6_a_revoke_against_a_rollback_leaves_nothing_shown(hub: Hub) -> None:
    for dataset in range(3):
        made = (await hub.make(dataset, 2))[0]
        item = str(made.parameters["item_id"])
        acts = [revoking(made.release_id), rolling_back(made.release_id)]
        answers = await hub.race(KEY, f"{COLLECTION}/{item}", *(acts if dataset % 2 else acts[::-1]))
        refused = [one for one in answers if isinstance(one, str)]
        assert refused in ([], ["publication.moved"], ["publication.not_approved"])
        found = await hub.show(made.release_id)
        assert (found["approval_status"], found["number"]) == ("revoked", None)
        said = [action for action, _ in await hub.audit(made.asset_id)][-3:]
        assert said[1:] == ["release.revoked", "release.withdrawn"]
        assert (said[0] == "release.rolled_back") == (not refused)
        assert [action for _, action, _ in hub.history(item)][2:] == [*([] if refused else ["rollback"]), "withdraw"]


CATALOG = "select app.lock_catalog() where %s <> ''"


async def test_p6_revokes_at_once_wait_for_each_other(hub: Hub) -> None:
    """All lock the catalog before anything else, so that none of them is in another's way."""
    made = [(await hub.make(dataset, 1))[0] for dataset in (1, 2)]
    answers = await hub.race(CATALOG, "all of it", *(revoking(one.release_id) for one in made))
    assert [(answer["approval_status"], answer["number"]) for answer in answers] == [("revoked", None)] * 2


async def test_p6_an_unpublish_against_an_approval_shows_what_came_last(hub: Hub) -> None:
    made = await hub.make(1, 1, waiting=True)
    item, last = str(made[0].parameters["item_id"]), made[-1]

    async def approve(gateway: Gateway, by: ActionBy) -> Any:
        found = await gateway.releases.decide(last.release_id, True, by)
        await hub.publish(last)
        return found

    async def unpublish(gateway: Gateway, by: ActionBy) -> Any:
        return await gateway.publishing.act(ItemAction("withdraw", COLLECTION, item, by.actor, "so"))

    answers = await hub.race(KEY, f"{COLLECTION}/{item}", approve, unpublish)
    assert not any(isinstance(one, str | AnabranchError) for one in answers)
    found, shown = await hub.show(last.release_id), [action for _, action, _ in hub.history(item)][1:]
    assert shown in (["withdraw", "publish"], ["replace", "withdraw"])
    assert found["approval_status"] == "approved"
    assert found["shown_revision"] == (2 if shown[-1] == "publish" else None)


async def test_p1_a_platform_that_gets_its_first_asset_keeps_its_references(hub: Hub) -> None:
    """An order is being written when the references change."""
    changed = make_policy("one_approver", raster="reviewed") | {"required_refs": ["other"]}
    with psycopg.connect(hub.url) as writing:
        writing.execute("select app.set_platform_filter('ddh')")
        writing.execute(
            "insert into app.assets (asset_id, platform, refs, tags, made_by, made_at)"
            " values (repeat('a', 32), 'ddh', '{}', '{}', 'ann', app.now())"
        )
        saving = asyncio.create_task(
            hub.releases.save_platform("ddh", changed, replace(BY, platform_filter=ALL_PLATFORMS))
        )
        await hub.wait_for_locks(1)
        writing.commit()
        with pytest.raises(Conflict, match="has assets"):
            await saving


async def test_p4_an_order_obeys_the_policy_that_was_saved_before_it_was_accepted(hub: Hub) -> None:
    """It was read before."""
    changed = make_policy("none", raster="reviewed")
    with psycopg.connect(hub.url) as saving:
        saving.execute("select app.save_platform('ddh', %s, 'ben', 'test')", [json.dumps(changed)])
        ordering = asyncio.create_task(hub.releases.submit(order(1), BY))
        await hub.wait_for_locks(1)
        saving.commit()
        made = await ordering
    assert (await hub.show(made.release_id))["approval_required"] is False


async def test_a_retry_against_an_order_is_no_deadlock(hub: Hub) -> None:
    made = await hub.submit(1)
    await hub.gateways[0].controls.cancel(str(made.job_id), "no", "ann")
    with capture_logs() as logs:
        await hub.race(
            "select from app.assets where asset_id = %s for update", made.asset_id, submitting(1),
            lambda gateway, by: gateway.controls.retry(str(made.job_id), RetryChoice(), by.actor),
        )  # fmt: skip
    assert [one for one in logs if one["event"] == "database.deadlock"] == []


async def test_a_publication_against_a_cancellation_is_no_deadlock(hub: Hub) -> None:
    """Both announce what became of the release, and the publication ends with its attempt."""
    made = await hub.submit(1)
    await hub.releases.decide(made.release_id, True, BY)
    lost = ("publish", ((1, 0), 1, 1))
    with psycopg.connect(hub.url) as holder, capture_logs() as logs:
        holder.execute("lock table pgstac.items in share mode")  # where the publication has written all rows of ours
        publishing = asyncio.create_task(hub.publish(made, fence=lost))
        await hub.wait_for_locks(1)
        cancelling = asyncio.create_task(hub.gateways[0].controls.cancel(str(made.job_id), "no", "ann"))
        await hub.wait_for_locks(2)
        holder.commit()
        with pytest.raises(Interrupted):
            await publishing
        await cancelling
    assert [one for one in logs if one["event"] == "database.deadlock"] == []


async def test_p9_what_is_said_of_a_release_never_goes_back(hub: Hub) -> None:
    """A clearance that is not committed yet is said before an approval, which says how both stand."""
    made = await hub.submit(1)
    endpoint = EndpointChange("https://example.org/", None, ("*",), "standard", "", timeout_seconds=15, retries=5)
    await hub.gateways[0].webhooks.add("ddh", endpoint, None, BY)
    with psycopg.connect(hub.url) as clearing:
        clearing.execute("select app.clear_release('ddh', %s, 'internal', 'ben', 'so', 'c')", [made.release_id])
        approving = asyncio.create_task(hub.releases.decide(made.release_id, True, BY))
        await hub.wait_for_locks(1)
        clearing.commit()
        await approving
        clearing.execute("select app.set_platform_filter('*')")
        heard = clearing.execute(
            "select m.event, m.data ->> 'approval_status'"
            " from app.webhook_deliveries d join app.webhook_messages m on m.id = d.message order by d.id"
        ).fetchall()
    assert heard == [("release.cleared", "pending_review"), ("release.approved", "approved")]


async def test_p5_a_clearance_against_a_publication_that_withdraws_an_item_waits_for_it(hub: Hub) -> None:
    """All items of a release are locked before the first one moves."""
    for dataset in range(3):
        made = await hub.submit(dataset)
        await hub.releases.decide(made.release_id, True, BY)
        await hub.publish(made, "-a", "-b")
        last = await hub.submit(dataset, source="b", reprocess=True)
        await hub.releases.decide(made.release_id, True, BY)

        item = made.parameters["item_id"]
        await hub.race(KEY, f"{COLLECTION}/{item}-a", clearing(made.release_id), publishing(hub, last, "-b"))
        assert [action for _, action, _ in hub.history(f"{item}-a")] == ["publish", "withdraw"]
        assert [action for _, action, _ in hub.history(f"{item}-b")] == ["publish", "replace"]
        with pytest.raises(Denied):  # a partner's job withdraws nothing else
            act(hub.handler, "withdraw", COLLECTION, f"{item}-b", By(str(last.job_id)))
