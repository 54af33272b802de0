"""The data folder of one stack: its lock, and the records by which other processes find the stack."""

import fcntl
import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from anabranch.embedded.processes import Process, alive, boot_id
from anabranch.errors import Conflict, InputError

__all__ = ["CHILD_MARK", "STACK_MARK", "Child", "Home", "Stack", "conflict"]

# Every process of a stack carries the first in its environment, and one child with all its descendants the second:
# that is how they are found when there is no other record of them.
STACK_MARK = "ANABRANCH_STACK_ID"
CHILD_MARK = "ANABRANCH_CHILD_ID"


@dataclass(frozen=True)
class Child:
    """A process of the stack and what it is for."""

    role: str
    process: Process


@dataclass(frozen=True)
class Stack:
    """The stack that runs in a home, as its supervisor recorded it."""

    boot: str
    supervisor: Process
    api_url: str | None = None
    database_url: str | None = None
    cluster: Process | None = None
    children: tuple[Child, ...] = ()
    plugins: tuple[str, ...] = ()


class Home:
    """One data folder; created when it is first locked."""

    def __init__(self, path: Path) -> None:
        self.path = Path(os.path.realpath(path))
        self.logs = self.path / "logs"
        self._stack_file = self.path / "run" / "stack.json"
        self._key_file = self.path / "run" / "key"
        self._cluster_file = self.path / "cluster.json"
        self._elsewhere_file = self.path / "elsewhere"
        self._port_file = self.path / "port"
        self._restore_file = self.path / "restoring"
        self._lock: int | None = None

    @property
    def stack_id(self) -> str | None:
        """The id that marks this home's processes; None before first use."""
        text = _read(self.path / "id")
        # The inode gives a copied home its own id, so that it never claims the original's processes.
        return f"{text.strip()}-{self.path.stat().st_ino}" if text else None

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the home, and release it at the end."""
        self.acquire()
        try:
            yield
        finally:
            self.release()

    def acquire(self) -> None:
        """Lock the home until `release` or the end of the process; a second call does nothing; Conflict if locked."""
        if self._lock is not None:
            return
        self._make()
        # Python's descriptors close on exec, so no child can hold the lock after the supervisor is gone.
        lock = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(lock)
            raise conflict(self) from error
        self._lock = lock
        if self.stack_id is None:
            _write(self.path / "id", secrets.token_hex(16))

    def release(self) -> None:
        """Release the lock."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def read_stack(self) -> Stack | None:
        """The stack that runs here now; None if its supervisor is gone."""
        stack = self.last_stack()
        return stack if stack and alive(stack.supervisor) else None

    def last_stack(self) -> Stack | None:
        """The stack that was last started here in this boot and not stopped cleanly, alive or not.

        Conflict: the home is a copy of one whose stack still runs.
        """
        try:
            record = json.loads(_read(self._stack_file))
            stack, path, inode = _parse(record), record["home"], record["inode"]
        except (KeyError, TypeError, ValueError):
            return None
        if stack.boot != boot_id():
            return None
        if inode == self._inode():
            return stack
        if alive(stack.supervisor):
            raise self._copied(path, stack)
        return None

    def write_stack(self, stack: Stack) -> None:
        """Record the running stack, with the path and inode of this home."""
        here = {"home": str(self.path), "inode": self._inode()}
        _write(self._stack_file, json.dumps({**here, **asdict(stack)}, indent=1))

    def clear_stack(self) -> None:
        """Record that no stack runs here."""
        self._stack_file.unlink(missing_ok=True)

    def read_key(self) -> str | None:
        """The key for commands of this home, if its stack requires keys."""
        return _read(self._key_file) or None

    def write_key(self, key: str) -> None:
        """Store a key for the commands of this home, readable by its owner only."""
        _write(self._key_file, key)

    def clear_key(self) -> None:
        """Remove the key."""
        self._key_file.unlink(missing_ok=True)

    def read_port(self) -> int | None:
        """The port that links of this home have, where it is not the configured one."""
        text = _read(self._port_file).strip()
        return int(text) if text.isascii() and text.isdecimal() and int(text) < 2**16 else None

    def write_port(self, port: int) -> None:
        """Record the port of links that were printed."""
        _write(self._port_file, str(port))

    def read_cluster_folders(self) -> dict[str, Path]:
        """The folders of the cluster that are not inside the home, by name."""
        try:
            return {name: Path(folder) for name, folder in json.loads(_read(self._cluster_file)).items()}
        except (AttributeError, ValueError):
            return {}

    def write_cluster_folders(self, folders: dict[str, Path]) -> None:
        """Record the folders of the cluster that are not inside the home."""
        _write(self._cluster_file, json.dumps({name: str(folder) for name, folder in folders.items()}))

    @property
    def serves_elsewhere(self) -> bool:
        """Whether a stack ran here with an external database, which may still refer to files in this home."""
        return self._elsewhere_file.exists()

    def mark_elsewhere(self) -> None:
        """Record that one did; the record outlives the stack, because the database does."""
        self._elsewhere_file.touch(mode=0o600)

    def clear_elsewhere(self) -> None:
        """Record that no files are left here that such a database may refer to."""
        self._elsewhere_file.unlink(missing_ok=True)

    def read_restore(self) -> str | None:
        """What `begin_restore` recorded of the restore that goes on here, or was interrupted."""
        return _read(self._restore_file) or None

    def begin_restore(self, mark: str) -> None:
        """Record that a restore with this mark goes on here: until it ends, no stack starts."""
        _write(self._restore_file, mark)

    def end_restore(self) -> None:
        """Record that it was."""
        self._restore_file.unlink(missing_ok=True)

    def require_restored(self) -> None:
        """Refuse a home in which a restore was interrupted."""
        if self.read_restore():
            raise Conflict(
                "home.restoring",
                f"a backup is being restored into {self.path}, or that was interrupted",
                remedy="Run the same `anabranch restore` again; it continues.",
            )

    def _inode(self) -> list[int]:
        # It stays the same when the home is renamed, and differs in a copy.
        found = self.path.stat()
        return [found.st_dev, found.st_ino]

    def _copied(self, original: str, stack: Stack) -> Conflict:
        return Conflict(
            "home.copied",
            f"{self.path} is a copy of {original}, whose stack runs: pid {stack.supervisor.pid}",
            remedy=f"Set ANABRANCH_HOME to {original}; the copy can be used when that stack has stopped.",
        )

    def _make(self) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            for folder in (self.path, self.logs, self._stack_file.parent):
                folder.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise InputError(
                "home.unusable",
                f"{self.path} can't be used as the data folder: {error.strerror}",
                remedy="Set ANABRANCH_HOME to a folder that you own.",
            ) from error


