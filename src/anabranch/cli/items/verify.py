"""`verify`: whether what was published is still what its signed manifest says."""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from json import loads
from pathlib import Path
from typing import Annotated

import typer

from anabranch.canonical import Json as JsonValue
from anabranch.cli.connection import connect
from anabranch.cli.exit_codes import UsageError
from anabranch.cli.items.items import split_name
from anabranch.cli.terminal.options import Json
from anabranch.cli.terminal.output import print_json, print_line, print_table
from anabranch.client import Client, Item
from anabranch.client.catalog import file_path
from anabranch.client.files import hash_file
from anabranch.errors import AnabranchError, Conflict, InputError, NotFound
from anabranch.manifests.envelope import open_envelope, read_envelope
from anabranch.manifests.statement import Statement

__all__ = ["verify"]

MULTIHASH_SHA256 = "1220"
ELSEWHERE = "elsewhere, not checked"
TABLE = "table, not checked"
TABLE_PREFIX = "geo."
PEM = re.compile(r"-----BEGIN PUBLIC KEY-----.*?-----END PUBLIC KEY-----\s*", re.DOTALL)


@dataclass(frozen=True)
class Finding:
    """One file of a manifest, and whether it is what the manifest says."""

    item: str
    file: str
    result: str
    sha256: str

    @property
    def is_good(self) -> bool:
        """Whether nothing is wrong with it."""
        return self.result in ("ok", ELSEWHERE, TABLE)


def verify(
    target: Annotated[
        str, typer.Argument(metavar="COLLECTION/ITEM|JOB|FILE", help="An item, a job, or the file of a manifest.")
    ],
    keys: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Trust only these public keys, as `signing-keys list --json` prints them."),
    ] = None,
    files: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="For the file of a manifest: where its files are.")
    ] = None,
    json: Json = False,
) -> None:
    """Verify what was published: the signature of its manifest, and the hash of each file."""
    trusted = None if keys is None else _read_keys(keys)
    if Path(target).is_file():
        found = _verify_file(Path(target), trusted, files)
    elif target.startswith((".", "/")) or ("/" not in target and "." in target):
        raise NotFound("file.not_found", f"there is no file {target}")
    elif files is not None:
        raise UsageError("usage", f"--files is for the file of a manifest; there is no file {target}")
    else:
        found = _verify_published(target, trusted)
    findings = list(found)
    if json:
        print_json([vars(finding) for finding in findings])
    else:
        print_table(["item", "file", "result", "sha256"], ([f.item, f.file, f.result, f.sha256] for f in findings))
    bad = [finding for finding in findings if not finding.is_good]
    if bad:
        raise Conflict(
            "manifest.differs",
            f"{len(bad)} of {len(findings)} files are not what was published, {bad[0].item} {bad[0].file} among them",
            remedy="Publish them again from their source; find out who changed them.",
        )
    if not json:
        print_line(f"verified: {_count(findings)}")


def _count(findings: list[Finding]) -> str:
    results = Counter(finding.result for finding in findings)
    parts = [f"{results['ok']} files are as they were published"]
    if results[ELSEWHERE]:
        parts.append(f"{results[ELSEWHERE]} are on other servers and were not read")
    if results[TABLE]:
        parts.append(f"{results[TABLE]} are tables in the database, whose rows were not compared")
    return "; ".join(parts)


def _verify_file(manifest: Path, trusted: list[str] | None, files: Path | None) -> Iterator[Finding]:
    """Verify files in a folder without a stack."""
    if trusted is None or files is None:
        raise UsageError("usage", "the file of a manifest is verified with --keys FILE and --files FOLDER")
    statement, _ = open_envelope(read_envelope(manifest.read_bytes()), trusted)

    def read(name: str) -> str:
        path = files / name
        if not path.is_file():
            raise NotFound("file.not_found", f"there is no file {path}")
        return hash_file(path)

    yield from _compare(_name(statement), statement, read, _find_table(statement))


def _verify_published(target: str, trusted: list[str] | None) -> Iterator[Finding]:
    """Verify an item, or all items of a job, by what the API sends."""
    with connect() as client:
        known = [key.public_key for key in client.signing_keys()] if trusted is None else trusted
        if "/" in target:
            yield from _verify_item(client, split_name(target), known)
            return
        job_id = client.job(target).job_id
        items = list(client.published_items(job_id=job_id))
        if not items:
            raise NotFound("item.not_found", f"job {job_id[:12]} has published nothing that is there now")
        for item in items:
            if item.signing_key is None:
                yield Finding(f"{item.collection}/{item.id}", "-", "no manifest", "")
            else:
                yield from _verify_item(client, (item.collection, item.id), known)


