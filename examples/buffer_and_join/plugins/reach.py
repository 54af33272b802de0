"""The stops that can be reached from each park: one layer is buffered and joined with another."""

from typing import Any

from psycopg import Connection, sql
from pydantic import BaseModel, Field

from anabranch import Context, PublishedTable, handler

CREATE = """
create table {table} as
select p.name as park, count(s.gid) as stops, st_buffer(p.geom::geography, {metres})::geometry as geom
  from {parks} p
  left join {stops} s on st_dwithin(s.geom::geography, p.geom::geography, {metres})
 group by p.gid, p.name, p.geom
"""


class ReachParams(BaseModel):
    """Two published layers, a distance, and the name of the new layer."""

    parks: str
    stops: str
    metres: float = Field(gt=0)
    name: str


@handler("parks.reach", timeout_seconds=600)
def publish_reach(params: ReachParams, ctx: Context) -> PublishedTable:
    """Publish the surroundings of each park, with the number of stops in them."""
    table = ctx.geo.scratch_table(params.name)
    with ctx.database() as connection:
        create_reach(connection, table, params)
    title = f"Surroundings of {params.metres:g} m of {params.parks}"
    return ctx.geo.publish_table(table, params.name, title=title, reason=f"{params.metres:g} m")


def create_reach(connection: Connection[Any], table: str, params: ReachParams) -> None:
    """Create the table; one that an earlier attempt left is replaced."""
    names = {"table": table, "parks": params.parks, "stops": params.stops}
    parts = {key: sql.Identifier(name) for key, name in names.items()}
    connection.execute(sql.SQL("drop table if exists {table}").format(**parts))
    connection.execute(sql.SQL(CREATE).format(**parts, metres=sql.Literal(params.metres)))
    connection.execute(
        sql.SQL("comment on column {table}.stops is 'How many stops are near the park.'").format(**parts)
    )
