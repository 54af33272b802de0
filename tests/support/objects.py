"""Fixtures for stores of clouds: emulators on loopback, started when the first test asks for one."""

import atexit
import base64
import fcntl
import hmac
import logging
import os
import re
import secrets
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from email.utils import formatdate
from pathlib import Path

import pytest

from anabranch.adapters.objects.open_store import Options
from anabranch.die_with_parent import die_with_parent

__all__ = ["Cloud", "azure", "azurite", "moto", "s3"]

AZURITE = Path(__file__).parents[2] / "scripts" / "tools" / "azurite"
ACCOUNT = "emulated"
FLAGS = ("--skipApiVersionCheck", "--disableTelemetry", "--inMemoryPersistence", "--silent")


@dataclass(frozen=True)
class Cloud:
    """An empty container, and what a store must be told to use it."""

    url: str
    options: Options


@pytest.fixture(scope="session")
def moto() -> Iterator[str]:
    """The address of an S3 that lives in this process."""
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def s3(moto: str) -> Cloud:
    """A bucket of its own for each test."""
    bucket = f"b{secrets.token_hex(8)}"
    _send(f"{moto}/{bucket}", {})
    keys = {"access_key_id": "emulated", "secret_access_key": "emulated-secret"}
    return Cloud(f"s3://{bucket}/below", {**keys, "endpoint": moto, "region": "us-east-1", "allow_http": True})


@pytest.fixture(scope="session")
def azurite(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """The address and the key of an account on Azurite, which npm installs once into `.cache`."""
    program = _wait_for_install(_folder(pytestconfig))
    key = base64.b64encode(secrets.token_bytes(64)).decode()
    process = subprocess.Popen(
        [program, "--blobHost", "127.0.0.1", "--blobPort", "0", *FLAGS],
        env={**os.environ, "AZURITE_ACCOUNTS": f"{ACCOUNT}:{key}"},
        cwd=tmp_path_factory.mktemp("azurite"),
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=die_with_parent,  # noqa: PLW1509  # it only asks the kernel, and no thread of ours holds a lock of C
    )
    try:
        yield f"{_listens(process)}/{ACCOUNT}", key
    finally:
        process.terminate()
        process.wait()
        if process.stdout:
            process.stdout.close()


@pytest.fixture
def azure(azurite: tuple[str, str]) -> Cloud:
    """A container of its own for each test."""
    endpoint, key = azurite
    container = f"c{secrets.token_hex(8)}"
    headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-08-06"}
    spelled = "".join(f"{name}:{value}\n" for name, value in headers.items())
    signed = f"PUT{chr(10) * 12}{spelled}/{ACCOUNT}/{ACCOUNT}/{container}\nrestype:container"
    signature = base64.b64encode(hmac.digest(base64.b64decode(key), signed.encode(), "sha256")).decode()
    _send(
        f"{endpoint}/{container}?restype=container",
        {**headers, "Authorization": f"SharedKey {ACCOUNT}:{signature}", "Content-Length": "0"},
    )
    account: Options = {"account_name": ACCOUNT, "account_key": key, "endpoint": endpoint, "allow_http": True}
    return Cloud(f"az://{container}/below", account)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Begin to install Azurite while other tests run, once in a run, if a test will ask for it."""
    first = os.environ.get("PYTEST_XDIST_WORKER", "gw0") == "gw0"
    if first and any("azurite" in getattr(item, "fixturenames", ()) for item in session.items):
        _begin_install(_folder(session.config))


def _folder(config: pytest.Config) -> Path:
    return config.rootpath / ".cache" / "azurite"


def _begin_install(folder: Path) -> None:
    npm = shutil.which("npm")
    if not npm or _program(folder).exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    # Where nothing can be fetched npm says so in seconds, and not after its usual minute.
    flags = ["--no-audit", "--no-fund", "--prefer-offline", "--fetch-retries=1", "--fetch-retry-mintimeout=1000"]
    for name in ("package.json", "package-lock.json"):
        shutil.copy(AZURITE / name, folder)
    command = [npm, "ci", "--ignore-scripts", *flags, "--prefix", str(folder)]
    with (folder / "lock").open("wb") as lock, (folder / "npm.log").open("wb") as log:
        fcntl.flock(lock, fcntl.LOCK_EX)  # npm has the same open file, and so the lock, to its end
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=[lock.fileno()])
    atexit.register(process.wait)


def _program(folder: Path) -> Path:
    return folder / "node_modules" / ".bin" / "azurite-blob"


def _wait_for_install(folder: Path) -> str:
    if not shutil.which("npm") or not shutil.which("node"):
        pytest.skip("there is no node and no npm to run Azurite with")
    with (folder / "lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
    if not _program(folder).exists():
        said = (line for line in (folder / "npm.log").read_text().splitlines() if line.startswith("npm error"))
        pytest.skip(f"npm could not install Azurite: {next(said, 'it did not say why')}")
    return str(_program(folder))


def _listens(process: subprocess.Popen[str]) -> str:
    for line in process.stdout or ():
        if found := re.search(r"successfully listens on (http\S+)", line):
            return found[1]
    raise RuntimeError("Azurite ended before it listened")


def _send(url: str, headers: dict[str, str]) -> None:
    request = urllib.request.Request(url, method="PUT", headers=headers)  # to loopback
    with urllib.request.urlopen(request, timeout=10):
        pass
