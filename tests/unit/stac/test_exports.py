"""Documents become a static catalog and a stac-geoparquet file; a file that does not hold them is refused."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from anabranch.errors import Permanent
from anabranch.plugins.stac.exports import columns
from anabranch.plugins.stac.exports.columns import Column
from anabranch.plugins.stac.exports.geoparquet import verify_geoparquet, write_geoparquet
from anabranch.plugins.stac.exports.snapshot import Snapshot
from anabranch.plugins.stac.exports.static_catalog import About, write_static_catalog
from anabranch.plugins.stac.exports.verify_static_catalog import verify_static_catalog
from tests.support.stac_items import make_collection, make_item, write_ndjson

ABOUT = About("all", "Everything.")


def make_snapshot(folder: Path, *items: Any) -> Snapshot:
    """A snapshot of the collection `scenes` with these items."""
    collection = make_collection(stac_version="1.1.0")
    path = write_ndjson(folder / "documents.ndjson", [collection, *({**item, "links": []} for item in items)])
    return Snapshot(path, ("scenes",), len(items), {})


def make_item_with(item: str, **properties: Any) -> Any:
    return make_item(item, properties={"datetime": "2024-05-01T10:30:00Z", **properties})


def read_rows(path: Path) -> dict[str, Any]:
    return {row["id"]: row for row in pq.read_table(path).to_pylist()}


def convert(*values: Any) -> tuple[pa.DataType, list[Any]]:
    column = Column()
    for value in values:
        column.add(value)
    return column.type, column.convert(values).to_pylist()


def test_a_column_has_the_narrowest_type_that_holds_all_values() -> None:
    assert convert(1, None) == (pa.int64(), [1, None])
    assert convert(1, 0.5) == (pa.float64(), [1.0, 0.5])
    assert convert(True, False) == (pa.bool_(), [True, False])
    assert convert([1], [], [2.5]) == (pa.list_(pa.float64()), [[1.0], [], [2.5]])
    assert convert({"a": 1}, {"b": "x"})[1] == [{"a": 1, "b": None}, {"a": None, "b": "x"}]


def test_values_that_no_type_fits_are_json_text() -> None:
    assert convert(0, "nan") == (pa.string(), ["0", "nan"])
    assert convert(2**64) == (pa.string(), [str(2**64)])
    assert convert({}) == (pa.string(), ["{}"])
    assert convert([1], [[2]]) == (pa.list_(pa.string()), [["1"], ["[2]"]])


def test_keys_without_end_are_not_columns_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "MAX_FIELDS", 3)
    values = [{f"key{number}": number} for number in range(9)]
    found, texts = convert(*values)
    assert (found, [json.loads(text) for text in texts]) == (pa.string(), values)


def test_what_the_table_can_not_hold_is_in_the_warnings(tmp_path: Path) -> None:
    items = [make_item_with("a", n=1, created="yesterday"), make_item_with("b", n="x", id="7", created=None)]
    snapshot = make_snapshot(tmp_path, *items)
    warnings = write_geoparquet(snapshot, tmp_path / "items.parquet")
    assert [warning.rpartition(" ")[2] for warning in warnings] == ["n", "created", "id"]
    rows = read_rows(tmp_path / "items.parquet")
    assert [rows[item]["n"] for item in "ab"] == ["1", "x"]
    assert rows["a"]["created"] == "yesterday"
    verify_geoparquet(tmp_path / "items.parquet", snapshot)


@pytest.mark.parametrize(
    "change",
    [
        lambda a, b: [a],
        lambda a, b: [b, a],
        lambda a, b: [a, {**b, "bbox": [7, 50, 8, 51.5]}],
        lambda a, b: [a, {**b, "geometry": {"type": "Point", "coordinates": [7, 50]}}],
    ],
    ids=["missing", "order", "bbox", "geometry"],
)
def test_files_of_other_items_are_refused(tmp_path: Path, change: Callable[[Any, Any], list[Any]]) -> None:
    items = make_item("a"), make_item("b")
    written = make_snapshot(tmp_path, *items)
    write_static_catalog(written, tmp_path, ABOUT)
    write_geoparquet(written, tmp_path / "items.parquet")
    verify_static_catalog(tmp_path, written)
    verify_geoparquet(tmp_path / "items.parquet", written)

    other = make_snapshot(tmp_path / "other", *change(*items))
    for verify, path in ((verify_static_catalog, tmp_path), (verify_geoparquet, tmp_path / "items.parquet")):
        with pytest.raises(Permanent) as refused:
            verify(path, other)
        assert refused.value.code == "export.wrong"


@pytest.mark.parametrize(
    ("file", "change"),
    [
        ("catalog.json", lambda document: {**document, "stac_version": "0.9"}),
        ("collections/scenes/collection.json", lambda document: {**document, "links": document["links"][:-1]}),
        ("collections/scenes/items/a.json", lambda document: {**document, "properties": {}}),
        ("collections/scenes/items/a.json", lambda document: {**document, "assets": {}}),
        ("collections/scenes/items/a.json", None),
    ],
    ids=["version", "link", "properties", "assets", "file"],
)
def test_a_damaged_catalog_is_refused(tmp_path: Path, file: str, change: Callable[[Any], Any] | None) -> None:
    snapshot, path = make_snapshot(tmp_path, make_item("a")), tmp_path / file
    write_static_catalog(snapshot, tmp_path, ABOUT)
    if change:
        path.write_text(json.dumps(change(json.loads(path.read_text()))))
    else:
        path.unlink()
    with pytest.raises(Permanent) as refused:
        verify_static_catalog(tmp_path, snapshot)
    assert refused.value.code == "export.wrong"


EXPORT = """
import sys
from pathlib import Path
from anabranch.plugins.stac.exports.geoparquet import verify_geoparquet, write_geoparquet
from anabranch.plugins.stac.exports.snapshot import Snapshot
from anabranch.plugins.stac.exports.static_catalog import About, write_static_catalog
from anabranch.plugins.stac.exports.verify_static_catalog import verify_static_catalog
folder, items = Path(sys.argv[1]), int(sys.argv[2])
snapshot = Snapshot(folder / "documents.ndjson", ("scenes",), items, {})
write_static_catalog(snapshot, folder, About("all", "Everything."))
verify_static_catalog(folder, snapshot)
write_geoparquet(snapshot, folder / "items.parquet")
verify_geoparquet(folder / "items.parquet", snapshot)
print(int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]) // 1024)
"""


@pytest.mark.slow
def test_memory_grows_far_less_than_the_number_of_items(tmp_path: Path) -> None:
    """10,000 items of 2 kB are 20 MB of JSON, and several times as much as objects of Python."""
    peaks = []
    for items in (10_000, 20_000):
        folder = tmp_path / str(items)
        make_snapshot(folder, *(make_item_with(f"i{number:06}", note="x" * 1_500) for number in range(items)))
        command = [sys.executable, "-c", EXPORT, str(folder), str(items)]
        peaks.append(int(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
    assert peaks[1] - peaks[0] < 20, peaks
