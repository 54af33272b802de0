"""Untrusted JSON: what can't be stored is refused before anything looks into it (S7)."""

import orjson

from anabranch.canonical import Json, JsonObject, decode
from anabranch.errors import InputError

__all__ = ["open_document", "parse_document", "parse_item", "write_document"]


def parse_document(text: bytes) -> Json:
    """The value of a JSON text without NaN, duplicate keys or deep nesting; InputError says what is wrong."""
    try:
        return decode(text, unique_keys=True)
    except ValueError as error:  # also of text that is not UTF-8
        raise InputError(
            "ingest.unreadable", f"this is not JSON that can be stored: {error}", remedy="Write it as RFC 8259 says."
        ) from error


def open_document(text: bytes) -> JsonObject:
    """The object of a JSON text."""
    value = parse_document(text)
    if isinstance(value, dict):
        return value
    what = f"this is a JSON {type(value).__name__}, not an object"
    raise InputError("ingest.not_stac", what, remedy="Give items, collections, catalogs or ItemCollections.")


def parse_item(text: bytes, max_kb: int) -> JsonObject:
    """The object of a JSON text that is no larger than an item may be."""
    if len(text) > max_kb * 1024:
        what = f"the item has {len(text)} bytes; at most {max_kb * 1024} are accepted"
        raise InputError("ingest.too_large", what, remedy="Move large values into assets, or raise `stac_item_kb`.")
    return open_document(text)


def write_document(document: JsonObject) -> bytes:
    """The one text of a parsed document: sorted keys, no spaces; InputError where an integer has over 64 bits."""
    try:
        return orjson.dumps(document, option=orjson.OPT_SORT_KEYS)
    except TypeError as error:
        what = f"this is not JSON that can be stored: {error}"
        raise InputError("ingest.unreadable", what, remedy="Write large numbers as text.") from error
