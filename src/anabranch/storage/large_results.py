"""Stores large results in the work area, with a reference in the database; readers get the result (E20)."""

import hashlib
import secrets
import tempfile
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

from anabranch.canonical import Json, JsonObject, decode, encode
from anabranch.errors import Conflict, Permanent
from anabranch.storage.attempt_keys import JOBS_FOLDER as FILES
from anabranch.storage.attempt_keys import segment
from anabranch.storage.tiers import Tier

__all__ = ["REFERENCE_KEY", "Results", "is_reference"]

REFERENCE_KEY = "anabranch:reference"
OUTPUTS_KEY = "anabranch:outputs"
RESULTS_FOLDER = "results"
JOB_NODE = "~job"  # where a node's name would be; none looks like this
MEDIA_TYPE = "application/json"


class Results:
    """Stores results over the inline limit in the work area, and loads them again. Methods block."""

    def __init__(
        self, work: Tier, *, inline: int = 1_000_000, largest: int = 256_000_000, spool: Path | None = None
    ) -> None:
        """Keep results up to `inline` bytes in the database, and refuse those over `largest`.

        A large result that must be a local file is written to the folder `spool`, without a name.
        """
        self.work = work
        self._inline = inline
        self._largest = largest
        self._spool = spool

    def is_large(self, result: str) -> bool:
        """Whether a result goes to the work area; a cheap answer for short ones."""
        return len(result) * 4 > self._inline and len(result.encode()) > self._inline

    def put_aside(self, job_id: str, node: str, attempt: str, result: str) -> str:
        """Write a large result under a key of its own, which no other attempt can overwrite; the reference, as JSON."""
        data = result.encode()
        self._check_size(len(data))
        key = _key(job_id, node, attempt)
        stored = self.work.put(key, data, if_absent=True, media_type=MEDIA_TYPE)
        return _reference(key, stored.size, stored.sha256)

    def put_job_aside(self, job_id: str, result: JsonObject) -> JsonObject:
        """A job's result as it is stored: itself, or a reference where it is large. No workflow's output looks so."""
        text = encode(result)
        return (
            {REFERENCE_KEY: decode(self.put_aside(job_id, JOB_NODE, "result", text))} if self.is_large(text) else result
        )

    def put_pieces_aside(self, job_id: str, node: str, attempt: str, pieces: Iterable[bytes]) -> str:
        """Write a result that comes in pieces, as JSON, under a key of its own; the reference, as JSON."""
        key, digest, size = _key(job_id, node, attempt), hashlib.sha256(), 0
        aside = self.work.begin()
        try:
            for piece in pieces:
                size += len(piece)
                self._check_size(size)
                digest.update(piece)
                aside.write(piece)
            if not aside.keep(key):
                raise Conflict("storage.exists", f"there is a {key} already")
        finally:
            aside.discard()
        return _reference(key, size, digest.hexdigest())

    def copy(self, job_id: str, node: str, attempt: str, result: Any) -> tuple[str, str | None]:  # as stored with a job
        """A job's result as that of the task it ran for: as JSON where it is small, else its reference. It is never in
        memory as a whole."""
        pieces, begun = self.pieces(result), bytearray()
        for piece in pieces:
            begun += piece
            if len(begun) > self._inline:
                return "", self.put_pieces_aside(job_id, node, attempt, chain((bytes(begun),), pieces))
        return begun.decode(), None

    def remove(self, job_id: str, limit: int) -> int:
        """Remove up to `limit` of the objects that a job has in the work area, its tasks' files too; how many."""
        for folder in (RESULTS_FOLDER, FILES):
            if found := self.work.list(f"{folder}/{segment(job_id)}", limit=limit):
                self.work.delete([stat.key for stat in found])
                return len(found)
        return 0

    def bring_back(self, value: Any) -> Json:  # JSON from the database
        """A task's result, loaded if it is a reference. Values inside it are never resolved (G7)."""
        if is_reference(value):
            return decode(b"".join(self._stream(value[REFERENCE_KEY])))
        return value  # type: ignore[no-any-return]  # JSON

    def bring_all_back(self, result: Any) -> Json:  # what a workflow gave, or what app.job_result made
        """A job's result: as its workflow's output says, or the outputs of its last nodes by name."""
        if not isinstance(result, dict) or set(result) != {OUTPUTS_KEY}:
            return self.bring_back(result)
        return {node: self._output(output) for node, output in result[OUTPUTS_KEY].items()}

    def pieces(self, result: Any) -> Iterator[bytes]:  # as bring_all_back takes it
        """The same as JSON, piece by piece: what was put aside is not decoded, however large it is."""
        if is_reference(result):
            yield from self._stream(result[REFERENCE_KEY])
        elif not isinstance(result, dict) or set(result) != {OUTPUTS_KEY}:
            yield encode(result).encode()
        else:
            for place, (node, output) in enumerate(result[OUTPUTS_KEY].items()):
                yield f"{',' if place else '{'}{encode(node)}:".encode()
                yield from self._output_pieces(output)
            yield b"}" if result[OUTPUTS_KEY] else b"{}"

    def collect(self, many: Any) -> JsonObject:  # as app.lane_output makes it
        """The output of a node with many tasks, with the results that were put aside in their place."""
        if "items" not in many:
            return dict(many)
        return {**many, "items": [self._one(item) for item in many["items"]]}

    def open(self, reference: Any) -> BinaryIO:  # as a report names it
        """A result that was put aside as a file of this machine."""
        if place := self.work.locate(str(reference["href"])):
            return place.open("rb")
        return self.spool(self._stream(reference))

    def spool(self, pieces: Iterable[bytes]) -> BinaryIO:
        """A file of these pieces that is gone when it is closed."""
        if self._spool:
            self._spool.mkdir(parents=True, exist_ok=True)
        file = tempfile.TemporaryFile(dir=self._spool)  # noqa: SIM115  # the caller closes it
        for piece in pieces:
            file.write(piece)
        file.flush()
        return file

    def _check_size(self, size: int) -> None:
        if size > self._largest:
            raise Permanent(
                f"the result has {size} bytes or more; at most {self._largest} are kept",
                code="task.result_too_large",
                remedy="Write large data to storage and return its address.",
            )

    def _stream(self, reference: Any) -> Iterator[bytes]:  # as a report names it
        return self.work.stream(str(reference["href"]))

    def _output(self, output: Any) -> Json:  # as app.job_result makes it
        return self.collect(output["many"]) if "many" in output else self._one(output)

    def _output_pieces(self, output: Any) -> Iterator[bytes]:  # as app.job_result makes it
        if "many" not in output:
            yield from self._one_pieces(output)
        elif "items" not in output["many"]:
            yield encode(output["many"]).encode()
        else:
            counts = {name: count for name, count in output["many"].items() if name != "items"}
            yield f'{encode(counts)[:-1]},"items":['.encode()
            for place, item in enumerate(output["many"]["items"]):
                yield b"," if place else b""
                yield from self._one_pieces(item)
            yield b"]}"

    def _one(self, stored: Any) -> Json:  # {"value"} or {"reference"}
        return self.bring_back({REFERENCE_KEY: stored["reference"]}) if "reference" in stored else stored["value"]

    def _one_pieces(self, stored: Any) -> Iterator[bytes]:  # {"value"} or {"reference"}
        return self._stream(stored["reference"]) if "reference" in stored else iter((encode(stored["value"]).encode(),))

    def task_pieces(self, value: Any) -> Iterator[bytes]:  # JSON from the database
        """A task's result as JSON, piece by piece, with what was put aside in its place."""
        return self._stream(value[REFERENCE_KEY]) if is_reference(value) else iter((encode(value).encode(),))


def is_reference(value: object) -> bool:
    """Whether a value is a reference, or looks like one: handlers may not return such."""
    return isinstance(value, dict) and set(value) == {REFERENCE_KEY}


def _key(job_id: str, node: str, attempt: str) -> str:
    """A new key, with a token of its own: a database that was restored to an earlier point gives numbers of attempts
    twice, and what another history refers to must not be overwritten."""
    name = node if node == JOB_NODE else segment(node)
    return f"{RESULTS_FOLDER}/{segment(job_id)}/{name}/{attempt}-{secrets.token_hex(8)}.json"


def _reference(key: str, size: int, digest: str) -> str:
    return f'{{"href":"{key}","size":{size},"sha256":"{digest}"}}'
