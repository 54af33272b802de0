"""Passwords and tokens that a file or a command gives, asked for again when they are old or were refused (S5)."""

import os
import selectors
import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from pathlib import Path

from anabranch.errors import Unavailable

__all__ = ["Passwords"]

COMMAND_SECONDS = 30.0
MAX_PASSWORD_BYTES = 65_536  # tokens have a few thousand
REFUSED_SECONDS = 1.0  # at most this often it is asked again because a server refused what it gave
# The variables by which a command learns which password is wanted, as PostgreSQL's own programs name them.
VARIABLES = {"host": "PGHOST", "port": "PGPORT", "user": "PGUSER", "dbname": "PGDATABASE"}
REMEDY = "It must print the password of PGUSER and nothing else; run it by hand as the user of this process."


@dataclass
class Passwords:
    """Gives the passwords of logins: from a file, or a folder with a file for each user; otherwise from a command.

    A file is read for each connection. What a command printed is kept for some seconds.
    """

    file: Path | None
    command: str | None = field(default=None, repr=False)
    seconds: float = 300
    _kept: dict[tuple[str, ...], tuple[float, str]] = field(default_factory=dict, repr=False, compare=False)
    _asked_again: dict[tuple[str, ...], float] = field(default_factory=dict, repr=False, compare=False)
    _failed: dict[tuple[str, ...], tuple[float, str]] = field(default_factory=dict, repr=False, compare=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    def __reduce__(self) -> tuple[object, ...]:
        """What was asked for stays in its process."""
        return Passwords, (self.file, self.command, self.seconds)

    def read(self, login: Mapping[str, str], refused: str | None = None) -> str:
        """The password of a login, given as libpq's parameters; another one than was refused, if there is one."""
        if self.file:
            return _read_file(self.file / login.get("user", "") if self.file.is_dir() else self.file)
        key = tuple(login.get(name, "") for name in VARIABLES)
        began = time.monotonic()
        with self._lock:  # of several connections that need it, one asks
            failed_at, reason = self._failed.get(key, (-inf, ""))
            if failed_at > began:
                raise _failed(reason)
            at, known = self._kept.get(key, (-inf, ""))
            now = time.monotonic()
            is_refused = known == refused and now >= self._asked_again.get(key, -inf) + REFUSED_SECONDS
            if is_refused:
                self._asked_again[key] = now
            if is_refused or now >= at + self.seconds:
                try:
                    known = self._run(login)
                except Unavailable as error:
                    self._failed[key] = time.monotonic(), error.message
                    raise
                self._kept[key] = now, known
            return known

    def known(self) -> list[str]:
        """What must not be shown."""
        return [password for _, password in self._kept.values()]

    def _run(self, login: Mapping[str, str]) -> str:
        ours = {variable: login[name] for name, variable in VARIABLES.items() if login.get(name)}
        try:
            # What it says of errors is not kept: it may hold a secret.
            process = subprocess.Popen(
                shlex.split(self.command or ""), env={**os.environ, **ours}, start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            )  # fmt: skip
        except (OSError, ValueError):
            raise _no_password("it can't be run") from None
        printed = _read_printed(process)
        if printed is None:
            raise _no_password(f"it did not end within {COMMAND_SECONDS:g} s")
        if len(printed) > MAX_PASSWORD_BYTES:
            raise _no_password(f"it printed more than {MAX_PASSWORD_BYTES} bytes")
        if process.returncode:
            raise _no_password(f"it ended with status {process.returncode}")
        try:
            password = printed.decode().rstrip("\r\n")
        except UnicodeDecodeError:
            raise _no_password("what it printed is not UTF-8") from None
        if not password:
            raise _no_password("it printed nothing")
        return password


def _read_printed(process: "subprocess.Popen[bytes]") -> bytes | None:
    """What a command prints until it ends, up to one byte too many; None if that takes too long.

    One that is not over is killed with what it began, which may keep its output open.
    """
    deadline = time.monotonic() + COMMAND_SECONDS
    printed, is_over = b"", False
    with process, selectors.DefaultSelector() as waiting:
        output = process.stdout.fileno() if process.stdout else -1
        waiting.register(output, selectors.EVENT_READ)
        try:
            while len(printed) <= MAX_PASSWORD_BYTES and not is_over:
                if not waiting.select(max(0.0, deadline - time.monotonic())):
                    return None
                piece = os.read(output, MAX_PASSWORD_BYTES + 1)
                printed, is_over = printed + piece, not piece
            if is_over:
                process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            return None
        finally:
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)
    return printed


def _read_file(file: Path) -> str:
    try:
        password = file.read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise _failed(f"the password of the database can't be read from {file}: {reason}", "") from None
    if not password:
        raise _failed(f"the password of the database can't be read from {file}: it is empty", "")
    return password


def _no_password(reason: str) -> Unavailable:
    return _failed(f"the command for the password of the database gave none: {reason}")


def _failed(message: str, remedy: str = REMEDY) -> Unavailable:
    return Unavailable("database.password", message, remedy=remedy or "Fix ANABRANCH_DATABASE_PASSWORD_FILE.")
