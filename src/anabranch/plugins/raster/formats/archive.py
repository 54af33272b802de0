"""A ZIP archive with one raster and its sidecars: unpacked by us, within limits, each file alone in a folder (S4)."""

import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from anabranch.geo.sidecar_names import SidecarKind, find_kind, sidecar_names
from anabranch.plugins.raster.files.magic_bytes import HEAD_BYTES, FileFormat, identify_bytes
from anabranch.plugins.raster.models import Notice
from anabranch.plugins.raster.settings import RasterSettings
from anabranch.storage.archives import Archive, ArchiveLimits, list_names, open_archive

__all__ = ["Unpacked", "unpack"]

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
    advice = "Send an archive with one raster and its sidecars."
    limits = ArchiveLimits(
        "raster", settings.raster_archive_files, settings.raster_archive_ratio, settings.raster_max_mb, advice
    )
    with open_archive(path, limits) as archive:
        rasters, others = _find_rasters(archive)
        return _unpack(archive, _only_one(archive, rasters), folder, others)


def _find_rasters(archive: Archive) -> tuple[list[zipfile.ZipInfo], list[zipfile.ZipInfo]]:
    """The rasters among the files, and pictures that belong to one: those without a world file, beside a raster."""
    formats: list[tuple[zipfile.ZipInfo, FileFormat]] = []
    names = {info.filename.lower() for info in archive.members}
    for info in archive.members:
        found = identify_bytes(archive.read_head(info, HEAD_BYTES))
        if found.drivers and PurePosixPath(info.filename).suffix.lower() not in _SIDE_SUFFIXES:
            formats.append((info, found))
    placed = [info for info, found in formats if found.drivers[0] not in _PICTURES or _has_world_file(info, names)]
    others = [info for info, _ in formats if info not in placed] if placed else []
    return placed or [info for info, _ in formats], others


def _has_world_file(info: zipfile.ZipInfo, names: set[str]) -> bool:
    folder, name = PurePosixPath(info.filename.lower()).parent, PurePosixPath(info.filename).name
    return any(str(folder / each) in names for each, kind in sidecar_names(name).items() if kind == "world")


def _only_one(archive: Archive, rasters: list[zipfile.ZipInfo]) -> zipfile.ZipInfo:
    if len(rasters) > 1:
        archive.refuse(
            f"{archive.name} holds {len(rasters)} rasters: {list_names(rasters)}",
            "Send each in an archive of its own, or as it is.",
        )
    if not rasters:
        held = f": it has {list_names(archive.members)}" if archive.members else ": it is empty"
        archive.refuse(f"{archive.name} holds no raster{held}")
    return rasters[0]


def _unpack(archive: Archive, raster: zipfile.ZipInfo, folder: Path, others: list[zipfile.ZipInfo]) -> Unpacked:
    at = PurePosixPath(raster.filename)
    sidecars: dict[SidecarKind, Path] = {}
    for info in archive.members:
        beside = PurePosixPath(info.filename)
        kind = find_kind(beside.name, at.name) if beside.parent == at.parent and info is not raster else None
        if kind and kind not in sidecars:
            sidecars[kind] = archive.write(info, folder / kind / beside.name)
    notices = tuple(_ignored(others))
    return Unpacked(raster.filename, archive.write(raster, folder / "member" / at.name), sidecars, notices)


def _ignored(others: list[zipfile.ZipInfo]) -> Iterator[Notice]:
    if others:
        message = f"Pictures without a world file beside the raster are not used: {list_names(others)}."
        yield Notice(code="raster.pictures_beside", message=message)
