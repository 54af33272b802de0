"""Removes the files that a stack created in its home, except the database."""

import shutil
from contextlib import suppress
from pathlib import Path

from anabranch.embedded.home import Home
from anabranch.errors import InputError
from anabranch.storage.addresses import RESERVED_FOLDER
from anabranch.storage.locations import AREAS, TIERS

__all__ = ["purge_home"]

MACHINE_FOLDERS = ("cache", "scratch", "incoming", "logs")
# Files of jobs: data passed between tasks, and outputs.
JOB_FOLDERS = ("work", "silver/jobs", "gold/jobs")
# Files by which the database recognizes its tiers.
MARK_FILES = tuple(f"{area}/{RESERVED_FOLDER}" for area in AREAS)
STAGING_FOLDERS = tuple(f"{tier}/.incoming" for tier in TIERS)


def purge_home(home: Home, *, jobs: bool, bronze: bool) -> list[Path]:
    """Remove caches, scratch and logs; with `jobs` also files of jobs and marks; with `bronze` also uploads.

    Returns the folders that are not empty. The home's id and lock stay, and files that others put there; without
    `jobs`, also the files that jobs of another database may need.
    """
    chosen = (
        *MACHINE_FOLDERS,
        *STAGING_FOLDERS,
        *((*MARK_FILES, *JOB_FOLDERS) if jobs else ()),
        *(("bronze",) if bronze else ()),
    )
    try:
        for name in chosen:
            _empty(home.path / name)
    except OSError as error:
        raise InputError(
            "home.unusable",
            f"{error.filename} can't be removed: {error.strerror}",
            remedy="Remove it as its owner, and purge again.",
        ) from error
    for name in (*chosen, *JOB_FOLDERS, *TIERS):
        with suppress(OSError):  # it is not empty, or does not exist
            (home.path / name).rmdir()
    if not any((home.path / name).exists() for name in JOB_FOLDERS):
        home.clear_elsewhere()
    return [folder for name in ("work", *TIERS) if (folder := home.path / name).exists()]


def _empty(folder: Path) -> None:
    """Remove everything in a folder except its mark; the folder itself may be a link to another disk."""
    for entry in folder.iterdir() if folder.is_dir() else ():
        if entry.name == RESERVED_FOLDER:
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()
