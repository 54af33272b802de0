"""Lists of files as outputs of a job."""

from pathlib import Path

from anabranch.engine.worker.context import Context
from anabranch.storage.ndjson import NDJSON
from anabranch.strict_model import StrictModel

__all__ = ["Output", "put_output"]


class Output(StrictModel):
    """A file that a job wrote."""

    kind: str
    href: str
    media_type: str
    size: int
    sha256: str


def put_output(ctx: Context, path: Path, kind: str) -> Output:
    """A list as an output of the job."""
    made = ctx.storage.put(path, media_type=NDJSON)
    return Output(kind=kind, href=made.address, media_type=NDJSON, size=made.size, sha256=made.sha256)
