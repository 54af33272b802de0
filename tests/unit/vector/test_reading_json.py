"""GeoJSON as people send it: what is wrong is named with its line and column, by a scan of bounded memory."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.errors import Permanent
from anabranch.plugins.vector.reading import json_blocks
from anabranch.plugins.vector.reading.json_scan import scan_json
from anabranch.plugins.vector.settings import VectorSettings
from tests.support.source_layers import read_all
from tests.support.vectors import feature, make_collection
from tests.unit.vector.conftest import Open, Refuse

ONE = json.dumps(feature({"a": 1}))
HEAD = '{"type": "FeatureCollection",\n"features": [\n'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (HEAD + ONE + ",\n" + ONE.replace('"a": 1', '"a": NaN') + "]}", "line 4, column 41"),
        (HEAD + ONE + ",\n" + ONE.replace('"a": 1', '"a": -Infinity') + "]}", "line 4"),
        (HEAD + ONE + "\n" + ONE + "]}", "line 4, column 1"),
        (HEAD + ONE + ",\n]}", "trailing comma, at line 4"),
        (HEAD + ONE + "]", "EOF while parsing an object, at line 3"),
        (HEAD + ONE[:50], "the file ends within the list of features, at line 3, column 51"),
        (HEAD + ONE + "], x}", "line 3, column"),
        ('{"type": "FeatureCollection", y "features": []}', "line 1, column 31"),
        (HEAD + ONE.replace("1.5", "1.5.2") + "]}", "line 3"),
        (HEAD + ONE.replace('"a"', '"ä" 1, "ö"') + "]}", "line 3, column 40"),
        (ONE + "\n" + ONE[:-1] + "\n", "line 2"),
        (ONE + "\n" + ONE.replace("1.5", "x") + "\n" + ONE, "line 2, column 91"),
        (HEAD + ONE.replace("1}", '"\\u0000"}') + "]}", "NUL character"),
        ("{", "EOF while parsing an object, at line 1"),
        (HEAD + ONE.replace('"a": 1', '"a": ' + "[" * 40 + "]" * 40) + "]}", "nested over 32 deep, at line 3"),
    ],
)
def test_invalid_json_is_refused_with_its_place(refuse: Refuse, tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "a.geojson").write_text(text)
    error = refuse(tmp_path / "a.geojson")
    assert "a.geojson" in error.message
    assert (error.code, words in error.message) == ("vector.json", True), error.message


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"a": 1}', "valid JSON, but not GeoJSON: it has no type"),
        ('{"type": "gdal_streamed_alg", "command_line": "gdal vector read /etc/passwd"}', "'gdal_streamed_alg'"),
        (f"[{ONE}]", "a list at its top level"),
        ('{"type": "FeatureCollection"}', "without a list of features"),
        ('{"type": "FeatureCollection", "features": [null]}', "no feature, as number 1"),
        ('{"type": "FeatureCollection", "features": [{"type": "Point", "coordinates": [1, 2]}]}', "(Point)"),
        ('{"features": [], "geometryType": "esriGeometryPoint"}', "not FeatureCollection"),
        (ONE + '\n{"type": "x"}', "no feature, as number 2"),
        (ONE + "\n5", "no feature at its end"),
    ],
)
def test_json_that_is_not_geojson_is_refused(refuse: Refuse, tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "a.geojson").write_text(text)
    error = refuse(tmp_path / "a.geojson")
    assert (error.code, words in error.message) == ("vector.geojson", True), error.message


@pytest.mark.parametrize(
    ("crs", "code", "found"),
    [
        ({"type": "name", "properties": {"name": "urn:ogc:def:crs:EPSG::25832"}}, "EPSG:25832", "member"),
        ({"type": "name", "properties": {"name": "EPSG:25832"}}, "EPSG:25832", "member"),
        ({"type": "name", "properties": {"name": "urn:ogc:def:crs:OGC:1.3:CRS84"}}, "OGC:CRS84", "member"),
        ({"type": "link", "properties": {"href": "http://127.0.0.1:9/crs"}}, None, "member"),
        ({"type": "name", "properties": {"name": "our own grid"}}, None, "member"),
        (None, None, "member"),
    ],
)
def test_an_old_crs_member_is_used_if_it_names_a_code(
    layers: Open, tmp_path: Path, crs: object, code: str | None, found: str
) -> None:
    (layer,) = layers(make_collection(tmp_path / "a.geojson", [feature()], crs=crs))
    assert (layer.crs, layer.crs_found, bool(layer.warnings)) == (code, found, code is None)


def test_lines_records_and_single_objects_are_read(layers: Open, tmp_path: Path) -> None:
    texts = {
        "lines.ndjson": f"{ONE}\n{ONE}\n",
        "records.json": f"\x1e{ONE}\n\x1e{ONE}\n",
        "bom.geojson": f"\ufeff{HEAD}{ONE},{ONE}]}}",
        "after.geojson": '{"features": [' + f'{ONE},{ONE}], "name": "after", "type": "FeatureCollection"' + "}",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
        (layer,) = layers(tmp_path / name)
        assert read_all(layer).attributes == [{"a": 1}, {"a": 1}], name
    (tmp_path / "one.geojson").write_text(ONE)
    assert read_all(layers(tmp_path / "one.geojson")[0]).shapes == ["POINT (1.5 2.25)"]
    (tmp_path / "shape.geojson").write_text('{"type": "LineString", "coordinates": [[1, 2], [3, 4]]}')
    assert read_all(layers(tmp_path / "shape.geojson")[0]).shapes == ["LINESTRING (1 2, 3 4)"]


def test_numbers_that_must_be_rounded_are_reported(layers: Open, tmp_path: Path) -> None:
    rows: list[dict[str, float]] = [{"a": 2**60 + 1, "b": 2**70}, {"a": 0.5, "b": 1}]
    (layer,) = layers(make_collection(tmp_path / "a.geojson", [feature(row) for row in rows]))
    assert layer.warnings == ("Whole numbers with over 15 digits are rounded in: a, b.",)


def test_values_that_must_be_read_whole_are_bounded(refuse: Refuse, tmp_path: Path) -> None:
    """A feature of 20 MB, or a TopoJSON file of that size, is over the limit of a memory of 256 MB."""
    settings = VectorSettings(vector_memory_mb=256)
    error = refuse(make_collection(tmp_path / "a.geojson", [feature({"a": "x" * 20_000_000})]), settings)
    assert (error.code, "has a value larger than 16 MB, from line 1" in error.message) == ("vector.too_large", True)
    topology = {"type": "Topology", "objects": {}, "arcs": [], "more": "x" * 20_000_000}
    (tmp_path / "b.json").write_text(json.dumps(topology))
    assert "larger than 16 MB" in refuse(tmp_path / "b.json", settings).message


def test_too_many_properties_are_refused(refuse: Refuse, tmp_path: Path) -> None:
    path = make_collection(tmp_path / "a.geojson", [feature({f"p{n}": n}) for n in range(2_000)])
    assert refuse(path).code == "vector.columns"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text('ab"\\{}[],:\n', max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text('a"\\]', max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(
    st.lists(st.dictionaries(st.text('ab"\\[{', max_size=4), json_values, max_size=3), max_size=6),
    st.sampled_from((None, 1)),
    st.integers(7, 300),
    st.booleans(),
)
def test_blocks_of_any_size_give_the_same_scan(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, object]], indent: int | None, size: int, lines: bool
) -> None:
    """Quotes, brackets and escapes in strings, cut anywhere by the blocks that are read."""
    path = tmp_path_factory.mktemp("scan") / "a.geojson"
    features = [feature(row) for row in rows]
    if lines and len(rows) > 1:
        path.write_text("\n".join(json.dumps(each) for each in features))
    else:
        path.write_text(json.dumps({"type": "FeatureCollection", "features": features, "x": "]}"}, indent=indent))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_blocks, "BLOCK_BYTES", size)
        facts = scan_json(path, VectorSettings())
    assert facts.features == len(rows)
    assert facts.names == {name for row in rows for name in row}


@given(st.integers(1, 120), st.integers(7, 60))
def test_cut_off_files_are_refused_wherever_they_end(
    tmp_path_factory: pytest.TempPathFactory, cut: int, size: int
) -> None:
    path = tmp_path_factory.mktemp("scan") / "a.geojson"
    text = HEAD + ONE + "]}"
    path.write_text(text[: -min(cut, len(text) - 1)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_blocks, "BLOCK_BYTES", size)
        with pytest.raises(Permanent, match="not valid JSON"):
            scan_json(path, VectorSettings())
