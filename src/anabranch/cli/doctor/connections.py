"""How the processes reach their database: past a pooler, and as which logins."""

from anabranch.adapters.postgres.connect import connect, mask
from anabranch.adapters.postgres.server.url import Role, ServerUrl
from anabranch.cli.doctor.finding import Finding

__all__ = ["check_connections"]

LOGIN = """
    select session_user::text, r.rolsuper, pg_catalog.pg_has_role(session_user, 'anabranch_owner', 'member')
      from pg_catalog.pg_roles r where r.rolname = session_user"""
PARTS = {"owner": Role.OWNER, "app": Role.APP, "reader": Role.READER, "handlers": Role.HANDLER}


def check_connections(url: str) -> Finding:
    """Use each way that is configured, as the processes do."""
    server = ServerUrl.of(url)
    with connect(server, Role.APP):  # the session that each process has
        found = [f"sessions at {mask(server.choose(Role.APP))}"]
    too_mighty = ""
    for part, role in PARTS.items():
        if role is Role.OWNER and "owner" not in server.ways and server.ways.keys() & {"reader", "handler"}:
            continue  # the processes of this machine have no way to act as the owner
        way = server.choose(role, session=role is Role.OWNER)
        with connect(server, role, autocommit=False, session=role is Role.OWNER) as connection:
            ((login, is_superuser, owns),) = connection.execute(LOGIN).fetchall()
        found.append(f"{part}: {login} at {mask(way).partition('@')[2]}{' through a pooler' if way.pooled else ''}")
        if role is Role.HANDLER and (is_superuser or owns):
            too_mighty = login
    if too_mighty and "handler" in server.ways:
        remedy = (
            f'Let an administrator run: revoke anabranch_owner from "{too_mighty}"; and see that it is no superuser.'
        )
        return Finding("connections", "warn", f"handlers can act as the owner; {'; '.join(found)}", remedy)
    return Finding("connections", "ok", "; ".join(found))
