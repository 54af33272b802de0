"""Finds the programs of PostgreSQL that are installed."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from anabranch.embedded.server_user import ServerUser
from anabranch.errors import Unavailable

__all__ = ["OLDEST_MAJOR", "Binaries", "find_binaries", "find_clients"]

OLDEST_MAJOR = 15
CLIENTS = ("pg_dump", "pg_restore", "psql")
INSTALL_PATTERNS = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/usr/local/pgsql/bin", "/opt/postgresql/*/bin")


@dataclass(frozen=True)
class Binaries:
    """The server programs of one version."""

    folder: Path
    major: int
    postgis: bool

    def __getitem__(self, program: str) -> str:
        """The path of a program."""
        return str(self.folder / program)


def find_binaries(user: ServerUser, major: int | None = None) -> Binaries:
    """The newest programs that the user can run, preferably with PostGIS; of one major version if the data needs it."""
    found = [binaries for folder in _folders() if (binaries := _inspect(folder, user))]
    fit = [binaries for binaries in found if binaries.major == (major or binaries.major)]
    if fit:
        return max(fit, key=lambda binaries: (binaries.postgis, binaries.major))
    raise _wrong_version(major, found) if major and found else _missing()


def find_clients(major: int) -> Mapping[str, str]:
    """The paths of `pg_dump`, `pg_restore` and `psql` for a server of this major version: of the nearest that can."""
    found: dict[int, Path] = {}
    for folder in _folders("pg_dump"):
        version = re.search(r"\d+", _ask(str(folder / "pg_dump"), "--version"))
        if version and int(version[0]) >= major and all((folder / program).is_file() for program in CLIENTS):
            found.setdefault(int(version[0]), folder)
    if not found:
        raise Unavailable(
            "backup.no_programs",
            f"{', '.join(CLIENTS)} of PostgreSQL {major} or newer are not installed",
            remedy=_apt(f"postgresql-client-{major}"),
        )
    return {program: str(found[min(found)] / program) for program in CLIENTS}


def _folders(program: str = "postgres") -> Iterator[Path]:
    folders = [folder for pattern in INSTALL_PATTERNS for folder in Path("/").glob(pattern.lstrip("/"))]
    if path := shutil.which(program):
        folders.append(Path(os.path.realpath(path)).parent)
    if bindir := _ask("pg_config", "--bindir"):
        folders.append(Path(bindir))
    yield from dict.fromkeys(folders)


def _inspect(folder: Path, user: ServerUser) -> Binaries | None:
    if not all((folder / program).is_file() for program in ("postgres", "initdb")):
        return None
    version = re.search(r"\d+", _ask(str(folder / "postgres"), "--version"))
    if not version or int(version[0]) < OLDEST_MAJOR or not user.can_use(folder / "postgres"):
        return None
    share = _ask(str(folder / "pg_config"), "--sharedir") or f"/usr/share/postgresql/{version[0]}"
    return Binaries(folder, int(version[0]), (Path(share) / "extension" / "postgis.control").is_file())


def _ask(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=10).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return ""


def _missing() -> Unavailable:
    return Unavailable(
        "cluster.no_server",
        f"no PostgreSQL server of version {OLDEST_MAJOR} or newer is installed",
        remedy=f"{_apt('postgresql postgresql-postgis')} (or set ANABRANCH_DATABASE_URL to a server you have)",
    )


def _wrong_version(major: int, found: list[Binaries]) -> Unavailable:
    have = ", ".join(sorted({str(binaries.major) for binaries in found}))
    return Unavailable(
        "cluster.wrong_version",
        f"the data was created by PostgreSQL {major}, and only {have} is installed",
        remedy=f"{_apt(f'postgresql-{major} postgresql-{major}-postgis-3')} (or start over: `anabranch down --purge`)",
    )


def _apt(packages: str) -> str:
    sudo = "" if os.geteuid() == 0 else "sudo "
    return f"{sudo}apt-get update && {sudo}apt-get install -y {packages}"
