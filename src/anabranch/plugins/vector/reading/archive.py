"""What a ZIP archive holds: Shapefiles, file geodatabases, or one file of another format; unpacked by us."""

import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from anabranch.plugins.vector.reading.choose import show_names
from anabranch.plugins.vector.reading.file_names import name_plainly
from anabranch.plugins.vector.reading.formats import ZIP, identify_suffix
from anabranch.plugins.vector.reading.xml_scan import find_links
from anabranch.plugins.vector.settings import VectorSettings
from anabranch.redaction import show_text
from anabranch.storage.archives import Archive, ArchiveLimits, list_names, open_archive

__all__ = ["Geodatabase", "Shapefile", "Unpacked", "unpack"]

PARTS = (".shp", ".shx", ".dbf", ".prj", ".cpg")
HEAD_BYTES = 8
TABLE = ".gdbtable"  # of a file geodatabase
_WORDS = (".txt", ".xml")
# They are layers only where nothing else in the archive is: often they are notes on the data.
_NOTES = (*_WORDS, ".json", ".tab")
_KMZ_MAIN = "doc.kml"
_OUTSIDE = "Network links are followed to files of the archive only: what others name is not published."


@dataclass(frozen=True)
class Shapefile:
    """A Shapefile whose parts are in a folder of their own, under the name `layer`."""

    name: str
    parts: dict[str, Path]


@dataclass(frozen=True)
class Geodatabase:
    """A file geodatabase in a folder."""

    name: str
    path: Path


@dataclass(frozen=True)
class Unpacked:
    """What was unpacked: one of these kinds, and a notice of what else the archive holds."""

    shapefiles: tuple[Shapefile, ...] = ()
    geodatabase: Geodatabase | None = None
    file: Path | None = None
    linked: tuple[Path, ...] = ()  # other files of KML that the file has links to
    notices: tuple[str, ...] = ()


def unpack(path: Path, folder: Path, settings: VectorSettings) -> Unpacked:
    """Unpack the layers of an archive below a folder."""
    advice = "Send an archive with Shapefiles (.shp, .shx, .dbf, .prj), a file geodatabase, or one other file."
    limits = ArchiveLimits(
        "vector", settings.vector_archive_files, settings.vector_archive_ratio, settings.vector_max_mb, advice
    )
    with open_archive(path, limits) as archive:
        for member in archive.members:
            archive.read_head(member, HEAD_BYTES)
        shapes = [member for member in archive.members if _suffix(member) == ".shp"]
        databases = sorted({str(_at(member).parent) for member in archive.members if _suffix(member) == TABLE})
        if path.suffix.lower() == ".kmz":
            return _unpack_kml(archive, _find_kml(archive), folder)
        if shapes:
            used = [part for member in shapes for part in _find_parts(archive, member)]
            return Unpacked(shapefiles=_write_shapefiles(archive, shapes, folder), notices=_find_unused(archive, used))
        if databases:
            geodatabase = _write_geodatabase(archive, databases, folder)
            used = [member for member in archive.members if _suffix(member) == TABLE]
            return Unpacked(geodatabase=geodatabase, notices=_find_unused(archive, used))
        return _unpack_file(archive, _only_file(archive), folder)


def _at(member: zipfile.ZipInfo) -> PurePosixPath:
    return PurePosixPath(member.filename)


def _suffix(member: zipfile.ZipInfo) -> str:
    return _at(member).suffix.lower()


def _find_others(archive: Archive) -> list[zipfile.ZipInfo]:
    """Files of other formats than Shapefiles."""
    known = [member for member in archive.members if (each := identify_suffix(member.filename)) and each is not ZIP]
    files = [member for member in known if _suffix(member) not in PARTS]
    return [member for member in files if _suffix(member) not in _NOTES] or files


