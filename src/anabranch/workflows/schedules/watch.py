"""What a schedule watches in place of a clock: objects of a folder, by the pattern of their names."""

import re
from enum import StrEnum
from fnmatch import translate
from functools import lru_cache

from anabranch.canonical import Json
from anabranch.errors import InputError
from anabranch.storage.addresses import Address, parse_folder
from anabranch.storage.locations import require_tier
from anabranch.workflows.expressions.syntax import OBJECT_FIELDS
from anabranch.workflows.mistakes import refuse

__all__ = [
    "MAX_PATTERN_CHARACTERS",
    "WATCH_SECONDS",
    "Existing",
    "describe_object",
    "describe_sample",
    "matches",
    "read_folder",
    "read_pattern",
]

MAX_PATTERN_CHARACTERS = 200
WATCH_SECONDS = {"stable_seconds": (0, 86_400), "poll_seconds": (1, 3_600)}


class Existing(StrEnum):
    """The rule for objects that were there before the schedule."""

    SUBMIT = "submit"
    SKIP = "skip"


def read_folder(text: str) -> str:
    """The address of a folder of a tier, without the slash at its end; ValueError says what is wrong with it."""
    try:
        require_tier(text)
        found = str(parse_folder(text))
    except InputError as error:
        raise refuse(f"{{key}}: {error.message}", error.remedy) from None
    return found


def read_pattern(text: str) -> str:
    """The pattern of names; ValueError says what is wrong with it."""
    if not 0 < len(text) <= MAX_PATTERN_CHARACTERS:
        raise refuse(f"{{key}} is a pattern of 1 to {MAX_PATTERN_CHARACTERS} characters", "Write one like *.tif.")
    if "/" in text:
        raise refuse("{key} is compared with the name of an object, which has no /", "Watch the folder itself.")
    return text


def matches(pattern: str | None, name: str) -> bool:
    """Whether a name is like a pattern, in upper or lower case."""
    return pattern is None or _compile(pattern).match(name) is not None


def describe_object(at: Address, version: str, size: int, modified: str) -> dict[str, Json]:
    """What inputs may name of an object."""
    return dict(zip(OBJECT_FIELDS, (str(at), at.path, at.name, version, size, modified), strict=True))


def describe_sample(folder: str, pattern: str | None, modified: str) -> dict[str, Json]:
    """An object like those that are watched, to check inputs with."""
    name = re.sub(r"\[.*?\]|\?", "x", (pattern or "*").replace("*", "object"))
    at = parse_folder(folder)
    path = f"{at.path}/{name}" if at.path else name
    return describe_object(Address(at.tier, path), "0", 1, modified)


@lru_cache(maxsize=1_000)
def _compile(pattern: str) -> re.Pattern[str]:
    return re.compile(translate(pattern), re.IGNORECASE)
