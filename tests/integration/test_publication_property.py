"""Publishing, replacing, withdrawing, restoring, rolling back and retention in any order: the catalog shows what is
current, nothing is orphaned, and every link that was given out gives its bytes or is gone."""

import asyncio
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from psycopg import Connection

from anabranch.adapters.postgres.connect import Role, connect
from anabranch.adapters.postgres.store.objects.audited import PostgresRecords
from anabranch.adapters.postgres.store.published.files import PostgresFiles
from anabranch.adapters.postgres.store.reads import PostgresReads
from anabranch.app import open_purge, open_tiers
from anabranch.contract.catalog import ItemAct
from anabranch.errors import AnabranchError, Conflict, Gone, NotFound
from anabranch.plugins.stac.catalog import By, act, ensure_collection
from anabranch.plugins.stac.collection import CollectionFacts
from anabranch.plugins.stac.pgstac.rebuild import check
from anabranch.settings import Settings
from anabranch.storage.audit import Audit
from tests.support.items import put_item

pytestmark = pytest.mark.postgres
ITEMS = ("a", "b")
DAY = timedelta(days=1)


class Ledger(RuleBasedStateMachine):
    """What should be visible, beside what is."""

    url: str
    home: Path
    round = 0

    @initialize()
    def begin(self) -> None:
        Ledger.round += 1
        self.collection = f"c{Ledger.round}"
        self.settings = Settings(home=self.home, revision_retention_days=10, restore_window_days=5)
        self.handler: Connection[Any] = connect(self.url, Role.HANDLER)
        ensure_collection(self.handler, CollectionFacts(id=self.collection))
        self.contents = 0
        self.shown: dict[str, str | None] = {}
        """The content that readers see of each item; None while it is withdrawn."""
        self.shows: dict[tuple[str, int], str] = {}
        """The content of each number that shows some."""
        self.numbers: dict[str, int] = {}
        self.links: dict[str, tuple[str, str]] = {}
        """The item and the content of each publication that readers were given a link to."""

    def teardown(self) -> None:
        if hasattr(self, "handler"):
            self.handler.close()

    @rule(item=st.sampled_from(ITEMS))
    def publish_or_replace(self, item: str) -> None:
        self.contents += 1
        content = f"{self.collection} content {self.contents}"
        put_item(self.handler, self.home, item, content, self.collection)
        self._note(item, content)

    @rule(item=st.sampled_from(ITEMS))
    def publish_the_same_again(self, item: str) -> None:
        """As an attempt that repeats does: nothing changes, whatever came between."""
        first = next((text for _, (name, text) in self.links.items() if name == item), None)
        if first is not None:
            put_item(self.handler, self.home, item, first, self.collection, again=True)

    @rule(item=st.sampled_from(ITEMS))
    def unpublish(self, item: str) -> None:
        if self._act("withdraw", item):
            self.numbers[item] += 1
            self.shown[item] = None

    @rule(item=st.sampled_from(ITEMS))
    def restore(self, item: str) -> None:
        if self._act("restore", item):
            self._note(item, self.shows[item, self._last_shown(item)])

    @rule(item=st.sampled_from(ITEMS), number=st.integers(1, 8))
    def roll_back(self, item: str, number: int) -> None:
        if self._act("rollback", item, number=number):
            self._note(item, self.shows[item, number])

    @rule(days=st.sampled_from([1, 4, 6, 11]))
    def pass_time_and_purge(self, days: int) -> None:
        with connect(self.url, None) as login:
            login.execute("update app.former_publications set hidden_at = hidden_at - %s", [days * DAY])
        asyncio.run(self._purge())

    @invariant()
    def the_catalog_is_what_is_published(self) -> None:
        with connect(self.url, None) as login:
            assert check(login) == []
            rows = "select split_part(key, '/', 2), source::text from app.current_publications where key like %s"
            found: dict[str, str] = dict(login.execute(rows, [f"{self.collection}/%"]).fetchall())
        shown = {item: content for item, content in self.shown.items() if content is not None}
        assert found.keys() == shown.keys()
        for item, publication in found.items():
            self.links[publication] = (item, shown[item])

    @invariant()
    def nothing_is_orphaned_missing_or_damaged(self) -> None:
        with closing(PostgresRecords(self.url)) as records:
            assert list(Audit(open_tiers(self.settings), records).find(checksums=True)) == []

    @invariant()
    def every_link_gives_its_bytes_or_is_gone(self) -> None:
        asyncio.run(self._follow_links())

    def _act(self, action: ItemAct, item: str, **given: Any) -> bool:
        """Whether it was done; what is refused must change nothing."""
        try:
            done = act(self.handler, action, self.collection, item, By(actor="ann", reason="why"), **given)
        except (Conflict, NotFound):
            return False
        assert done.number == self.numbers[item] + 1
        return True

    def _note(self, item: str, content: str) -> None:
        self.numbers[item] = self.numbers.get(item, 0) + 1
        self.shows[item, self.numbers[item]] = self.shown[item] = content

    def _last_shown(self, item: str) -> int:
        return max(number for name, number in self.shows if name == item)

    async def _purge(self) -> None:
        async with open_purge(self.settings, self.url, 90 * DAY) as purge:
            async for _ in purge.batches():
                pass

    async def _follow_links(self) -> None:
        reads = PostgresReads(self.url, None, name="a test", connections=1)  # type: ignore[arg-type]  # no results
        await reads.open()
        try:
            for publication, (item, content) in self.links.items():
                await self._follow(reads.files(), publication, item, content)
        finally:
            await reads.close()

    async def _follow(self, files: PostgresFiles, publication: str, item: str, content: str) -> None:
        try:
            file = await files.find(publication, "dem.tif")
        except Gone:
            assert self.shown[item] != content, "what is shown is never gone"
            return
        assert file
        assert b"".join(open_tiers(self.settings).stream(file.address)).decode() == content
        assert self.shown[item] is not None, "what is withdrawn is gone"


