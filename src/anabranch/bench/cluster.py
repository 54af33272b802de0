"""The database of a benchmark: a given one, or a private and durable cluster that is removed afterwards."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from anabranch.adapters.postgres.schema.migrate import migrate
from anabranch.adapters.postgres.schema.pgstac import migrate_catalog
from anabranch.embedded.cluster import Cluster
from anabranch.embedded.home import Home

__all__ = ["make_temporary_folder", "open_database", "run_temporary_cluster"]


@contextmanager
def make_temporary_folder() -> Iterator[Path]:
    """A folder that is removed at the end; the server's user may pass through it."""
    folder = Path(tempfile.mkdtemp(prefix="anabranch-bench-"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def run_temporary_cluster(folder: Path) -> Iterator[Cluster]:
    """A running server with the settings of `anabranch up`, removed with all its data at the end."""
    home = Home(folder / "home")
    cluster = Cluster(home)
    try:
        cluster.start()
        yield cluster
    finally:
        try:
            cluster.purge()
        finally:
            home.release()


@contextmanager
def open_database(url: str | None, folder: Path, *, with_catalog: bool = False) -> Iterator[str]:
    """A migrated database: the one at the URL, which keeps the benchmark's data, or a new one in the folder."""
    if url:
        _migrate(url, with_catalog=with_catalog)
        yield url
        return
    with run_temporary_cluster(folder) as cluster:
        cluster.ensure_database()
        _migrate(cluster.url(), with_catalog=with_catalog)
        yield cluster.url()


def _migrate(url: str, *, with_catalog: bool) -> None:
    migrate(url)
    if with_catalog:
        migrate_catalog(url)
