"""Keys of objects that attempts write: each holds its attempt, so that no late one overwrites a successor's bytes."""

from dataclasses import dataclass

from anabranch.engine.addresses import check_path
from anabranch.engine.work import segment

__all__ = ["AttemptKey", "attempt_key", "parse_key"]

ROOT = "jobs"


@dataclass(frozen=True)
class AttemptKey:
    """The parts of a key; node and index are as `engine.work.segment` spells them."""

    job: str
    node: str
    index: str
    attempt: int
    name: str

    def __str__(self) -> str:
        return "/".join((ROOT, self.job, self.node, self.index, str(self.attempt), self.name))


def attempt_key(job_id: str, node: str, index: int | str, attempt: int, name: str) -> AttemptKey:
    """The key of a file that an attempt writes; the name may have folders."""
    key = AttemptKey(segment(job_id), segment(node), segment(str(index)), attempt, check_path(name))
    check_path(str(key))
    return key


def parse_key(key: str) -> AttemptKey | None:
    """The parts of a key that an attempt wrote; None where it is none."""
    parts = key.split("/", 5)
    if len(parts) < 6 or parts[0] != ROOT or not parts[4].isdecimal() or not all(parts):
        return None
    return AttemptKey(parts[1], parts[2], parts[3], int(parts[4]), parts[5])