def conflict(home: Home) -> Conflict:
    """The error for a home that is in use."""
    stack = home.read_stack()
    what = (
        f"a stack is already running in {home.path}: {stack.api_url or 'still starting'}, pid {stack.supervisor.pid}"
        if stack
        else f"another process is starting or stopping the stack in {home.path}"
    )
    return Conflict(
        "stack.running", what, remedy="Use it, stop it with `anabranch down`, or set ANABRANCH_HOME to another folder."
    )


def _read(path: Path) -> str:
    """The content of a file; empty if there is none."""
    try:
        return path.read_text()
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except PermissionError as error:
        raise InputError(
            "home.unusable",
            f"{path} belongs to another user",
            remedy="Run this as that user, or set ANABRANCH_HOME to a folder that you own.",
        ) from error


def _write(path: Path, text: str) -> None:
    """Replace a file atomically and durably."""
    new = path.with_name(f"{path.name}.new")
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600), "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)


def _parse(data: Any) -> Stack:  # what json.loads gave
    return Stack(
        boot=str(data["boot"]),
        supervisor=Process(**data["supervisor"]),
        api_url=data["api_url"],
        database_url=data["database_url"],
        cluster=Process(**data["cluster"]) if data["cluster"] else None,
        children=tuple(Child(child["role"], Process(**child["process"])) for child in data["children"]),
        plugins=tuple(data.get("plugins", ())),
    )
