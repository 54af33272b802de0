"""The SQL files that make the schema: tables, migrations, functions and views."""

import hashlib
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import groupby
from pathlib import Path

from anabranch.errors import DefinitionError
from anabranch.sql_files import read_statements

__all__ = ["FUNCTIONS", "Files", "Migration", "Release", "SqlFile", "digest", "read_function", "read_queries"]

ROOT = Path(__file__).parents[1]
FUNCTIONS = ROOT / "functions"
# The first line of a migration that can't run in a transaction, such as one that makes an index concurrently.
OUTSIDE_MARK = "-- Outside a transaction"


@dataclass(frozen=True)
class SqlFile:
    """One file, by its path from the folder of all."""

    path: str
    text: str

    @property
    def stem(self) -> str:
        """The name of what the file makes."""
        return Path(self.path).stem


@dataclass(frozen=True)
class Migration:
    """One numbered step from an empty schema to the newest."""

    number: int
    file: SqlFile

    @property
    def name(self) -> str:
        """The number and the words, as in the file's name."""
        return self.file.stem

    @property
    def checksum(self) -> str:
        """The hash of the content: a migration that ran must never change."""
        return digest(self.file)

    @property
    def is_outside(self) -> bool:
        """Whether it runs outside a transaction, statement by statement; then it may run again after a crash."""
        return self.file.text.startswith(OUTSIDE_MARK)


@dataclass(frozen=True)
class Release:
    """The number of a schema with its functions; it only rises. Processes of releases before `oldest` can't use it."""

    number: int
    oldest: int
    checksum: str


@dataclass(frozen=True)
class Files:
    """What a deployment is made of; a test may give another folder than ours."""

    root: Path = ROOT

    @cached_property
    def migrations(self) -> tuple[Migration, ...]:
        """The migrations in order, numbered from the baseline without gaps."""
        found = [_migration(file) for file in self._folder("migrations")]
        numbers = [migration.number for migration in found]
        if twice := [number for number, times in Counter(numbers).items() if times > 1]:
            raise _broken(f"two files have the number {twice[0]:04}")
        if gaps := set(range(min(numbers, default=1), max(numbers, default=0))) - set(numbers):
            raise _broken(f"there is no migration {min(gaps):04}")
        return tuple(sorted(found, key=lambda migration: migration.number))

    @cached_property
    def folded(self) -> tuple[tuple[tuple[str, str], ...], ...]:
        """The names and checksums of the migrations that the baseline replaces, by what was folded together."""
        path = "migrations/folded.txt"
        text = self[path].text if (self.root / path).exists() else ""
        lines = (line for line in text.splitlines() if not line.startswith("#"))
        groups = groupby((tuple(line.split()) for line in lines), key=bool)
        return tuple(tuple((name, checksum) for name, checksum in group) for found, group in groups if found)

    @cached_property
    def functions(self) -> tuple[SqlFile, ...]:
        """The functions, one to a file, with the triggers that call them; then those of our plugins."""
        package = self.root.parents[1]
        brought = sorted(package.glob("plugins/*/functions/**/*.sql"))
        return (*self._folder("functions"), *(_read(path, package) for path in brought))

    @cached_property
    def views(self) -> tuple[SqlFile, ...]:
        """The views, one to a file."""
        return self._folder("views")

    @cached_property
    def release(self) -> Release:
        """The release as `release.txt` says it."""
        said = dict(line.split() for line in self["release.txt"].text.splitlines() if not line.startswith("#"))
        return Release(int(said["release"]), int(said["oldest"]), said["checksum"])

    @property
    def checksum(self) -> str:
        """The hash of the schema with its functions: when it changes, so must the release's number."""
        return digest(*(migration.file for migration in self.migrations), SqlFile("", self.functions_checksum))

    @property
    def functions_checksum(self) -> str:
        """The hash of all that a redeployment makes, and of the code that makes it."""
        machinery = [Files()[name] for name in ("schema/deploy.py", "schema/triggers_and_views.py")]
        return digest(*self.functions, *self.views, self["grants.sql"], *machinery)

    def __getitem__(self, path: str) -> SqlFile:
        return _read(self.root / path, self.root)

    def _folder(self, name: str) -> tuple[SqlFile, ...]:
        """The files below a folder, whichever subject they are under."""
        return tuple(_read(path, self.root) for path in sorted((self.root / name).rglob("*.sql")))


def _read(path: Path, root: Path) -> SqlFile:
    # Text mode: the checksum of a file is the same whatever line ends git gave it.
    return SqlFile(str(path.relative_to(root)), path.read_text(encoding="utf-8"))


def read_function(name: str) -> str:
    """The file of a function by its name, whichever subject it is under."""
    (path,) = FUNCTIONS.rglob(f"{name}.sql")
    return path.read_text(encoding="utf-8")


@cache
def read_queries() -> Mapping[str, str]:
    """All statements of `queries/`: their names differ, whichever subject they are under."""
    found = [query for path in sorted((ROOT / "queries").glob("*.sql")) for query in read_statements(path).items()]
    if len(queries := dict(found)) < len(found):
        raise _broken("two queries have the same name")
    return queries


def digest(*files: SqlFile) -> str:
    """The hash of files, names included."""
    total = hashlib.sha256()
    for file in files:
        for part in (file.path.encode(), file.text.encode()):
            total.update(len(part).to_bytes(8) + part)
    return total.hexdigest()


def _migration(file: SqlFile) -> Migration:
    if not re.fullmatch(r"[0-9]{4}_[a-z0-9_]+", file.stem):
        raise _broken(f"{file.path} is not named like 0001_name.sql")
    return Migration(int(file.stem[:4]), file)


def _broken(what: str) -> DefinitionError:
    return DefinitionError("database.migrations_invalid", what, remedy="Fix the files in migrations/.")
