"""A door between processes and PostgreSQL that a test can hold shut, break, or make lossy."""

import asyncio
import itertools
import math
import re
import shutil
import tempfile
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote, unquote, urlsplit

__all__ = ["Call", "Lose", "Proxy", "Trap"]

PORT = 5432
FUNCTION = re.compile(rb"app\.(\w+)\(")
Row = list[str | None]


class Lose(Enum):
    """What is lost of a call."""

    REQUEST = "the server never hears of it, and the connection is cut"
    REPLY = "the server has committed, and the connection is cut"
    SILENCE = "the server has committed, and the caller waits for ever"


@dataclass(frozen=True)
class Call:
    """A call that was answered: the function, and the first row of the answer as text."""

    function: str
    row: Row


@dataclass(eq=False)
class Trap:
    """Waits for calls of a function whose answer is as wanted, and loses them; `sprung` is set when all were."""

    function: str
    lose: Lose
    when: Callable[[Row], bool]
    left: int
    caught: list[Call] = field(default_factory=list)
    sprung: asyncio.Event = field(default_factory=asyncio.Event)

    def take(self, call: Call) -> bool:
        """Whether this call is to be lost."""
        if self.left < 1 or call.function != self.function or not self.when(call.row):
            return False
        self.left -= 1
        self.caught.append(call)
        if not self.left:
            self.sprung.set()
        return True


class Proxy:
    """Listens as a PostgreSQL would, on a Unix socket in a folder of its own, and passes messages on.

    It knows so much of the protocol as to tell which function of ours a message calls and where the answer ends.
    While it is `mute`, no notification comes through; `delay` holds every message up for so many seconds.
    """

    def __init__(self, url: str) -> None:
        """Before the server of this URL, which is reached by a socket."""
        parts = urlsplit(url)
        self._server = _socket_of(url)
        self._folder = Path(tempfile.mkdtemp(prefix="ab-proxy-"))
        user = parts.netloc.rpartition("@")[0]
        self.url = f"postgresql://{user}@{quote(str(self._folder), safe='')}:{PORT}{parts.path}"
        self.calls: Counter[str] = Counter()
        self.answers: deque[Call] = deque(maxlen=10_000)
        self.mute = False
        self.delay = 0.0
        self._traps: list[Trap] = []
        self._connections: set[_Connection] = set()
        self._numbers = itertools.count()
        self._listening: asyncio.Server | None = None
        self.requests, self.replies = asyncio.Event(), asyncio.Event()
        self.heal()

    async def __aenter__(self) -> Self:
        self._listening = await asyncio.start_unix_server(self._accept, self._folder / f".s.PGSQL.{PORT}")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._listening:
            self._listening.close()
        self.heal()
        self.cut()
        while self._connections:  # each ends by itself, once it is cut
            await asyncio.sleep(0.01)
        shutil.rmtree(self._folder)

    @property
    def connections(self) -> int:
        """How many are open."""
        return len(self._connections)

    def count_answers(self, function: str, word: str) -> int:
        """How often a word stands in the first field of the answers to calls of a function."""
        return sum(str(call.row[0]).count(word) for call in self.answers if call.function == function and call.row)

    def point_at(self, url: str) -> None:
        """Lead new connections to another server, as a name does that was changed; those that are open stay."""
        self._server = _socket_of(url)

    def stall(self, *, requests: bool = True, replies: bool = True) -> None:
        """Let nothing through any more, in one direction or both; connections stay open, and new ones hang."""
        if requests:
            self.requests.clear()
        if replies:
            self.replies.clear()

    def heal(self) -> None:
        """Let everything through, what was held back first."""
        self.requests.set()
        self.replies.set()

    def cut(self, share: float = 1) -> None:
        """Break every connection, or a share of them: the oldest."""
        oldest = sorted(self._connections, key=lambda connection: connection.number)
        for connection in oldest[: math.ceil(len(oldest) * share)]:
            connection.cut()

    def lose(
        self, function: str, what: Lose, *, times: int = 1, when: Callable[[Row], bool] = lambda _row: True
    ) -> Trap:
        """Lose the next calls of a function; for a lost request `when` sees an empty row."""
        trap = Trap(function, what, when, times)
        self._traps.append(trap)
        return trap

    def trap_for(self, call: Call, *whats: Lose) -> Trap | None:
        """The trap that takes this call."""
        return next((trap for trap in self._traps if trap.lose in whats and trap.take(call)), None)

    def is_watched(self, function: str) -> bool:
        """Whether the answer to a call must be seen whole before any of it is passed on."""
        return any(t.function == function and t.left and t.lose is not Lose.REQUEST for t in self._traps)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = _Connection(self, reader, writer, next(self._numbers))
        self._connections.add(connection)
        try:
            await connection.serve(self._server)
        finally:
            self._connections.discard(connection)


