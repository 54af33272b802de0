"""PostgreSQL's own programs: `pg_dump` reads a snapshot, `pg_restore` and `psql` write it in one transaction."""

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from shutil import copyfileobj
from tempfile import TemporaryFile
from typing import IO

from psycopg.conninfo import conninfo_to_dict, make_conninfo

from anabranch.adapters.postgres.connect import LOCKS_SETTING, mask, too_many_locks, without_secrets
from anabranch.adapters.postgres.server.connection import add_password
from anabranch.adapters.postgres.server.url import Role, ServerUrl, has_several_hosts, parse_url
from anabranch.embedded.binaries import find_clients
from anabranch.errors import Unavailable

__all__ = ["SCHEMAS", "TablesMoved", "count_relations", "dump", "load"]

SCHEMAS = ("app", "geo")
PIECE_BYTES = 2**20
MAX_SAID_BYTES = 4_000
KEY_PASSWORD = "sslpassword"  # noqa: S105  # the name of libpq's parameter
SERVICE = "anabranch"
# A table that was dropped after `pg_dump` had read of it, and before it could lock it.
PASSING = re.compile(r"relation .* does not exist|could not open relation|lock timeout")
# A line of the list is "215; 1259 16543 TABLE geo roads anabranch_geo".
LISTED = re.compile(rb"\d+; \d+ \d+ ([A-Z]+(?: [A-Z]+)*) ")
# Behind a table are a table and an index for its large values.
LOCKS_OF = {b"TABLE": 3, b"MATERIALIZED VIEW": 3} | dict.fromkeys(
    (b"INDEX", b"CONSTRAINT", b"SEQUENCE", b"VIEW", b"FUNCTION", b"TYPE"), 1
)


class TablesMoved(Unavailable):
    """Tables changed while `pg_dump` began to read them; another snapshot may do."""

    def __init__(self, message: str) -> None:
        super().__init__("backup.database", message)


def dump(url: str, snapshot: str, server_major: int) -> Iterator[bytes]:
    """The schemas of a snapshot, as `pg_dump` writes them in its own format."""
    command = [find_clients(server_major)["pg_dump"], "--format=custom", "--compress=1", "--lock-wait-timeout=30s"]
    command += [f"--snapshot={snapshot}", *(f"--schema={schema}" for schema in SCHEMAS), *_target(url)]
    with TemporaryFile() as said, _start(command, url, said, stdout=subprocess.PIPE) as process:
        try:
            while piece := _pipe(process.stdout).read(PIECE_BYTES):
                yield piece
        except GeneratorExit:
            process.kill()
            raise
        if process.wait() != 0:
            raise _failed("pg_dump", url, said)


def count_relations(url: str, file: Path, server_major: int) -> int:
    """How many tables, indexes and other objects a dump makes, each of which is locked while it is loaded."""
    command = [find_clients(server_major)["pg_restore"], "--list", str(file)]
    with TemporaryFile() as said, _start(command, url, said, stdout=subprocess.PIPE) as process:
        found = [match[1] for line in _pipe(process.stdout) if (match := LISTED.match(line))]
        if process.wait() != 0:
            raise _failed("pg_restore", url, said)
    return sum(LOCKS_OF.get(kind, 0) for kind in found)


def load(url: str, file: Path, server_major: int, before: str, after: str) -> None:
    """Load a dump in one transaction, between these statements; nothing is changed unless all of it can be."""
    programs = find_clients(server_major)
    reading = [programs["pg_restore"], "--file=-", str(file)]
    writing = [programs["psql"], "--no-psqlrc", "--quiet", "--output=/dev/null", "--set=ON_ERROR_STOP=1", *_target(url)]
    with (
        TemporaryFile() as read,
        TemporaryFile() as wrote,
        _start(reading, url, read, stdout=subprocess.PIPE) as reader,
        _start(writing, url, wrote, stdin=subprocess.PIPE) as writer,
    ):
        _pass_on(reader, writer, before, after)
        if writer.wait() != 0:
            raise _failed("psql", url, wrote)
        if reader.wait() != 0:
            raise _failed("pg_restore", url, read)


def _pass_on(reader: "subprocess.Popen[bytes]", writer: "subprocess.Popen[bytes]", before: str, after: str) -> None:
    script = _pipe(writer.stdin)
    try:
        script.write(f"begin;\n{before}\n".encode())
        copyfileobj(_pipe(reader.stdout), script, PIECE_BYTES)
        if reader.wait() == 0:  # else the transaction ends with the connection, without a commit
            script.write(f"\n{after}\ncommit;\n".encode())
        script.close()
    except BrokenPipeError:
        reader.kill()


def _pipe(stream: IO[bytes] | None) -> IO[bytes]:
    if stream is None:
        raise ValueError("the process was started without this pipe")
    return stream


def _start(
    command: list[str], url: str, said: IO[bytes], *, stdin: int = subprocess.DEVNULL, stdout: int = subprocess.DEVNULL
) -> "subprocess.Popen[bytes]":
    login = ServerUrl.of(url).choose(Role.OWNER)
    given = conninfo_to_dict(add_password(login, login))
    environment = _environment(str(given.get("password", "")))
    if not (key_password := given.get(KEY_PASSWORD)):
        return subprocess.Popen(command, stdin=stdin, stdout=stdout, stderr=said, env=environment)
    # No variable has it, and a file of services, which may, need not be on a disk.
    services = os.memfd_create("services")
    try:
        os.write(services, f"[{SERVICE}]\n{KEY_PASSWORD}={key_password}\n".encode())
        environment["PGSERVICEFILE"] = f"/proc/self/fd/{services}"
        return subprocess.Popen(command, stdin=stdin, stdout=stdout, stderr=said, env=environment, pass_fds=(services,))
    finally:
        os.close(services)


def _target(url: str) -> list[str]:
    """The database as options, without its passwords, which all users of the machine could see."""
    given = parse_url(ServerUrl.of(url).choose(Role.OWNER))
    given.pop("password", None)
    if given.pop(KEY_PASSWORD, None):
        given["service"] = SERVICE
    if has_several_hosts(given):  # the standby has no such snapshot, and takes no restore
        given.setdefault("target_session_attrs", "primary")
    return [f"--dbname={make_conninfo('', **given)}", "--no-password"]


def _environment(password: str) -> dict[str, str]:
    # Nothing of the caller's: PGOPTIONS and its like would change what the programs do.
    kept = {name: os.environ[name] for name in ("HOME",) if name in os.environ}
    ours = {"PATH": os.defpath, "LANG": "C.UTF-8", "PGCLIENTENCODING": "UTF8"}
    return {**kept, **ours, **({"PGPASSWORD": password} if password else {})}


def _failed(program: str, url: str, said: IO[bytes]) -> Unavailable:
    said.seek(0)
    text = without_secrets(url, said.read(MAX_SAID_BYTES).decode(errors="replace")).strip()
    if LOCKS_SETTING in text:
        return too_many_locks(mask(url), f"{program} needs more locks than it has room for")
    message = f"{program} failed on {mask(url)}:\n{text}"
    return TablesMoved(message) if PASSING.search(text) else Unavailable("backup.database", message)
