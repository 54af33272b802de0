"""Every attack from a sandbox with Landlock up to an ABI: `python siege.py FOLDER ABI`; JSON of the outcome of each."""

import json
import os
import socket
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

from attacks import ATTACKS  # type: ignore[import-not-found]  # it lies beside this file, in no package

from anabranch.errors import TaskError
from anabranch.sandbox import Limits, Sandbox

LIMITS = Limits(memory=512 * 2**20, cpu_seconds=20, file_bytes=2**20)


def main(folder: Path, abi: int) -> None:
    """Lay out the targets, attack, and look at them from outside after each."""
    given, hidden, scratch = (folder / name for name in ("given", "hidden", "scratch"))
    for made in (given, hidden, scratch):
        made.mkdir()
    source, outside = given / "source.tif", hidden / "outside.txt"
    for path in (source, outside):
        path.write_text("of others")
        os.setxattr(path, "user.note", b"kept")
    sandbox = Sandbox("attacks", {"PYTHONPATH": str(Path(__file__).parent)}, newest_landlock=abi)
    outcomes = {}
    for name in ATTACKS:
        with subprocess.Popen(["sleep", "60"]) as victim:
            before = look(victim, given, hidden, scratch)
            try:
                answer = sandbox.run(
                    "attack",
                    {"name": name, "targets": [victim.pid, str(outside), str(source)]},
                    limits=LIMITS, writes=[scratch], reads=[source],
                )  # fmt: skip
            except TaskError as error:
                answer = str(error)
            after = look(victim, given, hidden, scratch)
            victim.kill()
        outcomes[name] = {"errno": answer, "changed": [key for key in after if before.get(key) != after[key]]}
    privileges = sandbox.run("show_privileges", {}, limits=LIMITS, writes=[scratch])
    protections = sandbox.find_protections()
    sandbox.close()
    json.dump({"attacks": outcomes, "privileges": privileges, "landlock": protections.landlock}, sys.stdout)


def look(victim: subprocess.Popen[bytes], *folders: Path) -> dict[str, Any]:
    """All that an attack could change."""
    pid, process = victim.pid, Path(f"/proc/{victim.pid}")
    seen: dict[str, Any] = {"alive": victim.poll() is None, "host": socket.gethostname()}
    if seen["alive"]:
        seen["limits"] = (process / "limits").read_text()
        seen["priority"] = os.getpriority(os.PRIO_PROCESS, pid), os.sched_getscheduler(pid)
        seen["affinity"] = sorted(os.sched_getaffinity(pid))
        seen["tracer"] = "TracerPid:\t0" in (process / "status").read_text()
        seen["score"] = (process / "oom_score_adj").read_text()
    for path in (path for folder in folders for path in folder.rglob("*")):
        about = path.lstat()
        # What an attack leaves in its own folder is its own, unless the caller could trip over it.
        harmless = stat.S_ISREG(about.st_mode) and about.st_mode & 0o6000 == 0 and about.st_nlink == 1
        if path.parent.name == "scratch" and harmless:
            continue
        kept = path.read_text() if path.is_file() else ""
        notes = sorted(os.listxattr(path, follow_symlinks=False))
        seen[f"file {path.name}"] = [*about[:7], about.st_mtime_ns, kept, notes]
    seen["names"] = sorted(seen)
    return seen


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