def _find_unused(archive: Archive, used: Sequence[zipfile.ZipInfo]) -> tuple[str, ...]:
    """A notice of layers and tables in the archive that are not read (V1)."""
    left = [member for member in archive.members if member not in used]
    names = {str(_at(member).parent) for member in left if _suffix(member) == TABLE} | {
        member.filename
        for member in left
        if identify_suffix(member.filename) and _suffix(member) not in (*_WORDS, ".shx")
    }
    return (f"These files of the archive are not published: {show_names(sorted(names))}.",) if names else ()


def _find_kml(archive: Archive) -> zipfile.ZipInfo:
    files = sorted(
        (member for member in archive.members if _suffix(member) == ".kml"),
        key=lambda member: (len(_at(member).parts), _at(member).name.lower() != _KMZ_MAIN, member.filename),
    )
    if not files:
        archive.refuse(f"{archive.name} holds no KML file: it has {_list(archive)}")
    return files[0]


def _only_file(archive: Archive) -> zipfile.ZipInfo:
    files = _find_others(archive)
    if len(files) > 1:
        archive.refuse(
            f"{archive.name} holds {len(files)} files: {list_names(files)}",
            "Send each in an archive of its own, or as it is.",
        )
    if not files:
        orphans = [member for member in archive.members if _suffix(member) in PARTS]
        what = "parts of a Shapefile, but no .shp file" if orphans else "no vector file"
        archive.refuse(f"{archive.name} holds {what}: it has {_list(archive)}")
    return files[0]


def _list(archive: Archive) -> str:
    return list_names(archive.members) if archive.members else "nothing"


def _unpack_file(archive: Archive, member: zipfile.ZipInfo, folder: Path) -> Unpacked:
    written = archive.write(member, folder / "member" / name_plainly(_at(member).name))
    return Unpacked(file=written, notices=_find_unused(archive, [member]))


def _unpack_kml(archive: Archive, member: zipfile.ZipInfo, folder: Path) -> Unpacked:
    """The main file and those of the same archive that it has links to; links of these are not followed."""
    main = archive.write(member, folder / "member" / name_plainly(_at(member).name))
    at = {str(_at(each)): each for each in archive.members if _suffix(each) == ".kml" and each is not member}
    named = [str(_at(member).parent / PurePosixPath(link)) for link in find_links(main)]
    linked = [at[name] for name in dict.fromkeys(named) if name in at]
    files = [
        archive.write(each, folder / f"member-{number}" / name_plainly(_at(each).name))
        for number, each in enumerate(linked, start=1)
    ]
    outside = (_OUTSIDE,) if linked and not set(named) <= set(at) else ()
    return Unpacked(file=main, linked=tuple(files), notices=(*_find_unused(archive, [member, *linked]), *outside))


def _write_geodatabase(archive: Archive, databases: list[str], folder: Path) -> Geodatabase:
    if len(databases) > 1:
        shown = ", ".join(show_text(name) for name in databases[:10])
        archive.refuse(
            f"{archive.name} holds {len(databases)} file geodatabases: {shown}", "Send each in an archive of its own."
        )
    inside = PurePosixPath(databases[0])
    target = folder / "database.gdb"
    for member in archive.members:
        if _at(member).parent == inside:
            archive.write(member, target / _at(member).name)
    return Geodatabase(inside.name or archive.name, target)


def _write_shapefiles(archive: Archive, shapes: Sequence[zipfile.ZipInfo], folder: Path) -> tuple[Shapefile, ...]:
    stems = [_at(member).stem for member in shapes]
    written = []
    for place, member in enumerate(shapes):
        at = _at(member)
        name = at.stem if stems.count(at.stem) == 1 else str(at.with_suffix(""))
        parts = {
            _suffix(each): archive.write(each, folder / f"shapefile-{place}" / f"layer{_suffix(each)}")
            for each in _find_parts(archive, member)
        }
        written.append(Shapefile(name, parts))
    return tuple(written)


def _find_parts(archive: Archive, shape: zipfile.ZipInfo) -> list[zipfile.ZipInfo]:
    at = _at(shape)
    beside = [each for each in archive.members if _suffix(each) in PARTS and _at(each).parent == at.parent]
    return [each for each in beside if _at(each).stem.lower() == at.stem.lower()]
