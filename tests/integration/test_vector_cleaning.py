"""What cleaning takes PostgreSQL to refuse or to accept, PostgreSQL does."""

import psycopg
import pyarrow as pa
import pytest
from psycopg.sql import SQL, Identifier

from anabranch.plugins.vector.cleaning.names import name_columns
from anabranch.plugins.vector.cleaning.reserved_words import RESERVED_WORDS, SYSTEM_COLUMNS
from tests.support.vector_batches import clean, make_layer

pytestmark = pytest.mark.postgres
JSON = [
    '{"a": NaN}',
    '["a\\u0000b", "\\ud800"]',
    "{broken",
    "[1e400, 12345678901234567890]",
    "[1e200000, -1e-20000, 0e-20000, 1e308, 1e-308, 1e-999, 1e0400]",
    f"[0.{'0' * 20_000}1, 1.{'5' * 390}]",
    f"[{'9' * 4_000}]",
    '"\\ud83d\\ude00"',
    "[" * 900 + "]" * 900,
]


def test_v1_the_reserved_words_are_those_of_postgresql(database_url: str) -> None:
    with psycopg.connect(database_url) as connection:
        words = {row[0] for row in connection.execute("select word from pg_get_keywords() where catcode in ('R', 'T')")}
        columns = {row[0] for row in connection.execute("select attname from pg_attribute where attnum < 0")}
    assert words <= RESERVED_WORDS
    assert RESERVED_WORDS - words <= {"system_user"}  # newer than the oldest version that is supported
    assert columns == SYSTEM_COLUMNS


def test_v1_a_table_with_every_name_that_cleaning_gives_can_be_made_without_quotes(database_url: str) -> None:
    names = name_columns([*sorted(RESERVED_WORDS | SYSTEM_COLUMNS), "gid", "geom", "1", "Größe", ""])
    with psycopg.connect(database_url) as connection:
        connection.execute(f"create table named ({', '.join(f'{name} integer' for name in names)})".encode())
        quoted = SQL(", ").join(map(Identifier, names))
        found = connection.execute(SQL("select {} from named").format(quoted))
        assert [column.name for column in found.description or ()] == names


def test_v1_postgresql_accepts_every_repaired_json(database_url: str) -> None:
    field = pa.field("value", pa.string(), metadata={"ARROW:extension:name": "arrow.json"})
    cleaned = clean(make_layer(["POINT(1 2)"] * len(JSON), {"value": pa.array(JSON)}, schema=pa.schema([field])))

    with psycopg.connect(database_url) as connection:
        for text in cleaned.column("value"):
            assert connection.execute("select %s::jsonb is not null", [text]).fetchone() == (True,)
