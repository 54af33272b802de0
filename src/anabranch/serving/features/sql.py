"""SQL of parts whose names are quoted and whose values are literals: no text of a caller is evaluated (S2)."""

from collections.abc import Sequence

from psycopg import sql

from anabranch.serving.features.layers import SQL
from anabranch.serving.stac.search.bounds import refuse

__all__ = ["Part", "column_of", "compose", "join", "literal", "name_column", "name_relation", "name_table", "to_text"]

Part = sql.Composable
TABLES = "geo"


def compose(name: str, /, **parts: Part | float) -> Part:
    """A statement of the file with its names in braces filled in."""
    filled = {key: part if isinstance(part, sql.Composable) else literal(part) for key, part in parts.items()}
    return _plain(SQL[name]).format(**filled)


def name_table(layer: str) -> Part:
    """The view of a layer."""
    return sql.Identifier(TABLES, layer)


def name_relation(operator: str) -> Part:
    """The function of PostGIS for a spatial operator of CQL2, like s_within."""
    return sql.Identifier(operator.replace("s_", "st_", 1))


def column_of(name: str) -> Part:
    """A column of the layer's view."""
    return sql.Identifier("layer", name)


def name_column(name: str) -> Part:
    """The name of a column of an answer."""
    return sql.Identifier(name)


def literal(value: str | float) -> Part:
    """A value; text has no type yet, so that it becomes that of what it is compared with."""
    if isinstance(value, str) and "\0" in value:
        refuse("a text has a NUL, which no column can have", "Remove it.")
    return sql.Literal(value)


def join(separator: str, parts: Sequence[Part]) -> Part:
    """Parts with a separator of ours between them."""
    return _plain(separator).join(parts)


def to_text(part: Part) -> str:
    """The text of a statement."""
    return part.as_string()


def _plain(text: str) -> sql.SQL:
    return sql.SQL(text)
