"""A ZIP archive with one raster and its sidecars: unpacked by us, within limits, each file alone in a folder (S4)."""

import stat
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from anabranch.errors import Permanent
from anabranch.geo.sidecar_names import SidecarKind, find_kind, sidecar_names
from anabranch.plugins.raster.files.magic_bytes import HEAD_BYTES, FileFormat, identify_bytes
from anabranch.plugins.raster.formats.choose import show_text
from anabranch.plugins.raster.models import Notice
from anabranch.plugins.raster.settings import RasterSettings

__all__ = ["Unpacked", "unpack"]

MB = 2**20
MAX_LISTED = 10
MAX_NAME_BYTES = 200  # of a file or folder
MIN_RATIO_BYTES = 64 * MB
PIECE_BYTES = MB
METHODS = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}
ENCRYPTED = 0x1
_PICTURES = ("PNG", "JPEG")
_SIDE_SUFFIXES = (".msk", ".ovr")


@dataclass(frozen=True)
class Unpacked:
    """The raster of an archive, and its sidecars."""

    member: str
    path: Path
    sidecars: dict[SidecarKind, Path]
    notices: tuple[Notice, ...]


def unpack(path: Path, folder: Path, settings: RasterSettings) -> Unpacked:
    """Unpack the raster of an archive below a folder, with the sidecars that we understand."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = _check(path.name, archive.infolist(), settings)
            rasters, others = _find_rasters(path.name, archive, members)
            raster = _only_one(path.name, rasters, members)
            return _unpack(archive, raster, members, folder, settings, others)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, UnicodeDecodeError) as error:
        raise _refuse(f"{path.name} is a damaged ZIP archive: {error}", "Upload the file again.") from error


def _check(name: str, infos: list[zipfile.ZipInfo], settings: RasterSettings) -> list[zipfile.ZipInfo]:
    """The files of an archive that keeps all limits."""
    if len(infos) > settings.raster_archive_files:
        raise _refuse(
            f"{name} has {len(infos):,} files, over the limit of {settings.raster_archive_files:,}",
            "Send an archive with one raster and its sidecars.",
        )
    for info in infos:
        if reason := _fault(info, settings):
            raise _refuse(f"{show_text(info.filename)} in {name} {reason}", "Make the archive again without it.")
    names = [info.filename.lower() for info in infos]
    if len(set(names)) < len(names):
        twice = next(each for each in names if names.count(each) > 1)
        raise _refuse(f"{name} has the name {show_text(twice)} twice", "Make the archive again.")
    total, most = sum(info.file_size for info in infos), settings.raster_max_mb * MB
    if total > most:
        raise _refuse(
            f"the files in {name} have {total // MB:,} MB, over the limit of {settings.raster_max_mb:,}",
            "Send a smaller archive, or ask the operator to raise ANABRANCH_RASTER_MAX_MB.",
        )
    return [info for info in infos if not info.is_dir() and not _is_clutter(info.filename)]


def _fault(info: zipfile.ZipInfo, settings: RasterSettings) -> str:
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
            info.file_size > MIN_RATIO_BYTES and ratio > settings.raster_archive_ratio,
            f"is {ratio:,.0f} times larger than packed, over the limit of {settings.raster_archive_ratio}",
        ),
    )
    return next((reason for broken, reason in reasons if broken), "")


def _is_clutter(name: str) -> bool:
    path = PurePosixPath(name)
    return path.parts[0] == "__MACOSX" or path.name.startswith("._") or path.name in (".DS_Store", "Thumbs.db")


def _find_rasters(
    name: str, archive: zipfile.ZipFile, members: Iterable[zipfile.ZipInfo]
) -> tuple[list[zipfile.ZipInfo], list[zipfile.ZipInfo]]:
    """The rasters among the files, and pictures that belong to one: those without a world file, beside a raster."""
    formats: list[tuple[zipfile.ZipInfo, FileFormat]] = []
    names = {info.filename.lower() for info in members}
    for info in members:
        with archive.open(info) as file:
            found = identify_bytes(file.read(HEAD_BYTES))
        if found.archive or found.title.endswith("archive"):
            raise _refuse(
                f"{name} holds {found.title}, {show_text(info.filename)}: archives in archives are not opened",
                "Send an archive with one raster and its sidecars.",
            )
        if found.drivers and PurePosixPath(info.filename).suffix.lower() not in _SIDE_SUFFIXES:
            formats.append((info, found))
    placed = [info for info, found in formats if found.drivers[0] not in _PICTURES or _has_world_file(info, names)]
    others = [info for info, _ in formats if info not in placed] if placed else []
    return placed or [info for info, _ in formats], others


def _has_world_file(info: zipfile.ZipInfo, names: set[str]) -> bool:
    folder, name = PurePosixPath(info.filename.lower()).parent, PurePosixPath(info.filename).name
    return any(str(folder / each) in names for each, kind in sidecar_names(name).items() if kind == "world")


def _only_one(name: str, rasters: list[zipfile.ZipInfo], members: list[zipfile.ZipInfo]) -> zipfile.ZipInfo:
    if len(rasters) == 1:
        return rasters[0]
    if rasters:
        raise _refuse(
            f"{name} holds {len(rasters)} rasters: {_list(rasters)}", "Send each in an archive of its own, or as it is."
        )
    held = f": it has {_list(members)}" if members else ": it is empty"
    raise _refuse(f"{name} holds no raster{held}", "Send an archive with one raster and its sidecars.")


def _list(infos: list[zipfile.ZipInfo]) -> str:
    names = [show_text(info.filename) for info in infos]
    more = f", and {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else ""
    return ", ".join(names[:MAX_LISTED]) + more


def _unpack(
    archive: zipfile.ZipFile,
    raster: zipfile.ZipInfo,
    members: Iterable[zipfile.ZipInfo],
    folder: Path,
    settings: RasterSettings,
    others: list[zipfile.ZipInfo],
) -> Unpacked:
    at = PurePosixPath(raster.filename)
    sidecars: dict[SidecarKind, Path] = {}
    for info in members:
        beside = PurePosixPath(info.filename)
        kind = find_kind(beside.name, at.name) if beside.parent == at.parent and info is not raster else None
        if kind and kind not in sidecars:
            sidecars[kind] = _write(archive, info, folder / kind / beside.name)
    notices = tuple(_ignored(others))
    return Unpacked(raster.filename, _write(archive, raster, folder / "member" / at.name), sidecars, notices)


def _ignored(others: list[zipfile.ZipInfo]) -> Iterator[Notice]:
    if others:
        message = f"Pictures without a world file beside the raster are not used: {_list(others)}."
        yield Notice(code="raster.pictures_beside", message=message)


def _write(archive: zipfile.ZipFile, info: zipfile.ZipInfo, target: Path) -> Path:
    """Write a file of the archive; never more than its declared size, which the limits are for."""
    target.parent.mkdir(parents=True, exist_ok=True)
    written = 0
    with archive.open(info) as packed, target.open("wb") as file:
        while piece := packed.read(PIECE_BYTES):
            written += len(piece)
            if written > info.file_size:
                raise zipfile.BadZipFile(f"{show_text(info.filename)} is larger than the archive says")
            file.write(piece)
    return target


def _refuse(message: str, remedy: str) -> Permanent:
    return Permanent(message, code="raster.archive", remedy=remedy)
