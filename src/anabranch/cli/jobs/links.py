"""Where to look at what a job published."""

from collections.abc import Iterator
from typing import Any

from anabranch.client import JobStatus
from anabranch.client.catalog import current_file_path, item_path, items_path, map_path, tilejson_path
from anabranch.errors import InputError

__all__ = ["find_links"]

MAX_ITEMS = 20  # of a job that have links; those of more are found in their collection


def find_links(base_url: str, job: JobStatus) -> list[tuple[str, str]]:
    """The URLs of the map, the items, their tiles and the files of a publishing job, with their names; else none."""
    result: Any = job.result  # as the workflow's output says
    if not isinstance(result, dict):
        return []
    items = [(one["collection"], one["id"]) for one in _read_list(result, "items", "collection", "id")]
    outputs = list(_read_list(result, "outputs", "name", "kind"))
    if not items:
        return []
    shown = items[:MAX_ITEMS]
    tiled = shown if {"cog", "mosaic"} & {one["kind"] for one in outputs} else []
    try:
        paths = [
            ("map", map_path(*items[0]) if len(items) == 1 else "/data"),
            *(("item", item_path(*item)) for item in shown),
            *([("items", items_path(items[0][0]))] if len(items) > MAX_ITEMS else []),
            *(("tiles", tilejson_path(*item)) for item in tiled),
            # Of several items, the result does not say which file is whose; tiles are found through their mosaic.
            *(
                ("file", current_file_path(*items[0], one["name"]))
                for one in outputs
                if len(items) == 1 and one["kind"] != "tile"
            ),
        ]
    except InputError:  # a result of the same shape that is no publication
        return []
    return [(name, base_url + path) for name, path in paths]


def _read_list(result: dict[str, Any], key: str, *names: str) -> Iterator[dict[str, Any]]:
    """The objects of a list that have texts of these names."""
    found = result.get(key)
    for one in found if isinstance(found, list) else ():
        if isinstance(one, dict) and all(isinstance(one.get(name), str) for name in names):
            yield one
