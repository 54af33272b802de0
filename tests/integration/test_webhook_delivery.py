"""Deliveries of webhooks (P9): at least once, signed, in order for a subject, or visible as dead letters."""

import asyncio
import gzip
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from psycopg.errors import InsufficientPrivilege

from anabranch.adapters.postgres.connect import Role, connect
from anabranch.adapters.postgres.store.vitals import PostgresVitals
from anabranch.adapters.postgres.store.webhooks import PostgresWebhooks
from anabranch.contract.webhooks import Delivery, NewWebhook, Replayed
from anabranch.engine.model import SessionKind
from anabranch.errors import Conflict, NotFound
from anabranch.platform.action_by import ActionBy
from anabranch.platform.notifications.deliverer import Deliverer, DeliveryOptions
from anabranch.platform.notifications.ports import CallResult, DeliveryFilter, EndpointChange
from anabranch.platform.notifications.webhooks import MAX_ENDPOINTS, Webhooks
from anabranch.sealing import Sealer
from anabranch.testing.clock import Clock
from tests.support.engine import EngineHarness
from tests.support.receiver import SECRET, Receiver, answering, open_receiver
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.postgres
LEASE = timedelta(seconds=60)
PLATFORM = "acme"
BY = ActionBy(PLATFORM, "test", None, "c")


