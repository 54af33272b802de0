"""The work area of a job: files that outlive an attempt, each task's in a folder of its own, removed after the job."""

import re
from pathlib import Path

from anabranch.engine.canonical import sha256

__all__ = ["segment", "task_folder"]

_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")


def task_folder(root: Path, job_id: str, node: str, index: int | str) -> Path:
    """Where a task keeps files for its next attempt and for others; no two tasks share one."""
    return root / job_id / segment(node) / segment(str(index))


def segment(text: str) -> str:
    """The text where it is plain enough for a file, else its hash, which no plain text looks like."""
    return text if _PLAIN.fullmatch(text) else f"~{sha256(text)}"
