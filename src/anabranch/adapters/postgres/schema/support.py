"""Refuses to start a process on a database that its release can't use any more, or nobody can now."""

from anabranch.adapters.postgres.advisory_locks import AdvisoryLock, is_free
from anabranch.adapters.postgres.connect import Role, connect, held_off, mask
from anabranch.adapters.postgres.database import translate
from anabranch.adapters.postgres.schema.files import Files
from anabranch.adapters.postgres.schema.migration_log import read_deployed, unsupported

__all__ = ["require_supported"]


def require_supported(url: str) -> None:
    """Raise Conflict where a later release was deployed that processes of this one can't use (O4), and Unavailable
    while it is restored or reset."""
    with translate(url), connect(url, Role.READER, name="anabranch release") as connection:
        if not is_free(connection, AdvisoryLock.RESTORE):
            raise held_off(mask(url))
        deployed = read_deployed(connection)
    if deployed and (files := Files()).release.number < deployed.oldest:
        raise unsupported(files, deployed)