class Notifying:
    """Endpoints, announcements and deliverers on one database."""

    def __init__(self, engine: EngineHarness, url: str, home: Path) -> None:
        self.engine = engine
        self.url = url
        self.key = home / "webhook-key"
        self.store: PostgresWebhooks = engine.store.webhooks()
        self.webhooks = Webhooks(self.store, self.key, ["127.0.0.1"])
        self.outbox = engine.store.outbox()

    async def add(self, url: str, **given: Any) -> NewWebhook:
        wanted = {"events": ["*"], "format": "standard", "description": "", "timeout_seconds": 5, "retries": 10}
        return await self.webhooks.add(PLATFORM, EndpointChange(url, **{**wanted, **given}), SECRET, BY)

    def announce(self, subject: str = "s", event: str = "job.completed", **data: object) -> None:
        with connect(self.url, None) as owner:
            owner.execute(
                "select app.announce(%s, %s, %s, jsonb_build_object('n', %s::integer), 'corr')",
                [PLATFORM, subject, event, data.get("n")],
            )

    @asynccontextmanager
    async def delivering(self) -> AsyncIterator[None]:
        """Deliver in this loop."""
        session = await self.engine.store.open_session(SessionKind.ORCHESTRATOR, [], 0, LEASE)
        options = DeliveryOptions(lambda: "https://anabranch.example", ["127.0.0.1"])
        delivers = Deliverer(self.engine.store.outbox(), Sealer.open(self.key), options)
        running = asyncio.create_task(delivers.run(session))
        try:
            yield
        finally:
            running.cancel()
            await asyncio.wait([running])
            await self.engine.store.end_session(session, "test")

    async def deliveries(self, **wanted: Any) -> list[Delivery]:
        found = await self.store.deliveries(None, DeliveryFilter(**wanted), limit=1000, before=None)
        return list(found.items)[::-1]

    async def until(self, true: Callable[[list[Delivery]], object]) -> list[Delivery]:
        """The deliveries, once something is true of them."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not true(found := await self.deliveries()):
                await asyncio.sleep(0.02)
        return found

    async def ended(self) -> list[Delivery]:
        return await self.until(lambda found: found and all(one.status != "pending" for one in found))

    async def tried(self, times: int = 1) -> list[Delivery]:
        return await self.until(lambda found: found and all(one.attempts >= times for one in found))


@pytest.fixture
async def notifying(engine: EngineHarness, database_url: str, tmp_path: Path) -> Notifying:
    return Notifying(engine, database_url, tmp_path)


async def test_p9_a_message_is_delivered_signed_with_its_ids(notifying: Notifying) -> None:
    async with open_receiver() as receiver, notifying.delivering():
        made = await notifying.add(receiver.url("/hook?x=1"))
        notifying.announce(n=1)
        (received,) = await receiver.wait(1)
        (delivery,) = await notifying.ended()
    said = received.verify()
    assert (received.path, said["n"], said["type"], said["version"]) == ("/hook?x=1", 1, "job.completed", 1)
    assert received.headers["webhook-id"] == delivery.message_id
    assert received.headers["x-correlation-id"] == said["correlation_id"] == delivery.correlation_id == "corr"
    assert (delivery.status, delivery.attempts, delivery.response_status) == ("delivered", 1, 200)
    assert SECRET not in repr(made)


async def test_p9_a_transaction_that_fails_announces_nothing(notifying: Notifying) -> None:
    await notifying.add("http://127.0.0.1:9/")
    with connect(notifying.url, None, autocommit=False) as owner:
        owner.execute("select app.announce(%s, 's', 'job.completed', '{}', 'c')", [PLATFORM])
        owner.rollback()
    assert await notifying.deliveries() == []


async def test_an_endpoint_receives_the_events_that_it_wants(notifying: Notifying) -> None:
    async with open_receiver() as receiver, notifying.delivering():
        await notifying.add(receiver.url(), events=["release.*", "job.failed"])
        for event in ("job.completed", "release.approved", "job.failed", "releases"):
            notifying.announce(event=event)
        await receiver.wait(2)
        await notifying.ended()
    assert [one.json["type"] for one in receiver.requests] == ["release.approved", "job.failed"]


async def test_p9_messages_of_a_subject_keep_their_order_and_others_pass(notifying: Notifying, clock: Clock) -> None:
    refused: list[int] = []

    async def refuse_first(received: Any, writer: asyncio.StreamWriter) -> None:
        fails = received.json["n"] == 1 and not refused
        refused.extend([1] if fails else [])
        await answering(500 if fails else 200)(received, writer)

    async with open_receiver(refuse_first) as receiver, notifying.delivering():
        await notifying.add(receiver.url())
        for n in (1, 2, 3):
            notifying.announce("asset", n=n)
        await notifying.until(lambda found: found[0].attempts == 1)
        notifying.announce("another", n=4)
        await receiver.wait(2)
        assert [one.json["n"] for one in receiver.requests] == [1, 4]
        clock.advance(timedelta(seconds=10))
        await notifying.ended()
    assert [one.json["n"] for one in receiver.requests] == [1, 4, 1, 2, 3]


async def test_p9_a_receiver_that_is_down_is_called_for_a_day_and_then_a_dead_letter_can_be_replayed(
    notifying: Notifying, clock: Clock
) -> None:
    async with notifying.delivering():
        await notifying.add("http://127.0.0.1:9/", retries=2)
        notifying.announce(n=1)
        for times in (1, 2):
            await notifying.tried(times)
            clock.advance(timedelta(minutes=1))
        (dead,) = await notifying.ended()
        assert (dead.status, dead.attempts) == ("dead", 3)
        assert "the connection failed" in str(dead.error)
        detail = await notifying.store.delivery(PLATFORM, int(dead.id))
        assert [call.attempt for call in detail.calls] == [1, 2, 3]

        async with open_receiver() as receiver:
            (endpoint,) = (await notifying.store.list_endpoints(PLATFORM, limit=9, before=None)).items
            await notifying.webhooks.change(UUID(endpoint.id), EndpointChange(receiver.url()), BY)
            assert (await notifying.store.replay(PLATFORM, DeliveryFilter(), 10)).deliveries == (dead.id,)
            await receiver.wait(1)
            (again,) = await notifying.ended()
    assert (again.status, again.attempts, again.message_id) == ("delivered", 4, dead.message_id)


async def test_retries_are_spread_over_about_a_day(notifying: Notifying) -> None:
    with connect(notifying.url, None) as owner:
        (total,) = owner.execute("select sum(app.webhook_delay(n)) from generate_series(1, 10) n").fetchone() or (None,)
        (first,) = owner.execute(
            "select array_agg(distinct app.webhook_delay(1)) from generate_series(1, 50)"
        ).fetchone() or ([],)
    assert timedelta(hours=18) < total < timedelta(hours=30)
    assert len(first) > 10
    assert all(timedelta(seconds=4) <= delay <= timedelta(seconds=6) for delay in first)


async def test_failures_open_a_breaker_and_one_call_probes_it(notifying: Notifying, clock: Clock) -> None:
    async with open_receiver(answering(503)) as receiver, notifying.delivering():
        made = await notifying.add(receiver.url())
        for n in range(30):
            notifying.announce(f"s{n}", n=n)
        await notifying.until(lambda found: sum(one.attempts for one in found) >= 5)
        broken = await notifying.store.get(PLATFORM, UUID(made.id))
        assert broken.open_until
        called = len(receiver.requests)
        assert called < 30
        receiver.behave = answering(200)
        while any(one.status == "pending" for one in await notifying.deliveries()):
            clock.advance(timedelta(seconds=31))  # a call that was under way may have failed after the last one
            await asyncio.sleep(0)
        healthy = await notifying.store.get(PLATFORM, UUID(made.id))
    assert (healthy.failures, healthy.open_until, healthy.pending) == (0, None, 0)


async def test_p9_what_can_not_be_tried_for_a_day_is_a_dead_letter(notifying: Notifying, clock: Clock) -> None:
    made = await notifying.add("http://127.0.0.1:9/")
    notifying.announce()
    notifying.announce()
    await notifying.store.change(UUID(made.id), EndpointChange(active=False), BY)
    clock.advance(timedelta(hours=25))
    async with notifying.delivering():
        found = await notifying.ended()
    assert [(one.status, one.attempts) for one in found] == [("dead", 0)] * 2


async def test_an_endpoint_that_is_gone_is_disabled(notifying: Notifying) -> None:
    async with open_receiver(answering(410)) as receiver, notifying.delivering():
        made = await notifying.add(receiver.url())
        notifying.announce()
        (dead,) = await notifying.ended()
    disabled = await notifying.store.get(PLATFORM, UUID(made.id))
    assert (dead.status, disabled.active, disabled.disabled_reason) == ("dead", False, "it answered 410 Gone")
    assert await notifying.store.replay(PLATFORM, DeliveryFilter(), 9) == Replayed((), 1)
    assert await notifying.store.replay("others", DeliveryFilter(), 9) == Replayed((), 0)
    active = await notifying.webhooks.change(UUID(made.id), EndpointChange(active=True), BY)
    assert (active.active, active.disabled_reason) == (True, None)
    assert await notifying.store.replay(PLATFORM, DeliveryFilter(), 9) == Replayed((dead.id,), 0)


async def test_a_rotated_secret_and_the_former_one_both_verify_for_a_while(notifying: Notifying, clock: Clock) -> None:
    async with open_receiver() as receiver, notifying.delivering():
        made = await notifying.add(receiver.url())
        rotated = await notifying.webhooks.rotate(UUID(made.id), None, timedelta(hours=24), BY)
        notifying.announce(n=1)
        await receiver.wait(1)
        clock.advance(timedelta(hours=25))
        notifying.announce(n=2)
        await receiver.wait(2)
        await notifying.ended()
    both, one = receiver.requests
    assert both.verify(SECRET)["n"] == both.verify(rotated.secret)["n"] == 1
    assert len(one.headers["webhook-signature"].split()) == 1
    assert one.verify(rotated.secret)["n"] == 2


async def test_cloud_events_carry_the_same_content(notifying: Notifying) -> None:
    async with open_receiver() as receiver, notifying.delivering():
        await notifying.add(receiver.url(), format="cloudevents")
        notifying.announce("asset-1", n=7)
        (received,) = await receiver.wait(1)
        await notifying.ended()
    event = received.verify()
    assert received.headers["content-type"].startswith("application/cloudevents+json")
    assert (event["specversion"], event["subject"], event["type"]) == ("1.0", "asset-1", "anabranch.job.completed")
    assert (event["id"], event["data"]["n"]) == (received.headers["webhook-id"], 7)


async def drip(_: Any, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
    while True:
        writer.write(b".")
        await writer.drain()
        await asyncio.sleep(0.05)


async def stay_silent(_: Any, __: asyncio.StreamWriter) -> None:
    await asyncio.Event().wait()


async def inflate(received: Any, writer: asyncio.StreamWriter) -> None:
    bomb = gzip.compress(bytes(50_000_000))
    assert len(bomb) < 60_000
    assert received.headers["accept-encoding"] == "identity"
    await answering(200, "Content-Encoding: gzip", body=bomb)(received, writer)


async def send_long_headers(_: Any, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\n" + b"X-Long: " + b"x" * 100_000)


@pytest.mark.parametrize(
    ("behave", "status", "error"),
    [
        (drip, "pending", "no answer in 1 s"),
        (stay_silent, "pending", "no answer in 1 s"),
        (answering(302, "Location: http://169.254.169.254/"), "pending", "it answered 302"),
        (inflate, "delivered", None),
        (send_long_headers, "pending", "not HTTP"),
        (answering(200, body=b"\xff\x00" * 9000), "delivered", None),
    ],
    ids=["drips", "slow", "redirects", "inflates", "long headers", "binary"],
)
async def test_p9_a_hostile_receiver_stalls_nobody_and_its_calls_are_visible(
    notifying: Notifying, behave: Callable[..., Awaitable[None]], status: str, error: str | None
) -> None:
    async with open_receiver(behave) as hostile, open_receiver() as healthy, notifying.delivering():
        await notifying.add(hostile.url(), timeout_seconds=1 if status == "pending" else 60)
        notifying.announce(n=1)
        await hostile.wait(1)
        await notifying.add(healthy.url())
        await notifying.store.change(
            UUID((await notifying.deliveries())[0].endpoint_id), EndpointChange(events=["none"]), BY
        )
        notifying.announce(n=2)
        await healthy.wait(1)
        first, second = await notifying.tried()
    assert second.status == "delivered"
    assert (first.status, len(hostile.requests)) == (status, 1)
    assert (error or "") in (first.error or "")
    (call,) = (await notifying.store.delivery(PLATFORM, int(first.id))).calls
    assert len(call.response or "") <= 1000


async def test_s3_a_name_that_leads_to_a_private_address_is_not_called(notifying: Notifying) -> None:
    notifying.webhooks = Webhooks(notifying.store, notifying.key, ["localhost"])
    async with open_receiver() as receiver, notifying.delivering():
        await notifying.add(f"http://localhost:{receiver.port}/")  # the deliverer does not exempt it
        notifying.announce()
        (tried,) = await notifying.tried()
    assert receiver.requests == []
    assert "can't be called" in str(tried.error)


async def test_p9_deliveries_of_a_dead_session_are_taken_over_and_its_late_word_counts_for_nothing(
    notifying: Notifying,
) -> None:
    store, outbox = notifying.engine.store, notifying.outbox
    first, second = [await store.open_session(SessionKind.ORCHESTRATOR, [], 0, LEASE) for _ in range(2)]
    await notifying.add("http://127.0.0.1:9/")
    notifying.announce()
    (taken,) = await outbox.take(first, [], limit=10, each=10)
    assert await outbox.take(second, [], limit=10, each=10) == []

    await store.end_session(first, "killed")
    (again,) = await outbox.take(second, [], limit=10, each=10)
    assert again.id == taken.id
    assert await outbox.end(first, [CallResult(taken.id, "delivered", 0.1, 200)]) == 0
    assert await outbox.end(second, [CallResult(taken.id, "delivered", 0.1, 200)]) == 1


async def test_a_reply_that_was_lost_is_taken_again_by_the_same_session(notifying: Notifying) -> None:
    session = await notifying.engine.store.open_session(SessionKind.ORCHESTRATOR, [], 0, LEASE)
    await notifying.add("http://127.0.0.1:9/")
    notifying.announce()
    (lost,) = await notifying.outbox.take(session, [], limit=10, each=10)
    (taken,) = await notifying.outbox.take(session, [], limit=10, each=10)
    assert taken.id == lost.id
    assert await notifying.outbox.take(session, [taken.id], limit=10, each=10) == []


async def test_p9_two_processes_deliver_each_message_once(notifying: Notifying) -> None:
    async with AsyncExitStack() as opened:
        receiver: Receiver = await opened.enter_async_context(open_receiver())
        await notifying.add(receiver.url())
        await opened.enter_async_context(notifying.delivering())
        await opened.enter_async_context(notifying.delivering())
        for n in range(50):
            notifying.announce(f"s{n % 7}", n=n)
        await notifying.ended()
    assert sorted(one.json["n"] for one in receiver.requests) == list(range(50))


async def test_o5_old_deliveries_are_removed_with_messages_and_log(notifying: Notifying, clock: Clock) -> None:
    async with open_receiver() as receiver, notifying.delivering():
        await notifying.add(receiver.url())
        notifying.announce()
        await notifying.ended()
    assert await notifying.outbox.remove_old(timedelta(days=1)) == 0
    clock.advance(timedelta(days=2))
    assert await notifying.outbox.remove_old(timedelta(days=1)) == 1
    with connect(notifying.url, None) as owner:
        for table in ("webhook_deliveries", "webhook_messages", "webhook_attempts"):
            assert owner.execute(f"select count(*) from app.{table}").fetchone() == (0,)


async def test_o2_the_duty_ticks(notifying: Notifying) -> None:
    async with open_receiver() as receiver, notifying.delivering():
        await notifying.add(receiver.url())
        notifying.announce()
        await notifying.ended()
    with connect(notifying.url, None) as owner:
        assert owner.execute("select every from app.duties where name = 'webhooks'").fetchall()


async def test_s5_no_row_holds_a_secret(notifying: Notifying) -> None:
    await notifying.add("http://127.0.0.1:9/")
    with connect(notifying.url, None) as owner:
        (row,) = owner.execute("select e::text, e.secret from app.webhook_endpoints e").fetchall()
    assert SECRET not in row[0]
    assert SECRET.encode() not in row[1]


async def test_endpoints_and_deliveries_of_another_platform_do_not_exist(notifying: Notifying) -> None:
    made = UUID((await notifying.add("http://127.0.0.1:9/")).id)
    notifying.announce()
    (delivery,) = await notifying.deliveries()
    store, others = notifying.store, "others"
    assert not (await store.list_endpoints(others, limit=9, before=None)).items
    assert not (await store.deliveries(others, DeliveryFilter(), limit=9, before=None)).items
    assert await store.replay(others, DeliveryFilter(), 9) == Replayed((), 0)
    for call in (
        store.get(others, made),
        store.change(made, EndpointChange(active=False), replace(BY, platform_filter=others)),
        store.remove(made, replace(BY, platform_filter=others)),
        store.rotate(made, b"", timedelta(), replace(BY, platform_filter=others)),
        store.test(others, made, "c"),
        store.delivery(others, int(delivery.id)),
        store.replay_one(others, int(delivery.id)),
        store.get(PLATFORM, uuid4()),
    ):
        with pytest.raises(NotFound):
            await call


async def test_s1_rows_of_notifications_are_invisible_without_their_platform(notifying: Notifying) -> None:
    """Whatever a query asks for: the tables are secured, also against their owner."""
    made = await notifying.add("http://127.0.0.1:9/")
    notifying.announce()
    async with notifying.delivering():
        await notifying.tried()
    with connect(notifying.url, Role.OWNER, autocommit=False) as owner:
        for table in ("endpoints", "messages", "deliveries", "attempts"):
            for platform, seen in (("", False), ("others", False), (PLATFORM, True), ("*", True)):
                owner.execute("select app.set_platform_filter(%s)", [platform])
                found = owner.execute(f"select count(*) from app.webhook_{table}").fetchone()
                assert (found != (0,)) is seen, (table, platform)
        owner.execute("select app.set_platform_filter('others')")
        with pytest.raises(InsufficientPrivilege):
            owner.execute(
                "insert into app.webhook_callbacks (subject, endpoint, platform) values ('s', %s, %s)",
                [made.id, PLATFORM],
            )


async def test_the_figures_of_deliveries_are_those_of_metrics(notifying: Notifying, clock: Clock) -> None:
    async with open_receiver(answering(500)) as receiver, notifying.delivering():
        await notifying.add(receiver.url(), retries=0)
        for n in range(5):
            notifying.announce(f"s{n}")
        await notifying.ended()
    notifying.announce("waits")
    clock.advance(timedelta(seconds=7))
    vitals = PostgresVitals(notifying.url, name="test vitals")
    await vitals.open()
    found = (await vitals.gauges()).deliveries
    await vitals.close()
    assert found == {"waiting": 1, "dead": 5, "oldest_seconds": 7, "open_breakers": 1}


def add_platform(notifying: Notifying, platform: str, endpoints: int) -> None:
    """A platform with so many endpoints, each of its own host, and a message for each."""
    with connect(notifying.url, None) as owner:
        owner.execute(
            "insert into app.webhook_endpoints (id, platform, listed, url, authority, events, format, description,"
            "   active, secret, timeout_seconds, retries, made_at, made_by, changed_at)"
            " select gen_random_uuid(), %(platform)s, true, url, 'http://' || %(platform)s || i, events, format,"
            "        description, active, secret, timeout_seconds, retries, made_at, made_by, changed_at"
            "   from app.webhook_endpoints, generate_series(1, %(endpoints)s) i where platform = %(like)s",
            {"platform": platform, "endpoints": endpoints, "like": PLATFORM},
        )
        owner.execute("select app.announce(%s, 's', 'job.completed', '{}', 'corr')", [platform])


async def test_p9_platforms_are_served_in_turn_and_none_takes_every_call(notifying: Notifying) -> None:
    session = await notifying.engine.store.open_session(SessionKind.ORCHESTRATOR, [], 0, LEASE)
    await notifying.add("http://127.0.0.1:9/")

    async def take(in_hand: list[int], limit: int) -> dict[str, list[int]]:
        taken: dict[str, list[int]] = {}
        platforms = {str(row.id): row.platform for row in await notifying.deliveries()}
        for due in await notifying.outbox.take(session, in_hand, limit=limit, each=10):
            taken.setdefault(platforms[str(due.id)], []).append(due.id)
        return taken

    add_platform(notifying, "busy", 420)
    add_platform(notifying, "small", 3)
    first = await take([], 100)
    assert (len(first["small"]), len(first["busy"])) == (3, 72)

    in_hand = [*first["busy"], *first["small"]]
    while more := await take(in_hand, 400 - len(in_hand)):
        in_hand += more["busy"]
    assert 290 <= len(in_hand) <= 303
    add_platform(notifying, "late", 1)
    assert [(name, len(ids)) for name, ids in (await take(in_hand, 400 - len(in_hand))).items()] == [("late", 1)]


async def test_a_platform_has_so_many_endpoints_and_no_more(notifying: Notifying) -> None:
    await notifying.add("http://127.0.0.1:9/")
    add_platform(notifying, PLATFORM, MAX_ENDPOINTS - 1)
    with pytest.raises(Conflict) as refused:
        await notifying.add("http://127.0.0.1:9/")
    assert (refused.value.code, str(MAX_ENDPOINTS) in refused.value.message) == ("webhook.too_many", True)
    assert len((await notifying.store.list_endpoints(PLATFORM, limit=500, before=None)).items) == MAX_ENDPOINTS
