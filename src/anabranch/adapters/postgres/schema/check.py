"""Proof that a database is what the files say, and that models are what the tables say."""

import secrets
from collections.abc import Mapping
from datetime import timedelta

from psycopg import Connection
from psycopg.rows import TupleRow

from anabranch.adapters.postgres.connect import Role
from anabranch.adapters.postgres.schema.deploy import deploy
from anabranch.adapters.postgres.schema.describe import Description, Difference, describe, describe_roles
from anabranch.adapters.postgres.schema.files import Files
from anabranch.adapters.postgres.schema.migrate import OWN_FILES, connected, require_migrated
from anabranch.adapters.postgres.schema.migration_log import MIGRATION_LOG
from anabranch.adapters.postgres.schema.models import models_differ
from anabranch.adapters.postgres.schema.run_sql import SCHEMA, execute
from anabranch.adapters.postgres.schema.transaction import LOCK_TIMEOUT, hold_lock, take_role

__all__ = ["Difference", "check", "compare", "models_differ"]

# What has parts and rights of its own: where it is missing or too many, that is said once.
WHOLE_KINDS = {"table", "view", "function", "type"}


def check(
    url: str, models: Mapping[str, type] | None = None, *, files: Files = OWN_FILES, patience: timedelta = LOCK_TIMEOUT
) -> list[Difference]:
    """Where a database differs from the files, and models from its tables; nothing is changed."""
    with connected(url) as connection, connection.transaction(force_rollback=True):
        hold_lock(connection, patience, shared=True)
        require_migrated(connection, files)
        found = describe(connection, SCHEMA)
        roles = describe_roles(connection)
        expected = _describe_files(connection, files)
    return [*roles, *compare(expected, found), *models_differ(models or {}, found)]


def compare(expected: Description, found: Description) -> list[Difference]:
    """Where two schemas differ."""
    left, right = expected.facts, found.facts
    differing = sorted(key for key in left.keys() | right.keys() if left.get(key) != right.get(key))
    alone = {name for kind, name in differing if kind in WHOLE_KINDS and {(kind, name)} - left.keys() & right.keys()}
    return [
        Difference(kind, f"{SCHEMA}.{name}".rstrip("."), left.get((kind, name)), right.get((kind, name)))
        for kind, name in differing
        if kind in WHOLE_KINDS or not {name, name.partition(".")[0]} & alone
    ]


def _describe_files(connection: Connection[TupleRow], files: Files) -> Description:
    """What the files make, made beside the real schema in a transaction that the caller rolls back."""
    scratch = f"{SCHEMA}_check_{secrets.token_hex(8)}"
    connection.execute("set local role none")
    connection.execute(f"create schema {scratch} authorization {Role.OWNER.value}")
    take_role(connection, Role.OWNER)
    for file in (MIGRATION_LOG, files["schema.sql"]):
        execute(connection, file, scratch)
    deploy(connection, files, scratch)
    return describe(connection, scratch)
