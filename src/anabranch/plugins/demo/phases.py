"""Resumable work in phases: each makes an artifact from the previous one, and saves a checkpoint that names it."""

import hashlib
import time
from collections.abc import Callable

from anabranch import Context, Interrupted, Transient
from anabranch.canonical import Json, JsonObject
from anabranch.strict_model import StrictModel

__all__ = ["Phases", "make_artifact", "work_in_phases"]

ARTIFACT_BYTES = 4096
At = Callable[[str, int], None]


class Phases(StrictModel):
    """How many phases there were, and the SHA-256 of the last artifact."""

    phases: int
    sha256: str


def work_in_phases(phases: int, seconds: float, ctx: Context, at: At = lambda _moment, _phase: None) -> Phases:
    """Run the remaining phases; `at` is called when each is `begun`, `made` and `saved`."""
    done, artifact, file = _go_on_from(ctx)
    for phase in range(done + 1, phases + 1):
        ctx.progress(phase - 1, phases, f"phase {phase}")
        at("begun", phase)
        _take_time(seconds, ctx)
        artifact = make_artifact(artifact, phase)
        before, file = file, _store(ctx, phase, artifact)
        at("made", phase)
        ctx.checkpoint(f"phase {phase}", {"done": phase, "file": file})
        at("saved", phase)
        if before:
            ctx.work.remove(before)
    return Phases(phases=phases, sha256=hashlib.sha256(artifact).hexdigest())


def make_artifact(before: bytes, phase: int) -> bytes:
    """The artifact of a phase: it depends only on the previous one."""
    return hashlib.shake_256(before + phase.to_bytes(4, "big")).digest(ARTIFACT_BYTES)


def _go_on_from(ctx: Context) -> tuple[int, bytes, Json]:
    """The last completed phase, its artifact and its file; phase 0 when the file is missing or incomplete."""
    saved = ctx.resume()
    if saved is None or not isinstance(saved.state, dict) or "file" not in saved.state:
        return 0, b"", None
    path = ctx.work.fetch(saved.state["file"])
    return (int(str(saved.state["done"])), path.read_bytes(), saved.state["file"]) if path else (0, b"", None)


def _store(ctx: Context, phase: int, artifact: bytes) -> JsonObject:
    """Write an artifact, check it, and store it where the next attempt finds it, on any machine."""
    path = ctx.scratch / f"phase-{phase}"
    path.write_bytes(artifact)
    file = ctx.work.put(path)
    if file["sha256"] != hashlib.sha256(artifact).hexdigest():
        raise Transient(f"{path} does not contain what was written to it")
    path.unlink()
    return file


def _take_time(seconds: float, ctx: Context) -> None:
    """Simulate work, and stop when the handler is asked to: the checkpoint is enough to continue."""
    end = time.monotonic() + seconds
    while True:
        if ctx.stopping or ctx.cancelled:
            raise Interrupted
        if (left := end - time.monotonic()) <= 0:
            return
        time.sleep(min(left, 0.05))