class _Connection:
    """One client's connection and the one to the server behind it."""

    def __init__(self, proxy: Proxy, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> None:
        self.number = number
        self._proxy = proxy
        self._client = reader, writer
        self._server: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._statements: dict[bytes, str] = {}
        self._asked: deque[str] = deque(["startup"])

    async def serve(self, server: Path) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            self._server = await asyncio.open_unix_connection(server)
            pumps = [asyncio.create_task(self._pass_requests()), asyncio.create_task(self._pass_replies())]
            try:
                await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for pump in pumps:
                    pump.cancel()
                await asyncio.gather(*pumps, return_exceptions=True)
        self.cut()

    def cut(self) -> None:
        for _, writer in filter(None, (self._client, self._server)):
            writer.transport.abort()

    async def _pass_requests(self) -> None:
        reader, writer = self._client[0], self._to_server
        size = await reader.readexactly(4)
        await self._forward(writer, size + await reader.readexactly(int.from_bytes(size) - 4), self._proxy.requests)
        function, held = "", b""
        while True:
            message = await _read(reader)
            held += message
            function = self._called(message) or function
            if message[:1] in b"QS":
                self._proxy.calls[function] += 1
                if self._proxy.trap_for(Call(function, []), Lose.REQUEST):
                    return
                self._asked.append(function)
                function = ""
            # The parts of one call travel together.
            if message[:1] not in b"PBDE":
                await self._forward(writer, held, self._proxy.requests)
                held = b""

    def _called(self, message: bytes) -> str:
        """The function that a message calls: by its text, or by the statement that was prepared from it."""
        kind, body = message[:1], message[5:]
        if kind == b"P":
            name, text, *_ = body.split(b"\0")
            self._statements[name] = _function_in(text)
            return ""
        if kind == b"B":
            return self._statements.get(body.split(b"\0")[1], "")
        return _function_in(body) if kind == b"Q" else ""

    async def _pass_replies(self) -> None:
        assert self._server
        reader, writer = self._server[0], self._client[1]
        held: list[bytes] = []
        row: Row = []
        while True:
            message = await _read(reader)
            if message[:1] == b"A" and self._proxy.mute:
                continue
            held.append(message)
            if message[:1] == b"D" and not row:
                row = _fields(message[5:])
            ended = message[:1] == b"Z"
            if ended and not await self._answer(Call(self._asked.popleft(), row)):
                return
            if ended or not self._asked or not self._proxy.is_watched(self._asked[0]):
                await self._forward(writer, b"".join(held), self._proxy.replies)
                held.clear()
            row = [] if ended else row

    async def _answer(self, call: Call) -> bool:
        """Note an answer; False when it is lost, once its caller has given up."""
        self._proxy.answers.append(call)
        # A call that failed has no row, and nothing of it was committed.
        trap = self._proxy.trap_for(call, Lose.REPLY, Lose.SILENCE) if call.row else None
        if trap and trap.lose is Lose.SILENCE:
            await asyncio.get_running_loop().create_future()
        return trap is None

    @property
    def _to_server(self) -> asyncio.StreamWriter:
        assert self._server
        return self._server[1]

    async def _forward(self, writer: asyncio.StreamWriter, data: bytes, gate: asyncio.Event) -> None:
        await gate.wait()
        if self._proxy.delay:
            await asyncio.sleep(self._proxy.delay)
        writer.write(data)
        await writer.drain()


async def _read(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readexactly(5)
    return head + await reader.readexactly(int.from_bytes(head[1:]) - 4)


def _socket_of(url: str) -> Path:
    return Path(unquote(urlsplit(url).netloc.rpartition("@")[2].rpartition(":")[0])) / f".s.PGSQL.{PORT}"


def _function_in(text: bytes) -> str:
    found = FUNCTION.search(text)
    return found[1].decode() if found else ""


def _fields(body: bytes) -> Row:
    fields: Row = []
    place = 2
    for _ in range(int.from_bytes(body[:2])):
        size = int.from_bytes(body[place : place + 4], signed=True)
        place += 4
        fields.append(None if size < 0 else body[place : place + size].decode("utf-8", "replace"))
        place += max(size, 0)
    return fields