@pytest.fixture
def ledger(catalog_url: str, tmp_path: Path) -> Iterator[type[Ledger]]:
    Ledger.url, Ledger.home = catalog_url, tmp_path
    yield Ledger
    Ledger.round = 0


@pytest.mark.parametrize(("rounds", "steps"), [(3, 14), pytest.param(25, 40, marks=pytest.mark.slow)])
def test_p5_c3_in_any_order_links_and_catalog_hold(ledger: type[Ledger], rounds: int, steps: int) -> None:
    wanted = settings(
        max_examples=rounds, stateful_step_count=steps, deadline=None, derandomize=True, database=None,
        suppress_health_check=[HealthCheck.too_slow],
    )  # fmt: skip
    run_state_machine_as_test(ledger, settings=wanted)


def test_retention_and_restore_at_once_leave_the_item_whole_or_expired(catalog_url: str, tmp_path: Path) -> None:
    """The key is locked by both: retention passes over one that another holds, and removes nothing that is shown."""
    expire = "select app.expire_publications('5 days', '5 days', 10)"
    with connect(catalog_url, Role.HANDLER) as handler, connect(catalog_url, None) as login:
        ensure_collection(handler, CollectionFacts(id="heights"))
        put_item(handler, tmp_path, "dem", "aaa")
        act(handler, "withdraw", "heights", "dem", By(actor="ann"))
        login.execute("update app.former_publications set hidden_at = hidden_at - interval '6 days'")
        with connect(catalog_url, None) as other, other.transaction():
            other.execute("select from app.publication_keys for update")
            assert login.execute(expire).fetchone() == (0,)
        assert act(handler, "restore", "heights", "dem", By(actor="ann")).number == 3
        assert login.execute(expire).fetchone() == (0,), "what is shown stays"
        act(handler, "withdraw", "heights", "dem", By(actor="ann"))
        login.execute("update app.former_publications set hidden_at = hidden_at - interval '6 days'")
        assert login.execute(expire).fetchone() == (1,)
        with pytest.raises(AnabranchError) as caught:
            act(handler, "restore", "heights", "dem", By(actor="ann"))
        assert caught.value.code == "publication.expired"
