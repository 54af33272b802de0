"""Passwords and tokens that a file or a command gives, asked for again when they are old or were refused (S5)."""

import os
import shlex
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
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    def __reduce__(self) -> tuple[object, ...]:
        """What was asked for stays in its process."""
        return Passwords, (self.file, self.command, self.seconds)

    def read(self, login: Mapping[str, str], refused: str | None = None) -> str:
        """The password of a login, given as libpq's parameters; another one than was refused, if there is one."""
        if self.file:
            return _read_file(self.file / login.get("user", "") if self.file.is_dir() else self.file)
        key = tuple(login.get(name, "") for name in VARIABLES)
        with self._lock:  # of several connections that need it, one asks
            at, known = self._kept.get(key, (-inf, ""))
            now = time.monotonic()
            is_refused = known == refused and now >= self._asked_again.get(key, -inf) + REFUSED_SECONDS
            if is_refused:
                self._asked_again[key] = now
            if is_refused or now >= at + self.seconds:
                known = self._run(login)
                self._kept[key] = now, known
            return known

    def known(self) -> list[str]:
        """What must not be shown."""
        return [password for _, password in self._kept.values()]

    def _run(self, login: Mapping[str, str]) -> str:
        ours = {variable: login[name] for name, variable in VARIABLES.items() if login.get(name)}
        try:
            # What it says of errors is not kept: it may hold a secret.
            done = subprocess.run(
                shlex.split(self.command or ""), env={**os.environ, **ours}, check=False, timeout=COMMAND_SECONDS,
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            )  # fmt: skip
        except (OSError, ValueError, subprocess.TimeoutExpired) as error:
            reason = "it did not end" if isinstance(error, subprocess.TimeoutExpired) else "it can't be run"
            raise _failed(f"the command for the password of the database gave none: {reason}") from None
        password = done.stdout.rstrip("\r\n")
        if done.returncode or not password:
            what = f"it ended with status {done.returncode}" if done.returncode else "it printed nothing"
            raise _failed(f"the command for the password of the database gave none: {what}")
        return password


def _read_file(file: Path) -> str:
    try:
        password = file.read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise _failed(f"the password of the database can't be read from {file}: {reason}", "") from None
    if not password:
        raise _failed(f"the password of the database can't be read from {file}: it is empty", "")
    return password


def _failed(message: str, remedy: str = REMEDY) -> Unavailable:
    return Unavailable("database.password", message, remedy=remedy or "Fix ANABRANCH_DATABASE_PASSWORD_FILE.")
