"""A reader of releases who never stops, and holds each answer against what was published just then.

The history of an item is read before and after each request. The answer must show one of the states that the item had
in between: so nothing is visible before its approval or after its revoke, and what is shown is not hidden (P5, P6).
"""

import asyncio
import hashlib
import re
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import psycopg
from psycopg.rows import TupleRow

from tests.support.waiting import PATIENCE_SECONDS

__all__ = ["ReleaseReader", "WatchedRelease", "reading"]

HISTORY = """
    select p.number, case when p.action <> 'withdraw' then s.number end, s.id::text, f.name, f.sha256
      from app.publications p
      join app.publications s on s.id = p.source
      left join app.published_files f on f.publication = s.id and f.kind = 'cog'
     where p.kind = 'item' and p.key = %s order by p.number"""
PUBLICATION = re.compile(r"/files/p/([0-9a-f-]{36})/")
ABSENT = (404, 410)
AWAY = (429, 502, 503, 504)
# The API knows for a second which collections a platform may see: the first item of a new one is found after that.
NEW_SECONDS = 1.5
# Files that another publication replaced while the item was read are left out of it.
WITHOUT_FILES = "an item without files"


@dataclass(frozen=True)
class WatchedRelease:
    """A release that may be shown at times: where it is read, and which content each publication brought."""

    data_type: str
    collection: str
    item_id: str
    table: str
    point: tuple[float, float]
    contents: Mapping[int, int]
    """By the number of the publication."""


@dataclass(frozen=True)
class State:
    """What an item showed at a time; `shown` is the number of the publication that brought it, or nothing."""

    number: int
    shown: int | None
    publication: str
    file: str | None
    sha256: str | None


NOTHING = State(0, None, "", None, None)


@dataclass
class ReleaseReader:
    """Polls the catalog, files, tiles and features of releases."""

    http: httpx.AsyncClient
    database_url: str
    pause: float
    """Seconds between two rounds."""
    releases: list[WatchedRelease] = field(default_factory=list)
    seen: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    _since: dict[tuple[str, int], float] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _connection: psycopg.Connection[TupleRow] | None = None

    async def run(self) -> None:
        """Read until somebody cancels it."""
        while True:
            for release in list(self.releases):
                await self.read(release)
            await asyncio.sleep(self.pause)

    async def read(self, release: WatchedRelease) -> None:
        """Read a release by every way there is."""
        item = f"{release.collection}/items/{release.item_id}"
        known = await self.history(release)
        await self._try(release, "stac", f"/stac/collections/{item}")
        search = f"/stac/search?collections={release.collection}&ids={release.item_id}"
        await self._try(release, "search", search)
        if release.data_type == "vector":
            await self._try(release, "features", f"/features/collections/{release.table}/items")
            return
        lon, lat = release.point
        await self._try(release, "raster", f"/raster/collections/{item}/point/{lon},{lat}")
        files = {state.publication: state for state in known if state.file}
        for state in files.values():
            await self._try(release, "file", f"/files/p/{state.publication}/{state.file}", state)
        if files:
            name = next(iter(files.values())).file
            await self._try(release, "current", f"/files/current/{release.collection}/{release.item_id}/{name}")

    async def history(self, release: WatchedRelease) -> list[State]:
        """What the item showed so far, when the database answers again."""
        key = f"{release.collection}/{release.item_id}"
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                try:
                    rows = await asyncio.to_thread(self._ask, key)
                except psycopg.OperationalError:
                    self.close()
                    await asyncio.sleep(0.1)
                else:
                    states = [NOTHING, *(State(*row) for row in rows)]
                    self._since.setdefault((release.item_id, states[-1].number), time.monotonic())
                    return states

    def _ask(self, key: str) -> list[Any]:
        with self._lock:
            if self._connection is None:
                self._connection = psycopg.connect(self.database_url, autocommit=True, connect_timeout=5)
            return self._connection.execute(HISTORY, [key]).fetchall()

    def close(self) -> None:
        """Close the connection to the database; the next question opens another."""
        with self._lock:
            if self._connection:
                self._connection.close()
            self._connection = None

    async def _try(self, release: WatchedRelease, way: str, path: str, file: State | None = None) -> None:
        before, began = await self.history(release), time.monotonic()
        try:
            answer = await self.http.get(path)
        except httpx.TransportError:
            self.seen["no answer"] += 1
            return
        if answer.status_code in AWAY:
            self.seen["no answer"] += 1
            return
        possible = (await self.history(release))[len(before) - 1 :]
        found = _read_answer(way, answer)
        if found is None:
            is_new = began - self._since[release.item_id, possible[0].number] < NEW_SECONDS
            fits = is_new or any(state.shown is None for state in possible)
        elif found == WITHOUT_FILES:
            fits = len(possible) > 1
        else:
            fits = any(_fits(release, way, found, state, file) for state in possible if state.shown is not None)
        self.seen[f"{way}: {'nothing' if found is None else 'shown'}"] += 1
        if not fits:
            states = [(state.number, state.shown, state.publication) for state in possible]
            self.wrong.append(f"{path} answered {answer.status_code}, {found!r}, and was {states}")


def _read_answer(way: str, answer: httpx.Response) -> str | None:
    """What identifies the content that was shown; nothing where nothing was."""
    if answer.status_code in ABSENT:
        return None
    if answer.status_code not in (200, 302):
        return f"{answer.status_code}: {answer.text[:500]}"
    match way:
        case "search":
            return str(len(answer.json()["features"])) if answer.json()["features"] else None
        case "raster":
            return str(round(answer.json()["values"][0] // 1000))
        case "features":
            return str(answer.json()["features"][0]["properties"]["content"])
        case "file":
            return hashlib.sha256(answer.content).hexdigest()
        case _:
            link = answer.headers.get("location", "") if way == "current" else answer.text
            named = PUBLICATION.search(link)
            return named[1] if named else WITHOUT_FILES


def _fits(release: WatchedRelease, way: str, found: str, state: State, file: State | None) -> bool:
    """Whether that is what a state shows; files of what was shown before go on being there (P5)."""
    match way:
        case "search":
            return found == "1"
        case "raster" | "features":
            return found == str(release.contents[state.shown or 0])
        case "file":
            return file is not None and found == file.sha256
        case _:
            return found == state.publication


@asynccontextmanager
async def reading(url: str, key: str, database_url: str, pause: float) -> AsyncIterator[ReleaseReader]:
    """A reader that reads until the end of the context, with this key."""
    headers = {"Authorization": f"Bearer {key}"}
    async with httpx.AsyncClient(base_url=url, headers=headers, timeout=30, trust_env=False) as http:
        reader = ReleaseReader(http, database_url, pause)
        task = asyncio.create_task(reader.run())
        try:
            yield reader
        finally:
            task.cancel()
            done = await asyncio.gather(task, return_exceptions=True)
            reader.close()
        assert isinstance(done[0], asyncio.CancelledError), done[0]
