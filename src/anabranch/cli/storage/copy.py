"""`storage cp`: copies objects from and to files, and between tiers."""

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from mimetypes import guess_type
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from anabranch.app import open_tiers
from anabranch.cli.exit_codes import UsageError
from anabranch.cli.setup import prepare
from anabranch.cli.storage.require_unpublished import RequireUnpublished, open_catalog
from anabranch.cli.terminal.options import Json
from anabranch.cli.terminal.output import format_size, note, print_json, print_line, print_result
from anabranch.errors import AnabranchError, Conflict, InputError, NotFound, Unavailable
from anabranch.storage.addresses import parse_address, parse_folder
from anabranch.storage.tiers import Storage

__all__ = ["cp"]

Copy = Callable[[str, str], tuple[int, str]]  # from and to; the size and the SHA-256
FileOrAddress = Annotated[str, typer.Argument(help="A file, or the address of an object; with -r, a folder.")]


def cp(
    source: FileOrAddress,
    target: FileOrAddress,
    recursive: Annotated[
        bool, typer.Option("--recursive", "-r", help="Copy everything below a folder to another one.")
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace existing objects and files.")] = False,
    json: Json = False,
) -> None:
    """Copy an object from or to a file, or between tiers, and print its address and SHA-256; with -r, a folder."""
    if "://" not in source and "://" not in target:
        raise UsageError(
            "usage", "neither argument is an address", remedy="Give one of them as an address, like silver://path."
        )
    storage = open_tiers(prepare(quiet=True))
    if not recursive and "://" not in source and Path(source).is_dir():
        raise InputError("upload.unreadable", f"{source} is a folder", remedy="Copy everything below it with `-r`.")
    replaces = overwrite and "://" in target
    with open_catalog() if replaces else nullcontext(lambda _: None) as require_unpublished:
        copy = partial(_copy, storage, require_unpublished, overwrite=overwrite)
        if recursive:
            _copy_folder(storage, source, target, copy, json=json)
            return
        size, digest = copy(source, target)
    print_result({"address": target, "size": size, "sha256": digest}, f"{digest}  {target}", json=json)


def _copy_folder(storage: Storage, source: str, target: str, copy: Copy, *, json: bool) -> None:
    """Copy all objects below a folder, and print a line for each and a summary; Conflict at the end if some failed."""
    copied, total, failed = 0, 0, list[tuple[str, AnabranchError]]()
    for one, name in _walk(storage, source):
        to = _join(target, name)
        try:
            size, digest = copy(one, to)
        except Unavailable:
            note(f"{copied} objects were copied before {one}")
            raise
        except AnabranchError as error:
            failed.append((one, error))
            note(f"{one}: {error.message}")
        else:
            copied, total = copied + 1, total + size
            if not json:
                print_line(f"{digest}  {to}")
    if json:
        known = [{"source": one, "code": error.code, "message": error.message} for one, error in failed]
        print_json({"target": target, "copied": copied, "bytes": total, "failed": known})
    else:
        note(f"copied {copied} of {copied + len(failed)}, {format_size(total)}")
    if failed:
        raise Conflict(
            "storage.not_copied",
            f"{len(failed)} of {copied + len(failed)} objects were not copied",
            remedy="Copy again with `--overwrite` to replace what exists, or fix what is reported above.",
        )


def _walk(storage: Storage, folder: str) -> Iterator[tuple[str, str]]:
    """Everything below a folder: its file or address, and its name relative to the folder."""
    if "://" in folder:
        at = parse_folder(folder)
        start = f"{at.path}/" if at.path else ""
        for found in storage.walk(folder):
            yield f"{at.tier}://{found.key}", found.key.removeprefix(start)
        return
    top = Path(folder)
    if not top.is_dir():
        raise NotFound("file.not_found", f"there is no folder {folder}")
    for file in sorted(top.rglob("*")):
        if file.is_file():
            yield str(file), file.relative_to(top).as_posix()


def _join(target: str, name: str) -> str:
    if "://" in target:
        return f"{target}{name}" if target.endswith("/") else f"{target}/{name}"
    place = Path(target) / name
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Unavailable("storage.unwritable", f"{place} can't be written: {error.strerror}") from None
    return str(place)


def _copy(
    storage: Storage, require_unpublished: RequireUnpublished, source: str, target: str, *, overwrite: bool
) -> tuple[int, str]:
    require_unpublished([target])
    if "://" not in source:
        return _upload(storage, Path(source), target, overwrite=overwrite)
    if "://" not in target:
        return _download(storage, source, Path(target), overwrite=overwrite)

    home = prepare(quiet=True).home  # /tmp may be memory
    home.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=home) as folder:
        spool = Path(folder) / "object"
        storage.download(source, spool)
        return _upload(storage, spool, target, overwrite=overwrite)


def _upload(storage: Storage, file: Path, target: str, *, overwrite: bool) -> tuple[int, str]:
    try:
        stored = storage.upload(target, file, if_absent=not overwrite, media_type=guess_type(target)[0])
    except FileNotFoundError:
        raise NotFound("file.not_found", f"there is no file {file}") from None
    except OSError as error:
        raise InputError("upload.unreadable", f"{file} can't be read: {error.strerror}") from None
    return stored.size, stored.sha256


def _download(storage: Storage, source: str, file: Path, *, overwrite: bool) -> tuple[int, str]:
    """Write to a temporary file and rename it, so that the file is complete or absent (W7)."""
    place = file / parse_address(source).name if file.is_dir() else file
    if place.exists() and not overwrite:
        raise Conflict("storage.exists", f"the file {place} already exists", remedy="Replace it with `--overwrite`.")
    aside = place.with_name(f".{place.name[:200]}.part")
    try:
        got = storage.download(source, aside)
        aside.replace(place)
    except OSError as error:
        raise Unavailable("storage.unwritable", f"{place} can't be written: {error.strerror}") from None
    finally:
        aside.unlink(missing_ok=True)
    return got.stat.size, got.sha256
