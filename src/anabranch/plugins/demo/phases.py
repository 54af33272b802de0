"""Work in phases that outlives its process: each makes an artifact from the one before, and a checkpoint names it."""

import hashlib
import os
import time
from collections.abc import Callable
from pathlib import Path

from anabranch import Checkpoint, Context, Interrupted, Transient
from anabranch.engine.canonical import Json

__all__ = ["make_artifact", "work_in_phases"]

SIZE = 4096
At = Callable[[str, int], None]


def work_in_phases(phases: int, seconds: float, ctx: Context, at: At = lambda _moment, _phase: None) -> dict[str, Json]:
    """Go through the phases that are left; `at` hears of each when it is `begun`, `made` and `saved`."""
    done, artifact = _go_on_from(ctx.resume(), ctx.work)
    for phase in range(done + 1, phases + 1):
        ctx.progress(phase - 1, phases, f"phase {phase}")
        at("begun", phase)
        _take_time(seconds, ctx)
        artifact = make_artifact(artifact, phase)
        digest = _write_whole(_file(ctx.work, phase), artifact, ctx.attempt)
        at("made", phase)
        ctx.checkpoint(f"phase {phase}", {"done": phase, "sha256": digest})
        at("saved", phase)
        _file(ctx.work, phase - 1).unlink(missing_ok=True)
    return {"phases": phases, "sha256": _digest(artifact)}


def make_artifact(before: bytes, phase: int) -> bytes:
    """The artifact of a phase: it depends on the one before and on nothing else."""
    return hashlib.shake_256(before + phase.to_bytes(4, "big")).digest(SIZE)


def _go_on_from(saved: Checkpoint | None, folder: Path) -> tuple[int, bytes]:
    """The last phase that is done, and its artifact; none when what the checkpoint names is not there whole."""
    if saved is None or not isinstance(saved.state, dict):
        return 0, b""
    done = int(str(saved.state["done"]))
    try:
        artifact = _file(folder, done).read_bytes()
    except FileNotFoundError:
        return 0, b""
    return (done, artifact) if _digest(artifact) == saved.state["sha256"] else (0, b"")


def _take_time(seconds: float, ctx: Context) -> None:
    """Stand for real work, and stop where the handler is told to: what is saved is enough to go on from."""
    end = time.monotonic() + seconds
    while True:
        if ctx.stopping or ctx.cancelled:
            raise Interrupted
        if (left := end - time.monotonic()) <= 0:
            return
        time.sleep(min(left, 0.05))


def _write_whole(path: Path, data: bytes, attempt: int) -> str:
    """Write aside, look at what is there, and put it in its place at once (W7); its checksum."""
    aside = path.with_name(f"{path.name}.{attempt}")
    with aside.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    digest = _digest(aside.read_bytes())
    if digest != _digest(data):
        raise Transient(f"{aside} does not hold what was written to it")
    aside.replace(path)
    return digest


def _file(folder: Path, phase: int) -> Path:
    return folder / f"phase-{phase}"


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
