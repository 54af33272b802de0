"""A tier in a cloud container, by obstore: streamed, and uploaded in parts if it is large."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anabranch.adapters.objects.errors import changed, exists, explain
from anabranch.adapters.objects.open_store import Options, open_store
from anabranch.adapters.objects.staging import StagedFile, clear_staged
from anabranch.errors import Conflict, NotFound
from anabranch.storage.addresses import RESERVED_FOLDER
from anabranch.storage.tiers import Downloaded, Page, Stat, Stored

if TYPE_CHECKING:
    from obstore import GetResult, ObjectMeta

__all__ = ["Bucket"]

PIECE_BYTES = 2**20
PART_BYTES = 16 * 2**20
MAX_PARTS = 9_000
CONCURRENT_PARTS = 4
DELETE_BATCH_KEYS = 256
PAGE_KEYS = 1_000
RANGE_ERRORS = ("status code: 416", "Wanted range starting at")
OPEN_OPTIONS = (
    "allow_http", "region", "endpoint", "account_name", "credential_type", "use_emulator", "skip_signature",
)  # fmt: skip


class Bucket:
    """A Tier in a container, below a folder of it."""

    def __init__(self, name: str, url: str, options: Options, spool: Path) -> None:
        """Open it, without asking it anything; what comes in pieces is spooled in a local folder."""
        self._name = name
        self._store = open_store(name, url, options)
        self._secrets = [
            str(value) for key, value in options.items() if key not in OPEN_OPTIONS and len(str(value)) > 3
        ]
        self._spool = spool

    def stat(self, key: str) -> Stat:
        import obstore

        with self._translate(key):
            return _stat(obstore.head(self._store, key))

    def media_type(self, key: str) -> str | None:
        got = self._get(key, {"head": True}, None)
        return None if got is None else str(got.attributes.get("Content-Type", "")) or None

    def list(self, folder: str = "", *, after: str = "", limit: int = 1_000) -> Page:
        return tuple(islice(self._walk(folder, after, min(limit, PAGE_KEYS)), limit))

    def walk(self, folder: str = "") -> Iterator[Stat]:
        return self._walk(folder, "", PAGE_KEYS)

    def stream(self, key: str, start: int = 0, length: int | None = None, *, tag: str | None = None) -> Iterator[bytes]:
        if length == 0:
            self.stat(key)
            return iter(())
        wanted: Any = {"offset": start} if length is None else (start, start + length)
        options = {"range": wanted} if start or length is not None else {}
        got = self._get(key, {**options, "if_match": tag} if tag else options, tag)
        return iter(()) if got is None else self._pieces(key, got)

    def download(self, key: str, target: Path) -> Downloaded:
        import obstore

        digest = sha256()
        with self._translate(key):
            got = obstore.get(self._store, key)
        with target.open("wb") as file:
            for piece in self._pieces(key, got):
                digest.update(piece)
                file.write(piece)
            if file.tell() != got.meta["size"]:
                raise changed(self._name, key)
        return Downloaded(_stat(got.meta), digest.hexdigest())

    def upload(self, key: str, source: Path, *, if_absent: bool = False, media_type: str | None = None) -> Stored:
        size = source.stat().st_size
        if size <= PART_BYTES:
            return self.put(key, source.read_bytes(), if_absent=if_absent, media_type=media_type)
        if if_absent and self._has(key):
            raise exists(self._name, key)
        return self._upload_parts(key, source, max(PART_BYTES, size // MAX_PARTS), media_type)

    def put(self, key: str, data: bytes, *, if_absent: bool = False, media_type: str | None = None) -> Stored:
        import obstore

        mode: Any = "create" if if_absent else "overwrite"
        with self._translate(key):
            obstore.put(self._store, key, data, mode=mode, use_multipart=False, attributes=_attributes(media_type))
        return Stored(len(data), sha256(data).hexdigest())

    def delete(self, keys: Sequence[str]) -> None:
        for start in range(0, len(keys), DELETE_BATCH_KEYS):
            self._delete(keys[start : start + DELETE_BATCH_KEYS])

    def locate(self, key: str) -> Path | None:
        return None

    def begin(self) -> StagedFile:
        return StagedFile(self._spool, self._keep)

    def clear(self) -> None:
        clear_staged(self._spool)

    def _walk(self, folder: str, after: str, page: int) -> Iterator[Stat]:
        import obstore

        with self._translate(folder):
            for found in obstore.list(self._store, folder or None, offset=after or None, chunk_size=page):
                # Not every store knows an offset.
                shown = (each for each in found if each["path"] > after)
                yield from (
                    _stat(each) for each in shown if folder or not each["path"].startswith(f"{RESERVED_FOLDER}/")
                )

    def _get(self, key: str, options: Any, tag: str | None) -> "GetResult | None":
        """The object or range, of the version with this tag if there is one; None when it begins after the end."""
        import obstore
        from obstore.exceptions import GenericError

        with self._translate(key):
            try:
                got = obstore.get(self._store, key, options=options)
            except GenericError as error:
                if any(words in str(error) for words in RANGE_ERRORS):
                    return None
                raise
        if tag and _stat(got.meta).tag != tag:  # not every store heeds the condition
            raise changed(self._name, key)
        return got

    def _pieces(self, key: str, got: "GetResult") -> Iterator[bytes]:
        with self._translate(key):
            yield from got.stream(PIECE_BYTES)

    def _upload_parts(self, key: str, source: Path, part: int, media_type: str | None) -> Stored:
        import obstore

        digest, size = sha256(), 0

        def pieces() -> Iterator[bytes]:
            nonlocal size
            with source.open("rb") as file:
                while piece := file.read(PIECE_BYTES):
                    digest.update(piece)
                    size += len(piece)
                    yield piece

        with self._translate(key):
            obstore.put(
                self._store,
                key,
                pieces(),
                chunk_size=part,
                max_concurrency=CONCURRENT_PARTS,
                attributes=_attributes(media_type),
            )
        if self.stat(key).size != size:
            raise changed(self._name, key)
        return Stored(size, digest.hexdigest())

    def _has(self, key: str) -> bool:
        try:
            self.stat(key)
        except NotFound:
            return False
        return True

    def _keep(self, aside: Path, key: str) -> bool:
        try:
            self.upload(key, aside, if_absent=True)
        except Conflict as error:
            if error.code == "storage.exists":
                return False
            raise
        return True

    def _delete(self, keys: Sequence[str]) -> None:
        import obstore

        with self._translate(keys[0] if len(keys) == 1 else f"{len(keys)} objects"):
            try:
                obstore.delete(self._store, keys)
            except FileNotFoundError:  # one was not there; some stores stop at it
                for key in keys:
                    with suppress(FileNotFoundError):
                        obstore.delete(self._store, key)

    @contextmanager
    def _translate(self, key: str) -> Iterator[None]:
        from obstore.exceptions import BaseError

        try:
            yield
        except (BaseError, FileNotFoundError) as error:
            # What obstore says in full may hold addresses with signatures, so it ends here.
            raise explain(self._name, key, error, self._secrets) from None


def _stat(meta: "ObjectMeta") -> Stat:
    tag = meta["e_tag"] or meta["version"] or ""
    return Stat(meta["path"], meta["size"], meta["last_modified"], tag)


def _attributes(media_type: str | None) -> Any:  # obstore's own type is not there at run time
    return {"Content-Type": media_type} if media_type else None
