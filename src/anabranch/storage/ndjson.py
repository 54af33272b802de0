"""Lists as lines of JSON: work files between the tasks of a job, and outputs."""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, JsonValue

from anabranch.storage.task_storage import TaskStorage
from anabranch.strict_model import StrictModel

__all__ = ["NDJSON", "Output", "put_output", "read_lines", "write_lines"]

NDJSON = "application/x-ndjson"
Line = TypeVar("Line", bound=BaseModel)


class Output(StrictModel):
    """What a job made: a file, or a table."""

    kind: str
    href: str
    media_type: str
    size: int
    sha256: str


def put_output(storage: TaskStorage, path: Path, kind: str) -> Output:
    """A list as an output of the job."""
    made = storage.put(path, media_type=NDJSON)
    return Output(kind=kind, href=made.address, media_type=NDJSON, size=made.size, sha256=made.sha256)


def write_lines(
    path: Path, lines: Iterable[BaseModel | Mapping[str, JsonValue]], *, exclude_none: bool = False
) -> Path:
    """The file, written as the lines come; `exclude_none` leaves out what models don't have."""
    with path.open("w") as file:
        for line in lines:
            if isinstance(line, BaseModel):
                file.write(f"{line.model_dump_json(exclude_none=exclude_none)}\n")
            else:
                file.write(f"{json.dumps(line, ensure_ascii=False)}\n")
    return path


def read_lines(paths: Iterable[Path], model: type[Line]) -> Iterator[Line]:
    """The lines of some files, in order."""
    for path in paths:
        with path.open() as lines:
            yield from map(model.model_validate_json, lines)
