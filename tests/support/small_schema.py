"""A small schema of its own, in a folder like that of the real one, for tests of what deploys schemas."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from anabranch.adapters.postgres.connect import connect
from anabranch.adapters.postgres.schema.files import ROOT, Files
from anabranch.adapters.postgres.schema.migrate import migrate

__all__ = ["SmallSchema", "make_folded"]

TABLES = """create type app.mood as enum ('good', 'bad');

create table app.owners (
    id bigint generated always as identity primary key,
    name text not null unique
) with (fillfactor = 50);

create table app.things (
    id integer primary key,
    owner bigint references app.owners on delete cascade,
    size integer not null check (size >= 0),
    mood app.mood not null default 'good'
);

create index things_owner on app.things (owner) where owner is not null;
"""

FILES = {
    "release.txt": "release 1\noldest 1\nchecksum none\n",
    "schema.sql": TABLES,
    "migrations/0001_things.sql": TABLES,
    "functions/step.sql": "create function app.step() returns integer language sql stable as 'select 1';\n",
    "functions/grow.sql": """create function app.grow(_id integer) returns integer language plpgsql as $$
begin
    update app.things set size = size + app.step() where id = _id;
    return (select s.size from app.sizes s where s.id = _id);
end;
$$;
""",
    "functions/guard.sql": """create function app.guard() returns trigger language plpgsql as $$
begin
    if new.size < old.size then raise exception 'things never shrink'; end if;
    return new;
end;
$$;

create trigger guard before update on app.things for each row execute function app.guard();
""",
    "views/sizes.sql": "create view app.sizes as select id, size, app.step() as step from app.things;\n",
}


class SmallSchema:
    """Things that grow and never shrink."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for name in ("roles.sql", "grants.sql"):
            shutil.copy(ROOT / name, root)
        for path, text in FILES.items():
            self.write(path, text)

    @property
    def files(self) -> Files:
        """The files as they are now."""
        return Files(self.root)

    def write(self, path: str, text: str) -> None:
        """Make a file, or make it anew."""
        file = self.root / path
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)

    def edit(self, path: str, old: str, new: str) -> None:
        """Change a part of a file."""
        self.write(path, (self.root / path).read_text().replace(old, new))

    def remove(self, path: str) -> None:
        """Remove a file."""
        (self.root / path).unlink()


def make_folded(url: str, folder: Path, ledger: Sequence[tuple[str, str]]) -> None:
    """Make the baseline's tables in an empty database, with the ledger of migrations that it replaced."""
    baseline = folder / "src" / "adapters" / "postgres"
    later = [migration.file.path.rpartition("/")[2] for migration in Files().migrations[1:]]
    shutil.copytree(ROOT, baseline, ignore=shutil.ignore_patterns("*.py", "functions", "views", *later))
    (baseline / "functions").mkdir()
    (baseline / "views").mkdir()
    (baseline / "grants.sql").write_text("select 1;")
    (baseline / "release.txt").write_text("release 1\noldest 1\nchecksum none\n")
    migrate(url, files=Files(baseline))
    rows = [f"({int(name[:4])}, '{name}', '{checksum}', now())" for name, checksum in ledger]
    with connect(url, None) as connection:
        connection.execute("delete from app.migrations")
        connection.execute(f"insert into app.migrations values {', '.join(rows)}".encode())
