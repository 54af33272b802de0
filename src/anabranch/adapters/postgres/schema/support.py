"""Refuses to start a process on a database that its release can't use any more."""

from anabranch.adapters.postgres.connect import Role, connect
from anabranch.adapters.postgres.database import translate
from anabranch.adapters.postgres.schema.files import Files
from anabranch.adapters.postgres.schema.migration_log import read_deployed, unsupported

__all__ = ["require_supported"]


def require_supported(url: str) -> None:
    """Raise Conflict where a later release was deployed that processes of this one can't use (O4)."""
    with translate(url), connect(url, Role.READER, name="anabranch release") as connection:
        deployed = read_deployed(connection)
    if deployed and (files := Files()).release.number < deployed.oldest:
        raise unsupported(files, deployed)
