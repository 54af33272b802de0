"""The manifest of a backup: what it is of, and the size and SHA-256 of each part. A folder without one is no backup."""

import json
import os
from datetime import datetime
from hashlib import sha256
from pathlib import Path

from pydantic import ValidationError

from anabranch.canonical import canonical
from anabranch.errors import InputError
from anabranch.storage.fsync import fsync
from anabranch.strict_model import StrictModel

__all__ = ["MANIFEST", "Content", "Manifest", "Part", "damaged", "open_private", "read_manifest", "write_manifest"]

MANIFEST = "manifest.json"
MAX_BYTES = 2**20


class Part(StrictModel):
    """A file of a backup."""

    name: str
    size: int
    sha256: str


class Content(StrictModel):
    """How much of an area is in a backup."""

    objects: int = 0
    bytes: int = 0


class Manifest(StrictModel):
    """What a backup is of.

    `release` is that of its schema, `postgres` the major version of its server; `without` are the areas that were left
    out.
    """

    format: int = 1
    id: str
    made_at: datetime
    version: str
    release: int
    postgres: int
    catalog: bool
    areas: dict[str, Content]
    without: list[str]
    parts: list[Part]


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write it whole and durable: from then on the folder is a backup."""
    content = manifest.model_dump(mode="json")
    new = folder / f"{MANIFEST}.new"
    with open(new, "w", opener=open_private) as file:
        file.write(json.dumps({**content, "sha256": _digest(content)}, indent=1))
    fsync(new)
    new.replace(folder / MANIFEST)
    fsync(folder)


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a backup; InputError where there is none, or it is damaged."""
    file = folder / MANIFEST
    try:
        with file.open("rb") as opened:
            content = json.loads(opened.read(MAX_BYTES))
        said = content.pop("sha256")
    except FileNotFoundError:
        raise InputError("backup.incomplete", f"{folder} is no backup: it has no {MANIFEST}") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise damaged(folder, f"{MANIFEST} can't be read") from error
    if _digest(content) != said:
        raise damaged(folder, f"{MANIFEST} is not as it was written")
    try:
        return Manifest.model_validate_json(json.dumps(content))
    except ValidationError as error:
        raise InputError(
            "backup.unknown", f"{folder} is a backup of a format that this version does not know"
        ) from error


def open_private(file: str, flags: int) -> int:
    """Open a file; a new one is readable by its owner only."""
    return os.open(file, flags, 0o600)


def damaged(folder: Path, what: str) -> InputError:
    """The error of a backup that is not as it was written."""
    return InputError("backup.damaged", f"the backup {folder} is damaged: {what}", remedy="Use another backup.")


def _digest(content: object) -> str:
    return sha256(canonical(content).encode()).hexdigest()
