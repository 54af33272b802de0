"""A partner's day on a running stack: orders, notifications, reviews, the way back, and what must be so at its end."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import geopandas
import psycopg
import pytest
import shapely
from rasterio.warp import transform

from anabranch.client import AsyncClient, NotAllowed, verify_webhook
from anabranch.contract.platform import Accepted, Release
from anabranch.errors import Conflict, Unavailable
from anabranch.platform.identity import identify
from tests.support.data_hub import PLATFORM, make_policy
from tests.support.rasters import hills, make_raster
from tests.support.receiver import Received, Receiver, answering, open_receiver
from tests.support.release_reader import ReleaseReader, WatchedRelease, reading
from tests.support.vectors import write_frame
from tests.support.waiting import PATIENCE_SECONDS, wait_until_async

__all__ = ["PartnerDay", "open_day"]

Answer = TypeVar("Answer")
POLICY = make_policy("other_approver", raster="process_raster", vector="process_vector")
OPEN = "select job_id, state::text from app.jobs where state in ('pending', 'running', 'waiting')"
# What each step of the day leaves in the audit of an asset: the action, the version, and who did it.
SUBMITTED = ("revision.submitted", "release.processed", "release.approved", "release.published")
OPERATOR = "default/commands"


@dataclass(frozen=True)
class Message:
    """A notification whose signature is right."""

    id: str
    body: Any  # JSON


@dataclass
class PartnerAsset:
    """A raster or a vector file of the partner, with its contents and releases."""

    data_type: str
    refs: dict[str, str | int]
    files: dict[int, Path]
    releases: dict[str, Release] = field(default_factory=dict)
    """By their versions."""
    expected: list[tuple[str, str, str]] = field(default_factory=list)
    """The audit, in order: action, version, who."""

    @property
    def asset_id(self) -> str:
        return next(iter(self.releases.values())).asset_id

    def versions(self, release_id: str | None) -> str:
        """The version of a release."""
        return next(version for version, one in self.releases.items() if one.release_id == release_id)


class PartnerDay:
    """What a partner does in a day, with two people of it and an operator; each asks again where no answer came."""

    def __init__(
        self, clients: Sequence[AsyncClient], names: Sequence[str], assets: Sequence[PartnerAsset], secret: str
    ) -> None:
        """Made by `open_day`; the people are Ann, who submits, Ben, who approves, and the operator."""
        self.ann, self.ben, self.operator = clients
        self.names = names
        self.assets = assets
        self.messages: list[Message] = []
        self.reader: ReleaseReader
        self._secret = secret

    def steps(self) -> Iterator[Coroutine[Any, Any, None]]:
        """Two versions of each asset, of which the second is reprocessed, rolled back and revoked; then nothing."""
        yield self._all(self._publish, "1", 1)
        yield self._all(self._publish, "2", 2)
        yield self._all(self._publish, "2", 3)
        yield self._all(self._roll_back, "2")
        yield self._all(self._revoke, "2")
        yield self._all(self._unpublish, "1")

    async def receive(self, received: Received, writer: asyncio.StreamWriter) -> None:
        """Take a notification whose signature is right."""
        body = verify_webhook(received.body, received.headers, self._secret)
        self.messages.append(Message(received.headers["webhook-id"], body))
        await answering(200)(received, writer)

    async def _all(self, step: Callable[..., Awaitable[None]], *given: object) -> None:
        await asyncio.gather(*(step(asset, *given) for asset in self.assets))

    async def _publish(self, asset: PartnerAsset, version: str, content: int) -> None:
        """Order a version of an asset, or process it again with other content; review it when a notification comes."""
        again = version in asset.releases
        source = (await patiently(lambda: self.ann.upload(asset.files[content]))).address
        order: dict[str, Any] = {
            "platform": PLATFORM, "refs": {**asset.refs, "version_id": version}, "source": source,
            "reprocess": again, "title": f"Content {content}",
        }  # fmt: skip
        accepted = await patiently(lambda: self.ann.platform.submit(order))
        asset.releases[version] = await patiently(lambda: self.ann.platform.status(accepted.release_id))
        if not again:
            self.reader.releases.append(_watched(asset, version))
        await self._notified(accepted)
        with pytest.raises(NotAllowed) as refused:
            await patiently(lambda: self.ann.platform.approve(accepted.release_id))
        assert refused.value.code == "release.own"
        await patiently(lambda: self.ben.platform.approve(accepted.release_id, "checked"))
        await self._until(asset, version, lambda one: one.shown_revision == accepted.revision)
        actions = SUBMITTED if again else ("release.created", *SUBMITTED)
        by = {"release.approved": self.names[1], "release.processed": "job"}
        asset.expected += [(action, version, by.get(action, self.names[0])) for action in actions]
        await self.reader.read(_watched(asset, version))

    async def _notified(self, accepted: Accepted) -> None:
        wanted = ("release.processed", accepted.release_id, accepted.revision)
        await wait_until_async(
            lambda: any(
                (m.body["type"], m.body.get("release_id"), m.body.get("revision")) == wanted for m in self.messages
            ),
            f"the notification {wanted}",
        )

    async def _roll_back(self, asset: PartnerAsset, version: str) -> None:
        release_id = asset.releases[version].release_id
        await once(lambda: self.ben.platform.rollback(release_id, "worse", number=1), "publication.same")
        await self._until(asset, version, lambda one: (one.number, one.shown_revision) == (3, 1))
        asset.expected.append(("release.rolled_back", version, self.names[1]))
        await self.reader.read(_watched(asset, version))

    async def _revoke(self, asset: PartnerAsset, version: str) -> None:
        release_id = asset.releases[version].release_id
        await once(lambda: self.ben.platform.revoke(release_id, "wrong datum"), "release.not_approved")
        await self._until(asset, version, lambda one: one.approval_status == "revoked" and one.number is None)
        latest = await patiently(lambda: self.ann.platform.latest(asset.asset_id))
        assert latest.version == "1"
        asset.expected += [(action, version, self.names[1]) for action in ("release.revoked", "release.withdrawn")]
        await self.reader.read(_watched(asset, version))

    async def _unpublish(self, asset: PartnerAsset, version: str) -> None:
        release = asset.releases[version]
        await once(
            lambda: self.operator.unpublish(release.collection, release.item_id, "the end", confirm=True, expected=1),
            "publication.moved",
        )
        await self._until(asset, version, lambda one: one.number is None)
        asset.expected.append(("release.withdrawn", version, OPERATOR))
        await self.reader.read(_watched(asset, version))

    async def _until(self, asset: PartnerAsset, version: str, true: Callable[[Release], bool]) -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not true(
                found := await patiently(lambda: self.ann.platform.status(asset.releases[version].release_id))
            ):
                assert not found.error, found
                await asyncio.sleep(0.1)
        asset.releases[version] = found

    async def verify(self) -> None:
        """Hold releases, publications, audit and notifications against what was done, and nothing else."""
        await self._all(self._verify_releases)
        await self._all(self._verify_notifications)
        assert not self.reader.wrong, "\n".join(self.reader.wrong[:20])
        deliveries = [one async for one in self.ann.webhooks.deliveries(status="dead")]
        assert deliveries == []
        with psycopg.connect(self.reader.database_url) as connection:
            assert connection.execute(OPEN).fetchall() == []

    async def _verify_releases(self, asset: PartnerAsset) -> None:
        found = [one async for one in self.ann.platform.releases(asset_id=asset.asset_id)]
        states = {
            one.version: (one.ordinal, one.revision, one.processing_status, one.approval_status, one.number)
            for one in found
        }
        assert states == {"1": (1, 1, "completed", "approved", None), "2": (2, 2, "completed", "revoked", None)}
        lines = [line async for line in self.ann.platform.audit(asset_id=asset.asset_id)][::-1]
        lines = [line for line in lines if line.action != "revision.moved"]
        audit = [(line.action, asset.versions(line.release_id), line.actor.split(" ")[0]) for line in lines]
        assert audit == asset.expected
        histories = {
            "1": [("publish", 1), ("withdraw", None)],
            "2": [("publish", 1), ("replace", 2), ("rollback", 1), ("withdraw", None)],
        }
        for version, history in histories.items():
            release = asset.releases[version]
            shown = [one async for one in self.ann.publications(release.collection, release.item_id)][::-1]
            assert [(one.action, one.shows) for one in shown] == history
            assert [one.number for one in shown] == list(range(1, len(history) + 1))
            approved = [
                line.at for line in lines
                if (line.action, line.release_id) == ("release.approved", release.release_id)
            ]  # fmt: skip
            published = [one.at for one in shown if one.action in ("publish", "replace")]
            assert all(decided <= at for decided, at in zip(approved, published, strict=True))

    async def _verify_notifications(self, asset: PartnerAsset) -> None:
        """Every change of a release was announced, in order; what came twice has the same id (P9)."""
        expected = [one for one in asset.expected if one[0].startswith("release.")]

        def announced() -> list[tuple[str, str, str]]:
            ours = {one.id: one.body for one in reversed(self.messages) if one.body.get("asset_id") == asset.asset_id}
            return [
                (body["type"], asset.versions(body["release_id"]), body["actor"].split(" ")[0])
                for body in reversed(ours.values())
            ]

        await wait_until_async(lambda: len(announced()) >= len(expected), f"{len(expected)} notifications")
        assert announced() == expected


def _watched(asset: PartnerAsset, version: str) -> WatchedRelease:
    release = asset.releases[version]
    named = identify(PLATFORM, ("dataset_id", "resource_id"), (), "version_id", {**asset.refs, "version_id": version})
    (lon,), (lat,) = transform("EPSG:32633", "EPSG:4326", [500_300], [4_999_700])
    contents = {"1": {1: 1}, "2": {1: 2, 2: 3}}[version]
    return WatchedRelease(asset.data_type, release.collection, release.item_id, named.table, (lon, lat), contents)


async def patiently(call: Callable[[], Awaitable[Answer]]) -> Answer:
    """The answer, also where it must be asked for again."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            try:
                return await call()
            except Unavailable:
                await asyncio.sleep(0.1)


