"""What a stack made in its home beside the database, and its removal."""

import shutil
from contextlib import suppress
from pathlib import Path

from anabranch.embedded.home import Home
from anabranch.errors import InputError
from anabranch.storage.addresses import RESERVED

__all__ = ["purge_home"]

MACHINE_FOLDERS = ("cache", "scratch", "incoming", "logs")
# Of jobs: what passed between their tasks, and what they wrote.
JOB_FOLDERS = ("work", "silver/jobs", "gold/jobs")
# Of the database: by its marks it knows the tiers.
MARK_FILES = tuple(f"{area}/{RESERVED}" for area in ("bronze", "silver", "gold", "work"))
STAGING_FOLDERS = tuple(f"{tier}/.incoming" for tier in ("bronze", "silver", "gold"))
TIERS = ("bronze", "silver", "gold")


def purge_home(home: Home, *, jobs: bool, bronze: bool) -> list[Path]:
    """Remove it: without `jobs`, what no job of another database needs; with `bronze`, what users sent, too.

    Where something is still held is told. The home's id, marks and lock stay, and what others put there.
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
        with suppress(OSError):  # it holds something, or is not there
            (home.path / name).rmdir()
    if not any((home.path / name).exists() for name in JOB_FOLDERS):
        home.clear_elsewhere()
    return [folder for name in ("work", *TIERS) if (folder := home.path / name).exists()]


def _empty(folder: Path) -> None:
    """Remove all that is in a folder but for its mark; the folder itself may be a link to another disk."""
    for entry in folder.iterdir() if folder.is_dir() else ():
        if entry.name == RESERVED:
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()
