"""Tests of the SQL, on a private PostgreSQL with PostGIS."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg import Connection

from reach import ReachParams, create_reach

LAYERS = """
create extension postgis;
create table parks (gid bigint, name text, geom geometry);
insert into parks values (1, 'near', st_makeenvelope(7, 50, 7.01, 50.01, 4326));
insert into parks values (2, 'far', st_makeenvelope(8, 50, 8.01, 50.01, 4326));
create table stops (gid bigint, geom geometry);
insert into stops values (1, st_setsrid(st_point(7.012, 50), 4326)), (2, st_setsrid(st_point(7.005, 50.005), 4326));
insert into stops values (3, st_setsrid(st_point(7.1, 50), 4326))
"""


@pytest.fixture
def connection(empty_database_url: str) -> Iterator[Connection[Any]]:
    """A database with two small layers."""
    with psycopg.connect(empty_database_url) as opened:
        opened.execute(LAYERS)
        yield opened


def test_stops_near_a_park_are_counted_and_parks_without_any_are_kept(connection: Connection[Any]) -> None:
    for metres, near in ((100, 1), (200, 2)):  # the first stop is 143 m away
        create_reach(connection, "reach", ReachParams(parks="parks", stops="stops", metres=metres, name="reach"))
        found = connection.execute("select park, stops from reach order by park")
        assert found.fetchall() == [("far", 0), ("near", near)]
    ((types, srids),) = connection.execute("select array_agg(geometrytype(geom)), array_agg(st_srid(geom)) from reach")
    assert (types, srids) == (["POLYGON", "POLYGON"], [4326, 4326])
