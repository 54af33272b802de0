"""Large results live in the file store, and a reference takes their place; readers don't notice (E20)."""

import hashlib
from typing import Any

from anabranch.engine.canonical import Json, decode
from anabranch.engine.errors import Permanent
from anabranch.engine.ports import FileStore

__all__ = ["REFERENCE", "Results", "is_reference"]

REFERENCE = "anabranch:reference"
OUTPUTS = "anabranch:outputs"
FOLDER = "results"


class Results:
    """Puts results over the inline limit aside, and brings them back."""

    def __init__(self, files: FileStore, *, inline: int = 1_000_000, largest: int = 256_000_000) -> None:
        """Keep results up to `inline` bytes in the database, and refuse those over `largest`."""
        self._files = files
        self._inline = inline
        self._largest = largest

    def is_large(self, result: str) -> bool:
        """Whether a result goes to the file store; a cheap answer for short ones."""
        return len(result) * 4 > self._inline and len(result.encode()) > self._inline

    def put_aside(self, job_id: str, node: str, attempt: str, result: str) -> str:
        """Write a large result under a key of its own attempt, which no other can overwrite; the reference, as JSON."""
        data = result.encode()
        if len(data) > self._largest:
            raise Permanent(
                f"the result has {len(data)} bytes; at most {self._largest} are kept",
                code="task.result_too_large",
                remedy="Write large data to storage and return its address.",
            )
        key = f"{FOLDER}/{job_id}/{node}/{attempt}.json"
        digest = hashlib.sha256(data).hexdigest()
        return f'{{"href":"{self._files.put(key, data)}","size":{len(data)},"sha256":"{digest}"}}'

    def remove(self, job_id: str, limit: int) -> int:
        """Remove up to `limit` of the results that a job put aside, also those that were never accepted; how many."""
        return self._files.remove(f"{FOLDER}/{job_id}", limit)

    def bring_back(self, value: Any) -> Json:  # JSON from the database
        """A task's result, or what its reference stands for. Values inside it are never looked at (G7)."""
        if is_reference(value):
            return decode(self._files.get(str(value[REFERENCE]["href"])))
        return value  # type: ignore[no-any-return]  # JSON

    def bring_all_back(self, result: Any) -> Json:  # what a workflow gave, or what app.job_result made
        """A job's result: as its workflow's output says, or the outputs of its last nodes by name."""
        if not isinstance(result, dict) or set(result) != {OUTPUTS}:
            return result  # type: ignore[no-any-return]  # JSON
        return {node: self._output(output) for node, output in result[OUTPUTS].items()}

    def collect(self, many: Any) -> dict[str, Json]:  # as app.lane_output makes it
        """The output of a node with many tasks, with the results that were put aside in their place."""
        if "items" not in many:
            return dict(many)
        return {**many, "items": [self._one(item) for item in many["items"]]}

    def _output(self, output: Any) -> Json:  # as app.job_result makes it
        return self.collect(output["many"]) if "many" in output else self._one(output)

    def _one(self, stored: Any) -> Json:  # {"value"} or {"reference"}
        return self.bring_back({REFERENCE: stored["reference"]}) if "reference" in stored else stored["value"]


def is_reference(value: object) -> bool:
    """Whether a value is a reference, or looks like one: handlers may not return such."""
    return isinstance(value, dict) and set(value) == {REFERENCE}