def _verify_item(client: Client, name: tuple[str, str], known: list[str]) -> list[Finding]:
    """Verify an item; again if it was replaced meanwhile, since each request sees what is published then."""
    while True:
        publication = client.published_item(*name).publication
        try:
            found = list(_check_item(client, name, publication, known))
        except AnabranchError:
            if client.published_item(*name).publication == publication:
                raise
            continue
        if all(finding.is_good for finding in found) or client.published_item(*name).publication == publication:
            return found


def _check_item(client: Client, name: tuple[str, str], publication: str, known: list[str]) -> Iterator[Finding]:
    statement, _ = open_envelope(client.manifest(*name), known)
    if _name(statement) != "/".join(name):
        raise Conflict(
            "manifest.differs",
            f"the manifest of {'/'.join(name)} is that of {_name(statement)}",
            remedy="Publish the item again; find out who changed the database.",
        )
    item = client.item(*name)
    table = _find_table(statement, item)
    yield from _compare("/".join(name), statement, lambda file: client.hash_published(publication, file), table)
    yield from _find_other_assets(item, statement, publication, table)


def _find_table(statement: Statement, item: Item | None = None) -> str | None:
    """The subject of a manifest that is a table: its hash is that of rows, and not of bytes that anybody can fetch."""
    signed = statement.published_as.get("table")
    if signed is None and item and (layer := item.properties.get("anabranch:layer")):
        return f"{TABLE_PREFIX}{layer}"  # a manifest of a release before it said so
    return signed if isinstance(signed, str) else None


def _compare(item: str, statement: Statement, read: Callable[[str], str], table: str | None) -> Iterator[Finding]:
    """Each file of a manifest, with whether its bytes have the hash that they were published with."""
    for subject in statement.subject:
        if subject.name == table:
            yield Finding(item, subject.name, TABLE, subject.digest.sha256)
            continue
        try:
            result = "ok" if read(subject.name) == subject.digest.sha256 else "changed"
        except AnabranchError as error:
            if error.code not in ("file.not_published", "file.lost", "file.not_found"):
                raise
            result = "missing"
        yield Finding(item, subject.name, result, subject.digest.sha256)


def _find_other_assets(item: Item, statement: Statement, publication: str, table: str | None) -> Iterator[Finding]:
    """The assets that the catalog shows with another file or checksum than the manifest has.

    Items that were ingested have no files of ours, so their manifest lists none: their assets are elsewhere.
    """
    signed = {file_path(publication, one.name): one.digest.sha256 for one in statement.subject}
    features = f"/features/collections/{table.removeprefix(TABLE_PREFIX)}/items" if table else None
    for name, asset in item.assets.items():
        checksum = str(asset.get("file:checksum", "")).removeprefix(MULTIHASH_SHA256)
        path = _find_path(str(asset.get("href", "")))
        if features and path.endswith(features):
            continue
        if signed.get(path) != checksum:
            is_elsewhere = not signed and not path.startswith("/files/")
            result = ELSEWHERE if is_elsewhere else "not in the manifest"
            yield Finding(f"{item.collection}/{item.id}", name, result, checksum)


def _find_path(href: str) -> str:
    """The path of a published file in its URL, without the prefix that a proxy adds."""
    found = href.find("/files/")
    return href[found:] if found >= 0 else href


def _name(statement: Statement) -> str:
    """The item that a manifest is of."""
    return f"{statement.published_as.get('collection')}/{statement.published_as.get('item')}"


def _read_keys(file: Path) -> list[str]:
    """The public keys of a file: a JSON list as the API and the command line print it, or PEM."""
    try:
        text = file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError("manifest.key", f"{file} can't be read: {error}") from error
    try:
        listed: JsonValue = loads(text)
    except ValueError as error:
        if blocks := PEM.findall(text):
            return list(blocks)
        raise InputError("manifest.key", f"{file} holds neither JSON nor PEM: {error}") from error
    keys = [key.get("public_key") for key in listed if isinstance(key, dict)] if isinstance(listed, list) else []
    found = [key for key in keys if isinstance(key, str)]
    if not found or len(found) < len(keys):
        raise InputError("manifest.key", f"{file} is not a list of keys like `signing-keys list --json` prints")
    return found
