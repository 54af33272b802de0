"""Opens untrusted ZIP archives within limits: count, sizes, ratio, and names that stay in their folder (S4)."""

import stat
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import NoReturn

from anabranch.errors import Permanent
from anabranch.redaction import show_text

__all__ = ["Archive", "ArchiveLimits", "list_names", "open_archive"]

MB = 2**20
MAX_LISTED = 10
MAX_NAME_BYTES = 200  # of a file or folder
MIN_RATIO_BYTES = 64 * MB
PIECE_BYTES = MB
METHODS = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}
ENCRYPTED = 0x1
# Of archives that people send inside others by mistake; none of them is opened.
ARCHIVE_HEADS = {
    b"PK\x03\x04": "a ZIP archive",
    b"PK\x05\x06": "an empty ZIP archive",
    b"\x1f\x8b": "a gzip archive",
    b"7z\xbc\xaf": "a 7z archive",
    b"Rar!": "a RAR archive",
}


@dataclass(frozen=True)
class ArchiveLimits:
    """The limits of an archive of some kind of data, like `raster`, and what to send instead."""

    kind: str
    files: int
    ratio: int
    total_mb: int
    advice: str

    @property
    def code(self) -> str:
        """The code of its errors."""
        return f"{self.kind}.archive"


class Archive:
    """An open archive whose members keep all limits."""

    def __init__(self, name: str, file: zipfile.ZipFile, limits: ArchiveLimits) -> None:
        self.name = name
        self._file = file
        self._limits = limits
        self.members = tuple(self._check(file.infolist()))

    def read_head(self, member: zipfile.ZipInfo, size: int) -> bytes:
        """The first bytes of a member; refused where it is an archive itself."""
        with self._file.open(member) as file:
            head = file.read(size)
        for magic, title in ARCHIVE_HEADS.items():
            if head.startswith(magic):
                self.refuse(
                    f"{self.name} holds {title}, {show_text(member.filename)}: archives in archives are not opened"
                )
        return head

    def write(self, member: zipfile.ZipInfo, target: Path) -> Path:
        """Write a member to a file; never more than its declared size, which the limits are for."""
        target.parent.mkdir(parents=True, exist_ok=True)
        written = 0
        with self._file.open(member) as packed, target.open("wb") as file:
            while piece := packed.read(PIECE_BYTES):
                written += len(piece)
                if written > member.file_size:
                    raise zipfile.BadZipFile(f"{show_text(member.filename)} is larger than the archive says")
                file.write(piece)
        return target

    def refuse(self, message: str, remedy: str = "") -> NoReturn:
        """Refuse the archive, with the usual advice."""
        raise Permanent(message, code=self._limits.code, remedy=remedy or self._limits.advice)

    def _check(self, infos: list[zipfile.ZipInfo]) -> list[zipfile.ZipInfo]:
        """The files of an archive that keeps all limits."""
        limits = self._limits
        if len(infos) > limits.files:
            self.refuse(f"{self.name} has {len(infos):,} files, over the limit of {limits.files:,}")
        for info in infos:
            if reason := _fault(info, limits.ratio):
                self.refuse(f"{show_text(info.filename)} in {self.name} {reason}", "Make the archive again without it.")
        names = [info.filename.lower() for info in infos]
        if len(set(names)) < len(names):
            twice = next(each for each in names if names.count(each) > 1)
            self.refuse(f"{self.name} has the name {show_text(twice)} twice", "Make the archive again.")
        total = sum(info.file_size for info in infos)
        if total > limits.total_mb * MB:
            self.refuse(
                f"the files in {self.name} have {total // MB:,} MB, over the limit of {limits.total_mb:,}",
                f"Send a smaller archive, or ask the operator to raise ANABRANCH_{limits.kind.upper()}_MAX_MB.",
            )
        return [info for info in infos if not info.is_dir() and not _is_clutter(info.filename)]


@contextmanager
def open_archive(path: Path, limits: ArchiveLimits) -> Iterator[Archive]:
    """Open an archive; what is damaged in it is found at the latest where it is read."""
    try:
        with zipfile.ZipFile(path) as file:
            yield Archive(path.name, file, limits)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, UnicodeDecodeError) as error:
        raise Permanent(
            f"{path.name} is a damaged ZIP archive: {error}", code=limits.code, remedy="Upload the file again."
        ) from error


def list_names(members: Sequence[zipfile.ZipInfo]) -> str:
    """The names of members for a message."""
    names = [show_text(member.filename) for member in members]
    more = f", and {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else ""
    return ", ".join(names[:MAX_LISTED]) + more


def _fault(info: zipfile.ZipInfo, most: int) -> str:
    parts, mode = PurePosixPath(info.filename).parts, info.external_attr >> 16
    unsafe = info.filename.startswith("/") or ".." in parts or "\\" in info.filename or ":" in info.filename[:2]
    ratio = info.file_size / max(1, info.compress_size)
    reasons = (
        (not parts or unsafe or not info.filename.isprintable(), "has an unsafe name"),
        (any(len(part.encode()) > MAX_NAME_BYTES for part in parts), "has a name that is too long"),
        (stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR), "is a link or a special file"),
        (bool(info.flag_bits & ENCRYPTED), "is protected by a password"),
        (info.compress_type not in METHODS, "is packed by a method other than deflate"),
        (
            info.file_size > MIN_RATIO_BYTES and ratio > most,
            f"is {ratio:,.0f} times larger than packed, over the limit of {most}",
        ),
    )
    return next((reason for broken, reason in reasons if broken), "")


def _is_clutter(name: str) -> bool:
    path = PurePosixPath(name)
    return path.parts[0] == "__MACOSX" or path.name.startswith("._") or path.name in (".DS_Store", "Thumbs.db")
