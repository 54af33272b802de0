"""Removes the embedded database and the files of a stack."""

from anabranch.cli.setup import prepare
from anabranch.embedded.cluster import Cluster
from anabranch.embedded.home import Home
from anabranch.embedded.purge import purge_home

__all__ = ["purge_stack"]


def purge_stack(home: Home, *, bronze: bool) -> list[str]:
    """Remove the embedded database and the stack's files; returns the tiers that are not empty."""
    if not home.path.exists():
        return []
    external = prepare(quiet=True).database_url is not None
    with home.locked():
        cluster = Cluster(home)
        # An external database still refers to its jobs' files, even if this shell does not name it.
        ours = cluster.exists and not (external or home.serves_elsewhere)
        # The database is removed last: while it exists, a failed purge can be repeated.
        kept = purge_home(home, jobs=ours, bronze=bronze)
        cluster.purge()
        home.end_restore()
    return [str(folder) for folder in kept]
