"""Types of columns: what each of Arrow's becomes in PostgreSQL, and the one in which its values are handed on."""

import pyarrow as pa
import pyarrow.types as kinds

from anabranch.plugins.vector.models import ColumnType

__all__ = ["ARROW_TYPES", "find_type", "storage_of"]

# The type of the arrays in `CleanBatch.attributes`, which the writer of binary COPY relies on. Numbers of `numeric`
# are plain decimals ("-12.50", no exponent), and values of `jsonb` are texts of valid JSON.
ARROW_TYPES: dict[ColumnType, pa.DataType] = {
    ColumnType.BOOLEAN: pa.bool_(),
    ColumnType.INTEGER: pa.int32(),
    ColumnType.BIGINT: pa.int64(),
    ColumnType.REAL: pa.float32(),
    ColumnType.DOUBLE: pa.float64(),
    ColumnType.NUMERIC: pa.string(),
    ColumnType.TEXT: pa.string(),
    ColumnType.DATE: pa.date32(),
    ColumnType.TIME: pa.time64("us"),
    ColumnType.TIMESTAMP: pa.timestamp("us"),
    ColumnType.TIMESTAMPTZ: pa.timestamp("us", "UTC"),
    ColumnType.JSONB: pa.string(),
    ColumnType.BYTEA: pa.binary(),
}
_BY_TYPE = {
    pa.bool_(): ColumnType.BOOLEAN,
    pa.int8(): ColumnType.INTEGER,
    pa.int16(): ColumnType.INTEGER,
    pa.int32(): ColumnType.INTEGER,
    pa.uint8(): ColumnType.INTEGER,
    pa.uint16(): ColumnType.INTEGER,
    pa.int64(): ColumnType.BIGINT,
    pa.uint32(): ColumnType.BIGINT,
    pa.uint64(): ColumnType.NUMERIC,
    pa.float16(): ColumnType.REAL,
    pa.float32(): ColumnType.REAL,
    pa.float64(): ColumnType.DOUBLE,
    pa.date32(): ColumnType.DATE,
    pa.date64(): ColumnType.DATE,
}
_BY_KIND = (
    (kinds.is_decimal, ColumnType.NUMERIC),
    (kinds.is_time, ColumnType.TIME),
    (kinds.is_duration, ColumnType.BIGINT),  # in the unit of the source
    (kinds.is_nested, ColumnType.JSONB),
    (kinds.is_binary, ColumnType.BYTEA),
    (kinds.is_large_binary, ColumnType.BYTEA),
    (kinds.is_fixed_size_binary, ColumnType.BYTEA),
    (kinds.is_binary_view, ColumnType.BYTEA),
)
_JSON = "arrow.json"


def find_type(field: pa.Field) -> ColumnType:
    """The type in PostgreSQL; text for what has no other."""
    metadata = field.metadata or {}
    if _JSON in (getattr(field.type, "extension_name", ""), metadata.get(b"ARROW:extension:name", b"").decode()):
        return ColumnType.JSONB
    found = storage_of(field.type)
    if kinds.is_timestamp(found):
        return ColumnType.TIMESTAMPTZ if found.tz else ColumnType.TIMESTAMP
    by_kind = (column for is_kind, column in _BY_KIND if is_kind(found))
    return _BY_TYPE.get(found) or next(by_kind, ColumnType.TEXT)


def storage_of(found: pa.DataType) -> pa.DataType:
    """The type of the values themselves, of extension types and of dictionaries."""
    if isinstance(found, pa.BaseExtensionType):
        found = found.storage_type
    return storage_of(found.value_type) if kinds.is_dictionary(found) else found
