"""The processor time of a benchmark's processes, by the part of the platform that they are."""

import os
from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path

__all__ = ["processor_seconds"]

# By how an argument of the command line begins; other processes belong to the part of their parent.
PARTS = {
    "anabranch.sandbox.server": "sandbox",
    "from multiprocessing.forkserver": "handlers",
    "worker": "worker",
    "orchestrator": "orchestrator",
    "--unix_socket_directories": "postgres",
}
TICKS = os.sysconf("SC_CLK_TCK")


def processor_seconds() -> Mapping[str, float]:
    """The seconds of this process (`submitter`) and of all processes below it so far, those that ended included."""
    ticks, children = _read_processes()
    found: Counter[str] = Counter()
    open_ends = [(os.getpid(), "submitter")]
    while open_ends:
        pid, part = open_ends.pop()
        found[part] += ticks[pid]
        open_ends += ((child, _part(child, part)) for child in children[pid])
    return {part: count / TICKS for part, count in found.items()}


def _read_processes() -> tuple[Counter[int], dict[int, list[int]]]:
    """The ticks of every process with its reaped children, and the children of each."""
    ticks: Counter[int] = Counter()
    children: dict[int, list[int]] = defaultdict(list)
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):  # it has ended
            continue
        ticks[int(folder.name)] = sum(map(int, fields[11:15]))
        children[int(fields[1])].append(int(folder.name))
    return ticks, children


def _part(pid: int, inherited: str) -> str:
    try:
        arguments = Path(f"/proc/{pid}/cmdline").read_text(errors="replace").split("\0")
    except (FileNotFoundError, ProcessLookupError):
        return inherited
    return next((PARTS[begin] for begin in PARTS for each in arguments if each.startswith(begin)), inherited)
