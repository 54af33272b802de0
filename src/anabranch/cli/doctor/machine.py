"""The checks of `doctor` that concern the machine only."""

import os
import re
import resource
import shutil
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, requires, version

from anabranch.cli.doctor.finding import Finding, Status
from anabranch.embedded.binaries import find_binaries
from anabranch.embedded.home import Home
from anabranch.embedded.layout import ClusterLayout
from anabranch.embedded.server_user import choose_server_user
from anabranch.errors import TaskError
from anabranch.sandbox import Protections, Sandbox
from anabranch.settings import Settings

__all__ = [
    "check_fork_server",
    "check_home",
    "check_isolation",
    "check_limits",
    "check_packages",
    "check_programs",
    "check_python",
    "report_locks",
]

OLDEST_PYTHON = (3, 11)
NEEDED_EXTRAS = ("api", "cli", "postgres", "raster", "serving", "stac", "storage")
REQUIREMENT = re.compile(r"(?P<name>[\w.-]+)(?:\[[\w,]+\])?(?P<bounds>[^;]*)(?:; extra == '(?P<extra>\w+)')?")
TIMEOUT_SECONDS = 20
OTHER_OPEN_FILES = 200  # that the API needs besides connections: database, storage, rasters
FORK_SERVER = """
import multiprocessing, sys
child = multiprocessing.get_context("forkserver").Process(target=int)
child.start()
child.join(10)
sys.exit(child.exitcode)
"""
REMEDIES = {
    "unshare": "Allow user namespaces: sysctl kernel.unprivileged_userns_clone=1",
    "landlock": "Use a kernel of 5.13 or newer with Landlock: add it to lsm=",
    "seccomp": "Use a kernel with CONFIG_SECCOMP_FILTER, on x86-64 or aarch64",
}


def check_python() -> Finding:
    """Whether Python is new enough."""
    running = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info < OLDEST_PYTHON:
        return Finding("python", "fail", f"Python {running}", "Use Python 3.11 or newer.")
    return Finding("python", "ok", f"Python {running}, {sys.executable}")


def check_packages() -> Finding:
    """Whether the packages that a stack needs are installed and new enough."""
    wanted = [found for text in requires("anabranch") or () if (found := REQUIREMENT.match(text))]
    needed = [each for each in wanted if each["extra"] is None or each["extra"] in NEEDED_EXTRAS]
    wrong = [fault for each in needed if (fault := _find_fault(each["name"], each["bounds"]))]
    if wrong:
        extras = ",".join(NEEDED_EXTRAS)
        return Finding("packages", "fail", "; ".join(wrong), f"pip install 'anabranch[{extras}]' (or `make setup`)")
    return Finding("packages", "ok", ", ".join(f"{each['name']} {version(each['name'])}" for each in needed))


def check_programs(settings: Settings) -> Finding:
    """Whether PostgreSQL can run here, if it is needed."""
    if settings.database_url:
        return Finding("postgresql", "ok", "ANABRANCH_DATABASE_URL names a server, so a local one is not needed")
    found = find_binaries(choose_server_user(ClusterLayout(Home(settings.home)).data))
    what = f"PostgreSQL {found.major} in {found.folder}"
    if not found.postgis:
        remedy = f"apt-get install -y postgresql-{found.major}-postgis-3 (for the vector parts)"
        return Finding("postgresql", "warn", f"{what}, without PostGIS", remedy)
    return Finding("postgresql", "ok", f"{what}, with PostGIS")


def check_home(settings: Settings) -> Finding:
    """Whether the home is writable and has free disk space."""
    # The home may not exist yet: then the folder in which it will be created is checked.
    folder = next(parent for parent in (settings.home, *settings.home.parents) if parent.exists())
    if not os.access(folder, os.W_OK | os.X_OK):
        return Finding("home", "fail", f"{folder} can't be written", "Set ANABRANCH_HOME to a folder that you own.")
    free, low = shutil.disk_usage(folder).free, settings.low_disk_mb * 1_000_000
    what = f"{settings.home}, {free / 1e9:.1f} GB free"
    if free < low:
        status: Status = "fail" if free < low / 10 else "warn"
        return Finding("home", status, what, "Free disk space, or set ANABRANCH_HOME to a folder on another disk.")
    return Finding("home", "ok", what)


def check_limits(settings: Settings) -> Finding:
    """The API's request limits, and whether this machine allows that many connections."""
    limits = ", ".join((
        f"{settings.max_connections} connections",
        f"headers within {settings.header_seconds:g} s",
        f"bodies within {settings.body_seconds:g} s and {settings.body_bytes_per_second} bytes/s",
        _rate(settings.key_requests_per_minute, "requests per key and minute"),
        _rate(settings.address_requests_per_minute, "per address"),
        _rate(settings.wrong_keys_per_minute, "wrong keys"),
        _rate(settings.platform_jobs_per_day, "jobs per platform and day"),
        _rate(settings.platform_upload_mb_per_day, "MB uploaded"),
    ))  # fmt: skip
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = settings.max_connections + OTHER_OPEN_FILES
    if files != resource.RLIM_INFINITY and files < needed:
        remedy = f"Raise it to {needed} (ulimit -n), or lower ANABRANCH_MAX_CONNECTIONS."
        return Finding("limits", "warn", f"a process may open {files} files, too few for {limits}", remedy)
    return Finding("limits", "ok", limits)


def check_fork_server() -> Finding:
    """Whether handlers can run in child processes."""
    if _run(FORK_SERVER):
        return Finding("children", "ok", "child processes for handlers can be started")
    remedy = "Check that processes can be started, and that /dev/shm and the temporary folder are writable."
    return Finding("children", "fail", "no child process for a handler can be started", remedy)


def check_isolation() -> Finding:
    """Which kernel restrictions apply to processes that open untrusted files."""
    sandbox = Sandbox(Sandbox.__module__, {})
    try:
        return report_locks(sandbox.find_protections())
    except TaskError as error:
        return Finding("isolation", "fail", str(error), "See the output above: no raster can be opened.")
    finally:
        sandbox.close()


def report_locks(locks: Protections) -> Finding:
    """Whether all restrictions are available, and what to do if not."""
    if missing := locks.missing():
        what = f"processes that open untrusted files are not restricted by {', '.join(missing)} (decision 011)"
        return Finding("isolation", "warn", what, "; ".join(REMEDIES[name] for name in missing))
    what = f"no network, no other files (Landlock ABI {locks.landlock}), few system calls for untrusted files"
    return Finding("isolation", "ok", what)


def _rate(limit: int, what: str) -> str:
    return f"{limit} {what}" if limit else f"no limit on {what}"


def _run(program: str) -> bool:
    try:
        command = [sys.executable, "-P", "-c", program]
        done = subprocess.run(command, capture_output=True, check=False, timeout=TIMEOUT_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def _find_fault(name: str, bounds: str) -> str | None:
    try:
        have = version(name)
    except PackageNotFoundError:
        return f"{name} is not installed"
    least = re.search(r">=([\d.]+)", bounds)
    if least and _numbers(have) < _numbers(least[1]):
        return f"{name} is {have}, older than {least[1]}"
    return None


def _numbers(text: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", text)[:3]]
