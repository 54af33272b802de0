"""The files of a backup: parts by name, and objects by their SHA-256."""

import json
import os
import re
from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from anabranch.backup.manifest import Manifest, Part, damaged, open_private
from anabranch.errors import InputError
from anabranch.storage.fsync import fsync

__all__ = ["DUMP", "KEYS", "OBJECTS", "Archive", "Copied", "line_of"]

DUMP = "database.dump"
OBJECTS = "objects.ndjson"
KEYS = "keys"
OBJECTS_FOLDER = "objects"
PIECE_BYTES = 2**20


class Copied(NamedTuple):
    """An object in a backup; its tag is that of the store that it was copied from, which may keep no media types."""

    area: str
    key: str
    size: int
    sha256: str
    tag: str
    media_type: str | None = None


class Archive:
    """The folder of a backup, readable by its owner only."""

    def __init__(self, folder: Path) -> None:
        """Nothing is made yet."""
        self.folder = folder

    def make(self) -> None:
        """Make its folders."""
        self.folder.mkdir(mode=0o700, exist_ok=True)
        self._close()
        for folder in (self.folder / KEYS, self.folder / OBJECTS_FOLDER):
            folder.mkdir(mode=0o700)
        for number in range(256):
            (self.folder / OBJECTS_FOLDER / f"{number:02x}").mkdir(mode=0o700)

    def _close(self) -> None:
        """Let only its owner into a folder that was there."""
        try:
            self.folder.chmod(0o700)
        except PermissionError as error:
            message = f"{self.folder} belongs to another user"
            raise InputError("backup.target", message, remedy="Name a folder that is new.") from error

    def write_part(self, name: str, pieces: Iterable[bytes]) -> Part:
        """Write a part, durable."""
        digest, size = sha256(), 0
        with open(self.folder / name, "xb", opener=open_private) as file:
            for piece in pieces:
                digest.update(piece)
                size += len(piece)
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())
        return Part(name=name, size=size, sha256=digest.hexdigest())

    def write_object(self, pieces: Iterable[bytes]) -> tuple[int, str]:
        """Write an object, durable, unless it is there; its size and SHA-256."""
        (self.folder / OBJECTS_FOLDER / ".new").unlink(missing_ok=True)  # of one that changed while it was read
        part = self.write_part(f"{OBJECTS_FOLDER}/.new", pieces)
        (self.folder / part.name).replace(self.path_of(part.sha256))
        return part.size, part.sha256

    def sync(self) -> None:
        """Make the names of all files durable."""
        for folder in (self.folder / OBJECTS_FOLDER).iterdir():
            fsync(folder)
        for name in (OBJECTS_FOLDER, KEYS):
            fsync(self.folder / name)

    def path_of(self, digest: str) -> Path:
        """The file of an object."""
        return self.folder / OBJECTS_FOLDER / digest[:2] / digest

    def objects(self) -> Iterator[Copied]:
        """The objects in the order in which they were copied; the list must have been verified."""
        with (self.folder / OBJECTS).open("rb") as lines:
            for line in lines:
                yield Copied(**json.loads(line))

    def verify(self, manifest: Manifest) -> None:
        """Read everything; InputError where a file is missing, cut off or changed."""
        for part in manifest.parts:
            self._verify(self.folder / part.name, part.size, part.sha256, part.name)
        for copied in self.objects():
            if not re.fullmatch("[0-9a-f]{64}", copied.sha256):
                raise damaged(self.folder, f"{OBJECTS} has no hash for {copied.area}://{copied.key}")
            if copied.area not in manifest.areas:
                raise damaged(self.folder, f"{OBJECTS} has an object of an area that it is without")
            self._verify(self.path_of(copied.sha256), copied.size, copied.sha256, f"{copied.area}://{copied.key}")

    def _verify(self, file: Path, size: int, digest: str, what: str) -> None:
        try:
            if file.stat().st_size != size:
                raise damaged(self.folder, f"{what} has {file.stat().st_size} bytes, and had {size}")
            with file.open("rb") as opened:
                total = sha256()
                while piece := opened.read(PIECE_BYTES):
                    total.update(piece)
        except OSError as error:
            raise damaged(self.folder, f"{what} can't be read: {error.strerror}") from error
        if total.hexdigest() != digest:
            raise damaged(self.folder, f"{what} has another content")


def line_of(copied: Copied) -> bytes:
    """The line of an object in the list."""
    return json.dumps(copied._asdict()).encode() + b"\n"
