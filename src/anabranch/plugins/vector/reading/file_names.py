"""Names of files that libraries take for something else."""

from re import sub

__all__ = ["name_plainly"]


def name_plainly(name: str) -> str:
    """The name without what divides the URLs and archives that pyogrio reads paths as, and what SQLite decodes."""
    return sub("[;!?%]", "_", name)