async def once(call: Callable[[], Awaitable[object]], done: str) -> None:
    """Do what must not be done twice: the code of a conflict says that an earlier call, which had no answer, did it."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        for tries in range(10_000):
            try:
                await call()
            except Unavailable:
                await asyncio.sleep(0.1)
            except Conflict as error:
                if tries == 0 or error.code != done:
                    raise
                return
            else:
                return


def make_assets(folder: Path, number: int) -> list[PartnerAsset]:
    """A raster and a vector file with three contents each, which their values tell."""
    rasters, vectors = {}, {}
    for content in (1, 2, 3):
        place = folder / str(content)
        place.mkdir(parents=True)
        rasters[content] = make_raster(place / "heights.tif", hills(120, 100) + 1000 * content)
        wells = geopandas.GeoDataFrame(
            {"content": [content] * 3}, geometry=shapely.points([1, 2, 3], 45), crs="EPSG:4326"
        )
        vectors[content] = write_frame(wells, place / "wells.gpkg")
    refs: dict[str, str | int] = {"dataset_id": number}
    return [
        PartnerAsset("raster", {**refs, "resource_id": "heights"}, rasters),
        PartnerAsset("vector", {**refs, "resource_id": "wells"}, vectors),
    ]


@asynccontextmanager
async def open_day(
    url: str, operator_key: str, database_url: str, folder: Path, number: int, *, pause: float
) -> AsyncIterator[PartnerDay]:
    """A day whose people, receiver and reader are there; its number makes its assets its own.

    The reader pauses for so many seconds between two rounds.
    """
    async with AsyncExitStack() as stack:
        operator = await stack.enter_async_context(AsyncClient(url, key=operator_key))
        await operator.platform.save(PLATFORM, POLICY)
        names = [f"{name}{number}" for name in ("ann", "ben", "reader")]
        scopes = ("operate", "operate", "read")
        keys = [
            (await operator.admin.make_key(name, scope, platform=PLATFORM)).key
            for name, scope in zip(names, scopes, strict=True)
        ]
        ann, ben = [await stack.enter_async_context(AsyncClient(url, key=key)) for key in keys[:2]]
        receiver: Receiver = await stack.enter_async_context(open_receiver())
        endpoint = await ann.webhooks.add(receiver.url(), ["release.*"])
        day = PartnerDay(
            (ann, ben, operator), [f"{PLATFORM}/{name}" for name in names], make_assets(folder, number), endpoint.secret
        )
        receiver.behave = day.receive
        day.reader = await stack.enter_async_context(reading(url, keys[2], database_url, pause))
        yield day
        await ann.webhooks.remove(endpoint.id)
