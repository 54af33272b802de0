"""Names of files that callers give: one segment of a path, and nothing that could be more."""

import re
import unicodedata
from collections.abc import Collection, Iterable
from pathlib import PurePosixPath

from anabranch.errors import InputError
from anabranch.storage.addresses import compose

__all__ = ["check_file_name", "make_slug", "require_extensions"]

MAX_NAME_BYTES = 255
MAX_SLUG_CHARS = 60
TOO_LONG = f"it is longer than {MAX_NAME_BYTES} bytes"
# Control and format characters, half characters, separators of lines and paragraphs, and what has no meaning yet.
REFUSED_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp", "Cn", "Co"})


def check_file_name(given: str) -> str:
    """The name in its one spelling (NFC); InputError says what is wrong with it."""
    name = compose(given, MAX_NAME_BYTES)
    if reason := _fault(name):
        raise InputError(
            "upload.name", f"{name[:80]!r} can't be the name of a file: {reason}", remedy="Give another, like dem.tif."
        )
    return name


def require_extensions(given: Iterable[str], supported: Collection[str], kind: str) -> tuple[str, ...]:
    """Extensions of files with a dot and in small letters, for validators of requests; ValueError if one is unknown."""
    wanted = tuple(f".{one.lower().removeprefix('.')}" for one in given)
    if odd := [one for one in wanted if one not in supported]:
        raise ValueError(f"{odd[0][:20]} is not one of a supported {kind} format: {', '.join(sorted(supported))}")
    return wanted


def make_slug(name: str) -> str:
    """The name of a file, without its extension, as it may be used in ids and names; empty where nothing of it may."""
    plain = re.sub(r"[^A-Za-z0-9_]+", "-", PurePosixPath(name).stem).strip("-_")
    return plain[:MAX_SLUG_CHARS].rstrip("-_")


def _fault(name: str) -> str:
    if not name.strip():
        return "it is empty"
    if len(name) > MAX_NAME_BYTES:
        return TOO_LONG
    if name in (".", ".."):
        return "it is a step in a path"
    if "/" in name or "\\" in name:
        return "it has a slash"
    if any(unicodedata.category(character) in REFUSED_CATEGORIES for character in name) or "\ufffd" in name:
        return "it has a character that can't be shown"
    if name != name.strip():
        return "it begins or ends with a blank"
    if len(name.encode()) > MAX_NAME_BYTES:
        return TOO_LONG
    return ""
