"""Large results live in the file store, and a reference takes their place; readers don't notice (E20)."""

import hashlib
from typing import Any

from anabranch.engine.canonical import Json, decode
from anabranch.engine.errors import Permanent
from anabranch.engine.model import Claim
from anabranch.engine.ports import FileStore

__all__ = ["REFERENCE", "Results", "is_reference"]

REFERENCE = "anabranch:reference"


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

    def put_aside(self, claim: Claim, result: str) -> str:
        """Write a large result under a key of its own attempt, which no other can overwrite; the reference, as JSON."""
        data = result.encode()
        if len(data) > self._largest:
            raise Permanent(
                f"the result has {len(data)} bytes; at most {self._largest} are kept",
                code="task.result_too_large",
                remedy="Write large data to storage and return its address.",
            )
        key = f"results/{claim.lane.job_id}/{claim.lane.node}/{claim.key.lane}-{claim.key.place}-{claim.attempt}.json"
        digest = hashlib.sha256(data).hexdigest()
        return f'{{"href":"{self._files.put(key, data)}","size":{len(data)},"sha256":"{digest}"}}'

    def bring_back(self, value: Any) -> Json:  # JSON from the database
        """A task's result, or what its reference stands for. Values inside it are never looked at (G7)."""
        if is_reference(value):
            return decode(self._files.get(str(value[REFERENCE]["href"])))
        return value  # type: ignore[no-any-return]  # JSON

    def bring_all_back(self, outputs: Any) -> Json:  # the result of a job, as app.job_result makes it
        """A job's result: the outputs of its last nodes, each an aggregate or the results of its tasks."""
        if not isinstance(outputs, dict):
            return self.bring_back(outputs)
        return {node: self._bring_output_back(output) for node, output in outputs.items()}

    def _bring_output_back(self, output: Any) -> Json:  # as above
        if isinstance(output, dict) and set(output) == {"count", "items"} and isinstance(output["items"], list):
            return {**output, "items": [self.bring_back(item) for item in output["items"]]}
        return self.bring_back(output)


def is_reference(value: object) -> bool:
    """Whether a value is a reference, or looks like one: handlers may not return such."""
    return isinstance(value, dict) and set(value) == {REFERENCE}
