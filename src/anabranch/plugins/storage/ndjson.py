"""Lists of files as lines of JSON: work files between the tasks of a job, and outputs."""

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, JsonValue

from anabranch.engine.worker.context import Context
from anabranch.strict_model import StrictModel

__all__ = ["Output", "put_output", "read_lines", "write_lines"]

NDJSON = "application/x-ndjson"
Line = TypeVar("Line", bound=BaseModel)


class Output(StrictModel):
    """A file that a job wrote."""

    kind: str
    href: str
    media_type: str
    size: int
    sha256: str


def write_lines(path: Path, lines: Iterable[dict[str, JsonValue]]) -> Path:
    """The file, written."""
    with path.open("w") as file:
        for line in lines:
            file.write(f"{json.dumps(line, ensure_ascii=False)}\n")
    return path


def read_lines(paths: Sequence[Path], model: type[Line]) -> Iterator[Line]:
    """The lines of some files, in order."""
    for path in paths:
        with path.open() as lines:
            yield from map(model.model_validate_json, lines)


def put_output(ctx: Context, path: Path, kind: str) -> Output:
    """A list as an output of the job."""
    made = ctx.storage.put(path, media_type=NDJSON)
    return Output(kind=kind, href=made.address, media_type=NDJSON, size=made.size, sha256=made.sha256)
