"""Names of the files that belong to a raster: world files, .prj, .msk and .aux.xml."""

from pathlib import PurePosixPath
from typing import Literal

__all__ = ["SidecarKind", "find_kind", "names_beside", "sidecar_names"]

SidecarKind = Literal["world", "prj", "mask", "aux"]


def sidecar_names(name: str) -> dict[str, SidecarKind]:
    """The names, in lower case, that sidecars of a raster may have, the usual one of each kind first."""
    lower = name.lower()
    stem, suffix = PurePosixPath(lower).stem, PurePosixPath(lower).suffix
    letters = suffix.lstrip(".")
    short = {f"{stem}.{letters[0]}{letters[-1]}w": "world"} if len(letters) > 1 else {}
    names: dict[str, SidecarKind] = {
        **short,  # type: ignore[dict-item]  # the literal is widened to str
        f"{stem}{suffix}w": "world",
        f"{stem}.wld": "world",
        f"{stem}.prj": "prj",
        f"{lower}.msk": "mask",
        f"{stem}.msk": "mask",
        f"{lower}.aux.xml": "aux",
        f"{stem}.aux.xml": "aux",
    }
    return {each: kind for each, kind in names.items() if each != lower}


def names_beside(name: str) -> dict[str, SidecarKind]:
    """The same, as they are spelled beside a raster: its own name or stem as it is, and the rest in lower case."""
    stem = PurePosixPath(name).stem
    found: dict[str, SidecarKind] = {}
    for lower, kind in sidecar_names(name).items():
        begin = name if lower.startswith(name.lower()) else stem
        found[begin + lower.removeprefix(begin.lower())] = kind
    return found


def find_kind(name: str, raster: str) -> SidecarKind | None:
    """What a file beside a raster is to it."""
    return sidecar_names(raster).get(name.lower())
