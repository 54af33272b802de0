"""Keys of objects that attempts write: each holds its attempt, so that no late one overwrites a successor's bytes."""

import re
import secrets
from dataclasses import dataclass

from anabranch.canonical import sha256
from anabranch.storage.addresses import check_path

__all__ = ["JOBS_FOLDER", "AttemptKey", "attempt_key", "parse_key", "segment"]

JOBS_FOLDER = "jobs"
_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
_ATTEMPT = re.compile(r"([0-9]+)-([0-9a-f]{8})")


@dataclass(frozen=True)
class AttemptKey:
    """The parts of a key; node and index are as `segment` spells them.

    The token is new for each object, or for a folder of them: a job that was purged and forgotten may come back under
    the same id.
    """

    job: str
    node: str
    index: str
    attempt: int
    token: str
    name: str

    def __str__(self) -> str:
        return "/".join((JOBS_FOLDER, self.job, self.node, self.index, f"{self.attempt}-{self.token}", self.name))


def attempt_key(job_id: str, node: str, index: int | str, attempt: int, name: str) -> AttemptKey:
    """A new key for a file that an attempt writes; the name may have folders."""
    token = secrets.token_hex(4)
    key = AttemptKey(segment(job_id), segment(node), segment(str(index)), attempt, token, check_path(name))
    check_path(str(key))
    return key


def parse_key(key: str) -> AttemptKey | None:
    """The parts of a key that an attempt wrote; None where it is none."""
    parts = key.split("/", 5)
    if len(parts) < 6 or parts[0] != JOBS_FOLDER or not all(parts) or not (tried := _ATTEMPT.fullmatch(parts[4])):
        return None
    return AttemptKey(parts[1], parts[2], parts[3], int(tried[1]), tried[2], parts[5])


def segment(text: str) -> str:
    """The text where it is plain enough for a file, else its hash, which no plain text looks like."""
    return text if _PLAIN.fullmatch(text) else f"~{sha256(text)}"
