"""Addresses of objects, `tier://path`: parsed and checked here, before any store sees them (S3)."""

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass

from anabranch.errors import InputError

__all__ = [
    "RESERVED_FOLDER", "Address", "can_be_shown", "check_path", "compose", "parse_address", "parse_folder",
    "require_address", "require_folder",
]  # fmt: skip

MAX_PATH_BYTES = 1_024
RESERVED_FOLDER = ".anabranch"  # a folder of each tier that holds what is the engine's own
_TIER = re.compile(r"[a-z][a-z0-9_-]{0,30}")
# Control characters, surrogates, line breaks, and marks that change the reading direction, which disguise names.
_HIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069]")


@dataclass(frozen=True)
class Address:
    """Where an object is; the path is one that was checked."""

    tier: str
    path: str

    def __str__(self) -> str:
        return f"{self.tier}://{self.path}"

    @property
    def name(self) -> str:
        """The last segment of the path."""
        return self.path.rpartition("/")[2]


def can_be_shown(text: str) -> bool:
    """Whether a text is one line in which every character is what it looks like."""
    return _HIDDEN.search(text) is None


def parse_address(text: str) -> Address:
    """The address of one object; InputError says what is wrong with it."""
    tier, path = _split(text)
    return Address(tier, check_path(path))


def parse_folder(text: str) -> Address:
    """The address of a folder of objects; an empty path is the whole tier."""
    tier, path = _split(text)
    path = path.removesuffix("/")
    return Address(tier, check_path(path) if path else "")


def require_address(text: str) -> str:
    """The address of an object, for validators of requests; ValueError says what is wrong with it."""
    return _require(parse_address, text)


def require_folder(text: str | None) -> str | None:
    """The address of a folder, for validators of requests; ValueError says what is wrong with it."""
    return text if text is None else _require(parse_folder, text)


def _require(parse: Callable[[str], Address], text: str) -> str:
    try:
        parse(text)
    except InputError as error:
        raise ValueError(f"{error.message}. {error.remedy}") from error
    return text


def check_path(given: str) -> str:
    """The path in its one spelling (NFC), which can't lead out of its container (S3)."""
    path = compose(given, MAX_PATH_BYTES)
    if fault := _fault(path):
        raise InputError(
            "storage.path",
            f"{path[:200]!r} can't be the path of an object: {fault}",
            remedy="Write it as it is listed, like uploads/dem.tif.",
        )
    return path


def compose(given: str, most: int) -> str:
    """A name normalized to NFC; unchanged if it is too long to be valid, because normalizing is quadratic."""
    # No spelling has more than 4 characters for one of 3 bytes; marks are sorted in the square of their number.
    return given if len(given) > 2 * most else unicodedata.normalize("NFC", given)


def _split(text: str) -> tuple[str, str]:
    tier, found, path = text.partition("://")
    if not found or not _TIER.fullmatch(tier):
        raise InputError(
            "storage.address",
            f"{text[:200]!r} is not an address of storage",
            remedy="Write tier://path, like bronze://uploads/dem.tif; commands send a local file by `-p KEY=@FILE`.",
        )
    return tier, path


def _fault(path: str) -> str:
    too_long = f"it is longer than {MAX_PATH_BYTES} bytes"
    if len(path) > MAX_PATH_BYTES:
        return too_long
    if not can_be_shown(path):
        return "it has a character that can't be shown"
    if "\\" in path:
        return "it has a backslash"
    segments = path.split("/")
    if segments[0] == RESERVED_FOLDER:
        return f"{RESERVED_FOLDER} is reserved for the engine"
    if not all(segments):
        return "a segment of it is empty"
    if {".", ".."} & set(segments):
        return "a segment of it is a step to another folder"
    return too_long if len(path.encode()) > MAX_PATH_BYTES else ""
