"""What both peers share: a driver that starts worker processes, submits no-op tasks when told to, and times them.

It speaks by lines: `ready` when the workers are warm; then for each number of tasks on stdin, the seconds they took.
"""

import asyncio
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from urllib.parse import parse_qsl, unquote, urlsplit

WARM_TASKS = 500


def dsn(url: str) -> str:
    """The URL in a form that every driver reads, with a socket's folder as a parameter."""
    parts = urlsplit(url)
    user, _, place = parts.netloc.rpartition("@")
    host, _, port = place.rpartition(":") if ":" in place else (place, "", "5432")
    more = "".join(f"&{name}={value}" for name, value in parse_qsl(parts.query))
    return f"postgresql://{user}@/{parts.path.lstrip('/')}?host={unquote(host)}&port={port}{more}"


async def drive(
    script: str,
    url: str,
    workers: int,
    submit: Callable[[int], Awaitable[object]],
    is_done: Callable[[], Awaitable[bool]],
) -> None:
    """Start the workers (`script URL worker`), warm them, and measure until stdin ends."""
    processes = [_start(script, url) for _ in range(workers)]
    try:
        await asyncio.sleep(2)
        for _ in range(2):
            await _measure(WARM_TASKS, submit, is_done)
        _say("ready")
        while line := await asyncio.to_thread(sys.stdin.readline):
            _say(await _measure(int(line), submit, is_done))
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()


def _start(script: str, url: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, script, url, "worker"], stdin=subprocess.DEVNULL)


async def _measure(
    tasks: int, submit: Callable[[int], Awaitable[object]], is_done: Callable[[], Awaitable[bool]]
) -> float:
    begun = time.monotonic()
    await submit(tasks)
    while not await is_done():  # noqa: ASYNC110  the end is in the database, and no event
        await asyncio.sleep(max(0.001, (time.monotonic() - begun) / 100))
    return time.monotonic() - begun


def _say(what: object) -> None:
    sys.stdout.write(f"{what}\n")
    sys.stdout.flush()
