"""Published layers, read from the database for each request: served at once, and gone at once."""

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import structlog

from anabranch.adapters.postgres.server.url import Role
from anabranch.errors import AnabranchError, InputError, NotFound, Unavailable
from anabranch.geo.boxes import GLOBE, Box
from anabranch.serving.pool import QUERY_CANCELED, TRANSIENT_STATES, Pool, unreachable
from anabranch.sql_files import read_statements

__all__ = ["GEOMETRY", "ID", "SQL", "Column", "Layer", "Layers"]

log = structlog.get_logger()

SQL = read_statements(Path(__file__).with_name("statements.sql"))
ID, GEOMETRY = "gid", "geom"
SHORT_TYPES = {"timestamp with time zone": "timestamptz", "timestamp without time zone": "timestamp"}
TIMES = frozenset({"date", "timestamp", "timestamptz"})
# No table or column, or no permission: the layer is gone, or has other columns now; or the database is not migrated.
CHANGED_STATES = {"3F000", "42P01", "42501", "42703"}
# Values and operators that don't fit, limits of the server, and geometries that PostGIS can't compute with.
QUERY_STATES = ("22", "42", "54", "XX000")
MAX_SHOWN_CHARS = 63
MAX_REMEMBERED = 100
MAX_TRIES = 3  # while layers are published again


@dataclass(frozen=True)
class Column:
    """An attribute of a layer."""

    name: str
    type: str  # PostgreSQL's, without its length
    description: str | None

    @property
    def is_time(self) -> bool:
        """Whether its values are times."""
        return self.type in TIMES


@dataclass(frozen=True)
class Layer:
    """A published table."""

    name: str
    publication: str
    title: str
    description: str | None
    box: Box
    geometry_type: str
    columns: tuple[Column, ...]  # without the id and the geometry
    rows: int | None

    @classmethod
    def of(cls, row: Any) -> "Layer":  # asyncpg's, which has no types
        """The layer of a row of `app.layers`."""
        given = [column for column in row["columns"] or () if column["name"] not in (ID, GEOMETRY)]
        return cls(
            row["name"],
            row["publication"],
            row["title"] or row["name"],
            row["description"],
            Box.of(row["bbox"]) if row["bbox"] else GLOBE,
            row["geometry_type"],
            tuple(Column(each["name"], _shorten(each["type"]), each.get("description")) for each in given),
            row["rows"],
        )

    def find(self, name: str) -> Column | None:
        """The column of this name."""
        return next((column for column in self.columns if column.name == name), None)


class LayerChanged(Exception):
    """A layer was published again or withdrawn while it was read."""


class Layers(Pool):
    """Reads layers and their rows, in a role that sees nothing else."""

    ROLE = Role.FEATURES
    NAME = "anabranch api features"
    # A plan for any tile would read a whole table in the order of ids for a tile with few features.
    SETTINGS: Mapping[str, str] = MappingProxyType({"search_path": "public", "plan_cache_mode": "force_custom_plan"})
    RESETS = False

    def __init__(self, url: str, connections: int) -> None:
        super().__init__(url, connections)
        self._platform: str | None = None
        self._found: dict[tuple[str | None, str], Layer] = {}

    def seen_by(self, platform: str | None) -> "Layers":
        """The same for a platform, which finds the layers of its own collections only; None: all."""
        seen = copy.copy(self)
        seen._platform = platform
        return seen

    async def find(self, name: str) -> Layer:
        """The layer of this name; NotFound if none is published."""
        found, _ = ([], 0) if "\0" in name else await self._read(name, 1, 0)
        if not found:
            raise NotFound("layer.not_found", f"no layer {name[:MAX_SHOWN_CHARS]} is published")
        while len(self._found) >= MAX_REMEMBERED:
            self._found.pop(next(iter(self._found)))
        self._found[self._platform, name] = found[0]
        return found[0]

    def remembered(self, name: str, publication: str | None) -> Layer | None:
        """A layer that was found before, as this publication shows it; it may be another by now."""
        layer = self._found.get((self._platform, name))
        return layer if layer and layer.publication == publication else None

    async def list(self, limit: int, offset: int) -> tuple[Sequence[Layer], int]:
        """A page of layers by name, and how many there are."""
        return await self._read(None, limit, offset)

    async def read(self, layer: Layer, make: Callable[[Layer], tuple[str, Sequence[object]]]) -> tuple[Layer, Any]:
        """The row of a statement about a layer, and the layer as it was then: it may have changed since it was found.

        `make` gives the statement and its parameters between the first, the layer's name, and the last, the platform.
        """
        for _ in range(MAX_TRIES):
            statement, parameters = make(layer)
            try:
                async with self.connection() as connection:
                    row = await connection.fetchrow(statement, layer.name, *parameters, self._platform)
            except LayerChanged:
                row = None
            if row and row["publication"] == layer.publication:
                return layer, row
            layer = await self.find(layer.name)
        raise Unavailable("features.changing", f"layer {layer.name} is being published", remedy="Try again.")

    async def _read(self, name: str | None, limit: int, offset: int) -> tuple[Sequence[Layer], int]:
        try:
            async with self.connection() as connection:
                rows = await connection.fetch(SQL["layers"], name, limit, offset, self._platform)
        except LayerChanged as error:
            remedy = "Run `anabranch db migrate` on a server with PostGIS."
            raise Unavailable("catalog.missing", "this database has no layers to read", remedy=remedy) from error
        return [Layer.of(row) for row in rows], rows[0]["matched"] if rows else offset

    def translate_state(self, error: Any) -> Exception:  # asyncpg's, which has no types
        """What a reader is shown of an error of the server."""
        state: str = error.sqlstate or ""
        log.warning("features.refused", sqlstate=state, reason=str(error))
        if state in CHANGED_STATES:
            return LayerChanged()
        if state == QUERY_CANCELED:
            return Unavailable("features.slow", "the query took too long")
        if state.startswith(QUERY_STATES):
            return InputError("features.query", f"the database can't run this query: {error.message}")
        return unreachable(error) if state.startswith(TRANSIENT_STATES) else _failed()


def _failed() -> AnabranchError:
    return AnabranchError("internal", "the database can't read this layer; see the API's log")


def _shorten(name: str) -> str:
    plain = name.partition("(")[0].strip()
    return SHORT_TYPES.get(plain + name.partition(")")[2], plain)
