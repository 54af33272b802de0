"""A tier in a folder: objects appear whole and durable, paths stay inside, and links are refused (S3, W7)."""

import errno
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from hashlib import sha256
from itertools import count, islice
from pathlib import Path
from typing import BinaryIO

from anabranch.adapters.objects.errors import changed, exists, leads_out, no_container, not_found, translate
from anabranch.adapters.objects.staging import StagedFile, clear_staged
from anabranch.storage.addresses import RESERVED_FOLDER
from anabranch.storage.fsync import fsync
from anabranch.storage.tiers import Downloaded, Page, Stat, Stored

__all__ = ["Folder"]

INCOMING_FOLDER = ".incoming"
PIECE_BYTES = 2**20
MAX_TRIES = 100
NO_LINK_ERRNOS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)


class Folder:
    """A Tier on a local folder, which is made when it is needed."""

    def __init__(self, root: Path, name: str = "", *, ours: bool = True) -> None:
        """Keep objects below this folder, which is made where it is `ours`; the name is the tier's, for messages."""
        self._root = root
        self._name = name
        self._container = None if ours else _container(root)

    def stat(self, key: str) -> Stat:
        with self._open(key) as file:
            return _stat(key, os.fstat(file.fileno()))

    def media_type(self, key: str) -> str | None:
        self.stat(key)
        return None

    def list(self, folder: str = "", *, after: str = "", limit: int = 1_000) -> Page:
        return tuple(islice(self._below(folder, after), limit))

    def walk(self, folder: str = "") -> Iterator[Stat]:
        return self._below(folder, "")

    def stream(self, key: str, start: int = 0, length: int | None = None, *, tag: str | None = None) -> Iterator[bytes]:
        file = self._open(key)  # now, and not with the first piece: who asks for what is not there hears it at once
        return self._close_after(key, file, self._pieces(key, file, start, length), tag)

    def download(self, key: str, target: Path) -> Downloaded:
        digest = sha256()
        with self._open(key) as source, target.open("wb") as file:
            before = _stat(key, os.fstat(source.fileno()))
            for piece in self._pieces(key, source, 0, before.size + 1):  # it may grow as fast as it is read
                digest.update(piece)
                file.write(piece)
            if _stat(key, os.fstat(source.fileno())) != before or file.tell() != before.size:
                raise changed(self._name, key)
        return Downloaded(before, digest.hexdigest())

    def upload(self, key: str, source: Path, *, if_absent: bool = False, media_type: str | None = None) -> Stored:
        with source.open("rb") as file:
            return self._write(key, iter(lambda: file.read(PIECE_BYTES), b""), if_absent)

    def put(self, key: str, data: bytes, *, if_absent: bool = False, media_type: str | None = None) -> Stored:
        return self._write(key, iter((data,)), if_absent)

    def delete(self, keys: Sequence[str]) -> None:
        for key in keys:
            with translate(self._name, key):
                path = self._path(key)
                with suppress(FileNotFoundError, NotADirectoryError, IsADirectoryError):
                    path.unlink()
                self._prune(path.parent)

    def locate(self, key: str) -> Path | None:
        self.stat(key)
        return self._path(key)

    def begin(self) -> StagedFile:
        self._require()
        return StagedFile(self._root / INCOMING_FOLDER, self._place_new)

    def clear(self) -> None:
        clear_staged(self._root / INCOMING_FOLDER)

    def _below(self, folder: str, after: str) -> Iterator[Stat]:
        with translate(
            self._name, folder
        ):  # now, and not with the first object: what can't be listed is reported at once
            self._require()
            path, prefix = (self._path(folder), f"{folder}/") if folder else (self._root, "")
        return self._translate_all(folder, _walk(path, prefix, after))

    def _translate_all(self, folder: str, found: Iterator[Stat]) -> Iterator[Stat]:
        with translate(self._name, folder):
            yield from found

    def _write(self, key: str, pieces: Iterator[bytes], if_absent: bool) -> Stored:
        with translate(self._name, key):
            path, digest, size = self._path(key), sha256(), 0
            if if_absent and path.exists():
                raise exists(self._name, key)
            aside = StagedFile(self._root / INCOMING_FOLDER, self._place_new if if_absent else self._place)
            try:
                for piece in pieces:
                    digest.update(piece)
                    size += len(piece)
                    aside.write(piece)
                if not aside.keep(key):
                    raise exists(self._name, key)
            finally:
                aside.discard()
        return Stored(size, digest.hexdigest())

    def _place(self, aside: Path, key: str) -> bool:
        """Put a whole file under a key, in place of what was there."""
        path = self._path(key)
        self._in_folder(path, lambda: aside.replace(path))
        return True

    def _place_new(self, aside: Path, key: str) -> bool:
        """Put a whole file under a key where there is none; of several that try at once, one does."""
        path = self._path(key)
        try:
            self._in_folder(path, lambda: os.link(aside, path))
        except FileExistsError:
            return False
        except OSError as error:
            if error.errno not in NO_LINK_ERRNOS:
                raise
            return not path.exists() and self._place(aside, key)
        return True

    def _in_folder(self, path: Path, act: Callable[[], object]) -> None:
        """Act in the folder of a path, and make that durable; a delete may remove the folder meanwhile."""
        for tries in count(1):
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                act()
                break
            except FileNotFoundError:
                if tries == MAX_TRIES:
                    raise
        for folder in path.parents:
            fsync(folder)
            if folder == self._root.resolve():
                return

    def _prune(self, folder: Path) -> None:
        """Remove folders that have become empty."""
        while folder != self._root.resolve():
            try:
                folder.rmdir()
            except OSError:
                return
            folder = folder.parent

    def _open(self, key: str) -> BinaryIO:
        with translate(self._name, key):
            handle = os.open(self._path(key), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            if not _is_file(
                os.fstat(handle)
            ):  # before it is a file of Python's, which refuses folders and leaves them open
                os.close(handle)
                raise not_found(self._name, key)
            return os.fdopen(handle, "rb")

    def _pieces(self, key: str, file: BinaryIO, start: int, length: int | None) -> Iterator[bytes]:
        with translate(self._name, key):
            file.seek(start)
            left = length
            while piece := file.read(PIECE_BYTES if left is None else min(left, PIECE_BYTES)):
                yield piece
                left = None if left is None else left - len(piece)

    def _close_after(self, key: str, file: BinaryIO, pieces: Iterator[bytes], tag: str | None) -> Iterator[bytes]:
        with file:
            self._require_tag(key, file, tag)
            held = b""
            for piece in pieces:
                if held:
                    yield held
                held = piece
            self._require_tag(key, file, tag)  # it may have been written to in place: the reader misses the end
            if held:
                yield held

    def _require_tag(self, key: str, file: BinaryIO, tag: str | None) -> None:
        if tag is not None and _stat(key, os.fstat(file.fileno())).tag != tag:
            raise changed(self._name, key)

    def _require(self) -> None:
        """Refuse an operator's folder that is not there: a new one would hide behind a mount that comes back."""
        if self._container and not self._container.is_dir():
            raise no_container(self._name)

    def _path(self, key: str) -> Path:
        """The path of a key; none of its segments may be a link, or lead to what is on its way."""
        self._require()
        root = self._root.resolve()
        path = root / key
        inside = path.is_relative_to(root) and path != root and path.relative_to(root).parts[0] != INCOMING_FOLDER
        if not inside or path.resolve() != path:
            raise leads_out(self._name, key)
        return path


def _container(root: Path) -> Path:
    """The folder that an operator makes: a root in the reserved folder of a tier is below it."""
    outer = [folder.parent for folder in (root, *root.parents) if folder.name == RESERVED_FOLDER]
    return outer[-1] if outer else root


def _walk(folder: Path, prefix: str, after: str) -> Iterator[Stat]:
    """Every file below a folder in the order of its key, those up to `after` left out without looking at them."""
    for name in _scan(folder, prefix):
        key = prefix + name
        if name.endswith("/"):
            if key > after or after.startswith(key):
                yield from _walk(folder / name, key, after)
        elif key > after:
            with suppress(FileNotFoundError):
                yield _stat(key, os.lstat(f"{folder}/{name}"))


def _scan(folder: Path, prefix: str) -> list[str]:
    """The names in a folder that is read once, in the order of their keys; none where it is gone, or is a file."""
    try:
        with os.scandir(folder) as entries:
            return sorted(filter(None, (_name(entry, prefix) for entry in entries)))
    except (FileNotFoundError, NotADirectoryError):
        return []


def _name(entry: os.DirEntry[str], prefix: str) -> str | None:
    """The name of an entry, with a slash behind that of a folder; None where nothing can be addressed."""
    try:
        entry.name.encode()
    except UnicodeEncodeError:
        return None
    if prefix + entry.name in (INCOMING_FOLDER, RESERVED_FOLDER):
        return None
    if entry.is_dir(follow_symlinks=False):
        return f"{entry.name}/"
    return entry.name if entry.is_file(follow_symlinks=False) else None


def _stat(key: str, found: os.stat_result) -> Stat:
    tag = f"{found.st_ino:x}-{found.st_mtime_ns:x}-{found.st_ctime_ns:x}-{found.st_size:x}"
    return Stat(key, found.st_size, datetime.fromtimestamp(found.st_mtime, UTC), tag)


def _is_file(found: os.stat_result) -> bool:
    return stat.S_ISREG(found.st_mode)
