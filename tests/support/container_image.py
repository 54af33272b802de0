"""The image of the project, built without a container service, and containers that runc runs of it."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from tests.support.pages import ROOT
from tests.support.waiting import PATIENCE_SECONDS

__all__ = ["PROGRAMS", "USER", "Container", "Image"]

PROGRAMS = ("buildah", "debootstrap", "runc")
BASE = ROOT / ".cache" / "deployment-base.tar"
USER = 10001
CERTIFICATES = "/etc/ssl/certs"


def make_base() -> Path:
    """A minimal Debian with Python, as an archive; it is made once."""
    if not BASE.exists():
        with tempfile.TemporaryDirectory() as folder:
            packages = "--include=ca-certificates,python3-venv"
            subprocess.run(["debootstrap", "--variant=minbase", packages, "bookworm", folder], check=True)
            part = BASE.with_suffix(".part")
            subprocess.run(["tar", "-C", folder, "--numeric-owner", "--one-file-system", "-cf", part, "."], check=True)
            part.rename(BASE)
    return BASE


class Image:
    """The image, and containers of it whose network is that of the machine."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root = self._build()

    def _build(self) -> str:
        """The root folder of a container of the image; nothing is kept elsewhere."""
        context = self.folder / "context"
        shutil.copytree(ROOT / "deploy" / "image", context / "deploy" / "image")
        hatch = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(context / "dist")]
        subprocess.run(hatch, cwd=ROOT, check=True)
        base = self.buildah("from", "scratch")
        self.buildah("add", base, str(make_base()), "/")
        self.buildah("commit", "--rm", base, "base")
        (self.folder / "pip.conf").write_text(f"[global]\ncert = {CERTIFICATES}/ca-certificates.crt\n")
        mounts = (f"{CERTIFICATES}:{CERTIFICATES}:ro", f"{self.folder}/pip.conf:/etc/pip.conf:ro")
        options = [word for mount in mounts for word in ("--volume", mount)]
        file = str(context / "deploy" / "image" / "Dockerfile")
        options += ["--isolation=chroot", "--build-arg", "BASE=localhost/base", "-f", file, "-t", "ours"]
        self.buildah("build-using-dockerfile", *options, str(context))
        return self.buildah("mount", self.buildah("from", "ours"))

    def buildah(self, *arguments: str) -> str:
        """What it prints."""
        places = [f"--root={self.folder}/containers", f"--runroot={self.folder}/run", "--storage-driver=vfs"]
        done = subprocess.run(["buildah", *places, *arguments], stdout=subprocess.PIPE, text=True, check=True)
        return done.stdout.strip()

    @cached_property
    def configuration(self) -> dict[str, Any]:
        """What the image says about how it is run."""
        found = json.loads(self.buildah("inspect", "--type=image", "ours"))
        return found["OCIv1"]["config"]  # type: ignore[no-any-return]  # as it is specified

    @contextmanager
    def run(
        self, name: str, arguments: Sequence[str], mounts: Mapping[str, Path], **variables: str
    ) -> Iterator["Container"]:
        """A container whose command runs, on a read-only root, without capabilities; nothing of it stays."""
        bundle = self.folder / name
        (bundle / "home").mkdir(parents=True)
        os.chown(bundle / "home", USER, USER)
        subprocess.run(["runc", "spec"], cwd=bundle, check=True)
        specification = json.loads((bundle / "config.json").read_text())
        self._restrict(specification, bundle, mounts)
        process = specification["process"]
        process["args"] = [*self.configuration["Entrypoint"], *arguments]
        process["env"] = [*self.configuration["Env"], *(f"ANABRANCH_{key}={value}" for key, value in variables.items())]
        (bundle / "config.json").write_text(json.dumps(specification))
        with (bundle / "log").open("wb") as log:
            command = ["runc", f"--root={self.folder}/runc", "run", "--bundle", str(bundle), name]
            running = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            yield Container(self.folder / "runc", name, running, bundle / "log")
        finally:
            if running.poll() is None:
                subprocess.run(["runc", f"--root={self.folder}/runc", "kill", name, "KILL"], check=False)
                running.wait()

    def _restrict(self, specification: dict[str, Any], bundle: Path, mounts: Mapping[str, Path]) -> None:
        specification["root"] = {"path": self.root, "readonly": True}
        process, linux = specification["process"], specification["linux"]
        process |= {"terminal": False, "user": {"uid": USER, "gid": USER}, "cwd": "/var/lib/anabranch"}
        process |= {"noNewPrivileges": True, "capabilities": {}}
        linux["namespaces"] = [one for one in linux["namespaces"] if one["type"] not in ("network", "cgroup")]
        linux.pop("resources", None)
        binds = {"/var/lib/anabranch": bundle / "home", **mounts}
        specification["mounts"] = [one for one in specification["mounts"] if one["type"] != "cgroup"] + [
            {"destination": "/tmp", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "nodev"]},
            *(
                {"destination": place, "type": "bind", "source": str(source), "options": ["rbind", "rw"]}
                for place, source in binds.items()
            ),
        ]


class Container:
    """A container that runs."""

    def __init__(self, state: Path, name: str, process: subprocess.Popen[bytes], log: Path) -> None:
        self._state, self._name, self._process, self._log = state, name, process, log

    def stop(self) -> int:
        """Its exit code after SIGTERM."""
        subprocess.run(["runc", f"--root={self._state}", "kill", self._name, "TERM"], check=True)
        return self.wait()

    def wait(self) -> int:
        """Its exit code, once it has ended."""
        return self._process.wait(PATIENCE_SECONDS)

    def log(self) -> str:
        """What it printed."""
        return self._log.read_text()
