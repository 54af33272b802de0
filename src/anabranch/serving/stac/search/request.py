"""Checks searches of the STAC API, in the query or the body."""

from collections.abc import Callable, Iterable, Mapping
from urllib.parse import unquote_plus

from fastapi import Request
from fastapi.dependencies.models import Dependant
from stac_fastapi.types.rfc3339 import parse_single_date

from anabranch.canonical import decode
from anabranch.serving.parameters import body_names, query_names, refuse_unknown
from anabranch.serving.stac.search.bounds import BOUNDS, refuse
from anabranch.serving.stac.search.cql2 import check_filter, check_property, check_values
from anabranch.serving.stac.search.geojson import check_bbox, check_geometry

__all__ = ["READ", "check_query", "check_request"]

CRS84 = "http://www.opengis.net/def/crs/OGC/1.3/CRS84"
MAX_DATETIME_CHARS = 100


async def check_request(request: Request) -> None:
    """Refuse unknown parameters, and what no parser or database should see; they check the syntax themselves."""
    dependant: Dependant = request.scope["route"].dependant
    refuse_unknown(request.query_params.keys(), query_names(dependant), "catalog.query")
    if request.method == "POST":
        given = await request.json()
        given = given if isinstance(given, dict) else {}
        refuse_unknown(given, body_names(dependant), "catalog.query")
        _check(given)
    check_query(request.query_params.multi_items())


def check_query(given: Iterable[tuple[str, str]]) -> None:
    """Refuse parameters of a query that no parser or database should see; a filter is checked where it is parsed."""
    for name, text in given:
        _check({name: READ.get(name, str)(text)})


def _check(given: Mapping[str, object]) -> None:
    for name, value in given.items():
        if value is not None and (check := CHECKS.get(name)):
            check(value)


def _check_ids(name: str, value: object) -> None:
    if isinstance(value, list) and len(value) > BOUNDS.ids:
        refuse(f"{name} has more than {BOUNDS.ids:,} entries")
    check_values(value, name)


def _check_name(name: str, value: object) -> None:
    if isinstance(value, str) and not value.lstrip("+-").strip():
        refuse(f"{name} has an empty name", "Separate the names by single commas.")
    if isinstance(value, str) and value.count(".") >= BOUNDS.name_levels:
        refuse(f"{name} has a name of more than {BOUNDS.name_levels} levels", "Name a field above it.")
    check_values(value, name)


def _check_names(name: str, value: object) -> None:
    names = value if isinstance(value, list) else []
    if len(names) > BOUNDS.names:
        refuse(f"{name} has more than {BOUNDS.names} names", "Name an object that holds them, like properties.")
    for each in names:
        _check_name(name, each.get("field") if isinstance(each, dict) else each)


def _check_order(value: object) -> None:
    _check_names("sortby", value)
    for each in value if isinstance(value, list) else []:
        field = each.get("field") if isinstance(each, dict) else each
        check_property(field.lstrip("+-") if isinstance(field, str) else None, "sortby")


def _check_fields(value: object) -> None:
    chosen = value if isinstance(value, dict) else {}
    lists = [chosen.get(side) for side in ("include", "exclude")]
    _check_names("fields", [name for names in lists if isinstance(names, list) for name in names])


def _check_comparisons(value: object) -> None:
    parts = value.values() if isinstance(value, dict) else ()
    if sum(len(part) if isinstance(part, dict) else 1 for part in parts) > BOUNDS.operators:
        refuse(f"query has more than {BOUNDS.operators} comparisons")
    check_values(value, "query")
    for name in value if isinstance(value, dict) else ():
        check_property(name, "query")


def _check_datetime(value: object) -> None:
    if isinstance(value, str) and len(value) > MAX_DATETIME_CHARS:
        refuse(
            "datetime is not a date or interval", "Write it like 2026-03-21T10:15:00Z, or two of them with a / between."
        )
    start, _, end = value.partition("/") if isinstance(value, str) else ("", "", "")
    try:
        is_reversed = parse_single_date(start) > parse_single_date(end)
    except ValueError:
        return  # it has an open end, or stac-fastapi reports it
    if is_reversed:
        refuse(f"datetime begins at {start}, after its end at {end}", "Write the earlier of the two first.")


def _check_crs(value: object) -> None:
    if value != CRS84:
        refuse("filter-crs is not supported", f"Remove it, or set it to {CRS84}.")


def _refuse_conf(_: object) -> None:
    refuse("conf is not allowed", "Remove it.")


def _check_body_filter(value: object) -> None:
    if not isinstance(value, str):  # a filter in the query is checked where it is parsed
        check_filter(value)


def _read_bbox(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",", 6)]
    except ValueError:
        return []


def _read_json(text: str) -> object:
    try:
        return decode(unquote_plus(text))  # as stac-fastapi does
    except ValueError as error:
        return refuse(f"intersects or query is not JSON: {error}", "Send JSON, percent-encoded.")


def _read_names(text: str) -> list[str]:
    return text.split(",") if text else []


READ: Mapping[str, Callable[[str], object]] = {
    "ids": _read_names,
    "collections": _read_names,
    "bbox": _read_bbox,
    "intersects": _read_json,
    "query": _read_json,
    "fields": lambda text: {"include": _read_names(text)},
    "sortby": _read_names,
}
CHECKS: Mapping[str, Callable[[object], None]] = {
    "ids": lambda value: _check_ids("ids", value),
    "collections": lambda value: _check_ids("collections", value),
    "bbox": check_bbox,
    "datetime": _check_datetime,
    "intersects": lambda value: check_geometry(value, "intersects"),
    "query": _check_comparisons,
    "fields": _check_fields,
    "sortby": _check_order,
    "filter": _check_body_filter,
    "filter-crs": _check_crs,
    "token": lambda value: check_values(value, "token"),
    "conf": _refuse_conf,
}
