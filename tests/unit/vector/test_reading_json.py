"""GeoJSON as people send it: what is wrong is named with its line and column, by a scan of bounded memory."""

import json
from collections.abc import Sequence
from datetime import UTC, date, datetime, time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.errors import Permanent
from anabranch.plugins.vector.convert import convert
from anabranch.plugins.vector.models import ReadOptions
from anabranch.plugins.vector.reading.json import blocks as json_blocks
from anabranch.plugins.vector.reading.json.blocks import follows_features
from anabranch.plugins.vector.reading.json.scan import scan_json
from anabranch.plugins.vector.reading.open_layers import open_layers
from anabranch.plugins.vector.settings import VectorSettings
from tests.support.source_layers import read_all
from tests.support.vector_batches import clean
from tests.support.vectors import feature, make_collection
from tests.unit.vector.conftest import Open, Refuse

ONE = json.dumps(feature({"a": 1}))
HEAD = '{"type": "FeatureCollection",\n"features": [\n'
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text('ab"\\{}[],:\n', max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text('a"\\]', max_size=3), inner, max_size=3),
    max_leaves=8,
)
times = st.sampled_from(("2020-01-01", "10:00", "2020-01-01T10:00:00.123456Z", "2020-01-01 10:00", "2020-13-01"))


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
        (ONE + "\n" + ONE.replace('{"a": 1}', "[1]"), "properties that are no JSON object, in feature number 2"),
        (ONE.replace('{"a": 1}', '"a"'), "properties that are no JSON object, in feature number 1"),
        (HEAD + ONE.replace('{"a": 1}', "false") + "]}", "properties that are no JSON object, in feature number 1"),
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
        ({"type": "name", "properties": {"name": "urn:ogc:def:crs:EPSG::25832"}}, "EPSG:25832", "file"),
        ({"type": "name", "properties": {"name": "EPSG:25832"}}, "EPSG:25832", "file"),
        ({"type": "name", "properties": {"name": "urn:ogc:def:crs:OGC:1.3:CRS84"}}, "OGC:CRS84", "file"),
        ({"type": "link", "properties": {"href": "http://127.0.0.1:9/crs"}}, None, "file"),
        ({"type": "name", "properties": {"name": "our own grid"}}, None, "file"),
        (None, None, "file"),
    ],
)
def test_an_old_crs_member_is_used_if_it_names_a_code(
    layers: Open, tmp_path: Path, crs: object, code: str | None, found: str
) -> None:
    (layer,) = layers(make_collection(tmp_path / "a.geojson", [feature()], crs=crs))
    assert (layer.crs, layer.crs_found, bool(layer.warnings)) == (code, found, code is None)


@pytest.mark.parametrize(
    ("crs", "shown"),
    [
        ({"type": "name", "properties": {"name": "our own grid"}}, "our own grid"),
        ({"type": "link", "properties": {"href": "http://127.0.0.1:9/crs"}}, "http://127.0.0.1:9/crs"),
        (None, "null"),
    ],
)
def test_r1_the_error_of_an_unknown_crs_member_has_its_value(tmp_path: Path, crs: object, shown: str) -> None:
    point = {"type": "Point", "coordinates": [5, 5]}
    path = make_collection(tmp_path / "a.geojson", [feature(geometry=point)], crs=crs)
    with pytest.raises(Permanent) as caught:
        convert(path, tmp_path, ReadOptions(), VectorSettings(), None, lambda *_: None)
    assert (caught.value.code, shown in caught.value.message) == ("vector.crs_missing", True), caught.value.message
    assert "the `crs` member (" in caught.value.message


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


def read_values(layers: Open, path: Path, values: Sequence[object], suffix: str) -> list[Any]:
    """The values of a property, as they are read from a collection or from lines."""
    features = [feature({"v": value}) for value in values]
    if suffix == ".geojsonl":
        path.with_suffix(suffix).write_text("\n".join(json.dumps(each) for each in features) + "\n")
    else:
        make_collection(path.with_suffix(suffix), features)
    (layer,) = layers(path.with_suffix(suffix))
    return [row["v"] for row in read_all(layer, 2).attributes]


@pytest.mark.parametrize("suffix", [".geojson", ".geojsonl"])
@pytest.mark.parametrize(
    ("values", "read"),
    [
        ([1.1, "x", 2**60 + 1, True, None], ["1.1", "x", str(2**60 + 1), "true", None]),
        ([True, 5], ["true", "5"]),
        ([False, 5.5], ["false", "5.5"]),
        ([2**63 - 1, -(2**63)], [2**63 - 1, -(2**63)]),
        ([-(2**63) - 1, 1], [str(-(2**63) - 1), "1"]),
        ([2**64, 1], [str(2**64), "1"]),
        ([10**30 + 1, 0.5], [str(10**30 + 1), "0.5"]),
        ([2**60 + 1, 0.5], [str(2**60 + 1), "0.5"]),
        ([2**60, 0.5], [float(2**60), 0.5]),
        ([{"a": 1.1, "b": [2**70]}, None], ['{"a": 1.1, "b": [1180591620717411303424]}', None]),
        ([[1, 2], 5], ["[1, 2]", "5"]),
        ([[True], [1.1]], ["[true]", "[1.1]"]),
        ([["ä", 1], "x"], ['["ä", 1]', "x"]),
        (["2020-02-29", "2021-01-01"], [date(2020, 2, 29), date(2021, 1, 1)]),
        (["2020-02-30", "2021-01-01"], ["2020-02-30", "2021-01-01"]),
        (["2020-01-01", "2020-01-01T10:00:00Z"], ["2020-01-01", "2020-01-01T10:00:00Z"]),
        (["2020-01-01T10:00:00+02:00", "2020-01-01T10:00:00"], ["2020-01-01T10:00:00+02:00", "2020-01-01T10:00:00"]),
        (["2020-01-01T10:00Z", "2020-01-01T12:00:00+02:00"], [datetime(2020, 1, 1, 10, tzinfo=UTC)] * 2),
        (["2020-01-01T10:00:00.123456Z", None], [datetime(2020, 1, 1, 10, 0, 0, 123456, UTC), None]),
        (["2020-01-01T10:00:00.123"], [datetime(2020, 1, 1, 10, 0, 0, 123000)]),  # noqa: DTZ001
        (["2020-01-01T10:00:00.1234567Z"], ["2020-01-01T10:00:00.1234567Z"]),
        (["2020/01/01", "2020/01/02"], ["2020/01/01", "2020/01/02"]),
        (["10:00:00.123456", "23:59"], [time(10, 0, 0, 123456), time(23, 59)]),
        (["10:00", "2020-01-01T10:00:00Z"], ["10:00", "2020-01-01T10:00:00Z"]),
        (["10:00", ""], ["10:00", ""]),
    ],
    ids=str,
)
def test_v1_values_come_back_exactly(
    layers: Open, tmp_path: Path, suffix: str, values: list[object], read: list[object]
) -> None:
    """What GDAL would round, convert or make another day of, like the 30th of February, is read by us."""
    assert read_values(layers, tmp_path / "a", values, suffix) == read


@pytest.mark.parametrize("suffix", [".geojson", ".geojsonl", ".topojson"])
@pytest.mark.parametrize(
    ("values", "read"),
    [
        (["12345678901234567.89", "0.01", "null"], ["12345678901234567.89", "0.01", None]),
        (["1234567890.123456789012", "2.5", "7"], ["1234567890.123456789012", "2.5", "7"]),
        (["9007199254740993.0"], ["9007199254740993.0"]),
        (["1234567890123456789e-3"], ["1234567890123456789e-3"]),
        (["-0.1000000000000000055"], ["-0.1000000000000000055"]),
        (["9007199254740992.0", "0.30000000000000004"], [2.0**53, 0.1 + 0.2]),
        (["1.1000000000000000", "5"], [1.1, 5.0]),
    ],
)
def test_v1_decimals_that_floating_point_would_round_are_text(
    layers: Open, tmp_path: Path, suffix: str, values: list[str], read: list[object]
) -> None:
    found = [f'"properties": {{"v" : {value}}}' for value in values]
    geometry = '"type": "Point", "coordinates": [1.1234567890123456789, 2]'
    features = [f'{{"type": "Feature", "geometry": {{{geometry}}}, {each}}}' for each in found]
    members = ", ".join(f"{{{geometry}, {each}}}" for each in found)
    path = tmp_path / f"a{suffix}"
    path.write_text({
        ".geojson": f'{{"type": "FeatureCollection", "features": [{", ".join(features)}]}}',
        ".geojsonl": "\n".join(features),
        ".topojson": '{"type": "Topology", "arcs": [], "objects": {"a": {"type": "GeometryCollection", '
        f'"geometries": [{members}]}}}}}}',
    }[suffix])  # fmt: skip
    (layer,) = layers(path)
    assert [row["v"] for row in read_all(layer, 2).attributes] == read
    table = tmp_path / "a.csv"
    table.write_text("v,lon,lat\n" + "".join(f"{value.replace('null', '')},1,2\n" for value in values))
    is_text = pa.types.is_string(layers(table)[0].schema.field("v").type)
    assert is_text == isinstance(read[0], str), "as in CSV"


@given(st.lists(json_values | st.floats(allow_nan=False, allow_infinity=False) | times, min_size=1, max_size=6))
def test_v1_any_values_come_back_exactly(tmp_path_factory: pytest.TempPathFactory, values: list[object]) -> None:
    folder = tmp_path_factory.mktemp("values")
    path = make_collection(folder / "a.geojson", [feature({"v": value}) for value in values])
    (layer,) = open_layers(path, folder, ReadOptions(), VectorSettings())
    read = [row["v"] for row in read_all(layer, 4).attributes]
    for value, found in zip(values, read, strict=True):
        assert show(found, value) == value


def show(found: Any, value: object) -> object:
    """A value that was read, as the file has it."""
    if isinstance(found, (date, time)):  # a datetime is a date
        return value if type(found).fromisoformat(str(value)) == found else found
    is_text = isinstance(found, str) and not isinstance(value, str)
    return json.loads(found) if is_text else found


@pytest.mark.parametrize("suffix", [".geojson", ".geojsonl"])
@pytest.mark.parametrize(
    ("ids", "properties", "read"),
    [
        ([3, 5], {}, {"id": [3, 5]}),
        ([5, 3], {}, {"id": [5, 3]}),
        ([5, 5], {}, {"id": [5, 5]}),
        ([5, None], {}, {"id": [5, None]}),
        ([-1, 2], {}, {"id": [-1, 2]}),
        ([-(2**63), 2**63 - 1], {}, {"id": [-(2**63), 2**63 - 1]}),
        (["a", "b"], {}, {"id": ["a", "b"]}),
        (["a", None], {}, {"id": ["a", None]}),
        (["a", 1], {}, {"id": ["a", "1"]}),
        ([1.5, 2**70], {}, {"id": ["1.5", str(2**70)]}),
        ([None, None], {"id": [7, 7]}, {"id": [7, 7]}),
        ([None, None], {"id": [7, None]}, {"id": [7, None]}),
        ([7, 8], {"id": [7, 8]}, {"id": [7, 8]}),
        (["a", "b"], {"id": ["a", "b"]}, {"id": ["a", "b"]}),
        ([4, 5], {"id": ["x", "y"]}, {"feature_id": [4, 5], "id": ["x", "y"]}),
        (["a", "b"], {"id": [1, 2]}, {"feature_id": ["a", "b"], "id": [1, 2]}),
        ([2, 1], {"id": [1, 2], "feature_id": [0, 0]}, {"feature_id_2": [2, 1], "id": [1, 2], "feature_id": [0, 0]}),
        ([None, None], {"fid": [7, 7], "ogc_fid": [8, 8]}, {"fid": [7, 7], "ogc_fid": [8, 8]}),
    ],
    ids=str,
)
def test_v1_ids_of_features_are_a_column_of_their_own(
    layers: Open, tmp_path: Path, suffix: str, ids: list[object], properties: dict[str, list[object]], read: object
) -> None:
    """No number that GDAL gives to a row is taken for an id, and a property `id` keeps its name and its values."""
    features = [
        feature({name: values[place] for name, values in properties.items()}, **({} if one is None else {"id": one}))
        for place, one in enumerate(ids)
    ]
    path = tmp_path / f"a{suffix}"
    if suffix == ".geojson":
        make_collection(path, features)
    else:
        path.write_text("\n".join(json.dumps(each) for each in features) + "\n")
    (layer,) = layers(path)
    rows = read_all(layer, 1).attributes
    assert {name: [row[name] for row in rows] for name in rows[0]} == read


@pytest.mark.parametrize("suffix", [".geojson", ".geojsonl"])
@pytest.mark.parametrize("ids", [[1, 2], ["x", 13], ["x", "way/13"], ["x", "14x"], ["x", "13"], [None, "13"]], ids=str)
@pytest.mark.parametrize("given", [5, 5.5, "a"])
@pytest.mark.parametrize("second", [{}, {"id": None}, None], ids=["absent", "null", "no properties"])
def test_v1_an_id_of_a_feature_is_no_value_of_a_property_that_it_lacks(
    layers: Open, tmp_path: Path, suffix: str, ids: list[object], given: object, second: dict[str, object] | None
) -> None:
    """GDAL would take 0 or 14 for the property `id` from the ids `way/13` or `14x`."""
    features = [feature({"id": given}), {**feature({}), "properties": second}]
    texts = [
        json.dumps({**each, **({} if one is None else {"id": one})}) for each, one in zip(features, ids, strict=True)
    ]
    path = tmp_path / f"a{suffix}"
    path.write_text(HEAD + ",".join(texts) + "]}" if suffix == ".geojson" else "\n".join(texts) + "\n")
    rows = read_all(layers(path)[0]).attributes
    assert [row["id"] for row in rows] == [given, None]
    assert [row["feature_id"] for row in rows] == [one if ids == [1, 2] or one is None else str(one) for one in ids]


def test_v1_values_and_ids_of_topojson_come_back_exactly(layers: Open, tmp_path: Path) -> None:
    geometries = [
        {"type": "Point", "coordinates": [1, 2], "id": "q", "properties": {"id": 5, "v": 1.1, "t": "10:00:00.123456"}},
        {"type": None, "properties": {"v": "left out"}},
        {"type": "Point", "coordinates": [3, 4], "properties": {"id": 6, "v": "x", "t": None}},
    ]
    topology = {"type": "Topology", "objects": {"x": {"type": "GeometryCollection", "geometries": geometries}}}
    (tmp_path / "a.json").write_text(json.dumps({**topology, "arcs": []}))
    (layer,) = layers(tmp_path / "a.json")
    assert read_all(layer).attributes == [
        {"feature_id": "q", "id": 5, "v": "1.1", "t": time(10, 0, 0, 123456)},
        {"feature_id": None, "id": 6, "v": "x", "t": None},
    ]


@pytest.mark.parametrize("number", ["9223372036854775808", "1e400", '{"a": [-1e200000]}'])
def test_numbers_that_no_reader_has_are_refused(refuse: Refuse, tmp_path: Path, number: str) -> None:
    (tmp_path / "a.geojson").write_text(HEAD + ONE.replace('"a": 1', f'"a": {number}') + "]}")
    error = refuse(tmp_path / "a.geojson")
    assert (error.code, "Unrecognized number" in error.message) == ("vector.json", True), error.message


def test_values_that_must_be_read_whole_are_bounded(refuse: Refuse, tmp_path: Path) -> None:
    """They are held whole, in much more memory than they have bytes."""
    settings = VectorSettings(vector_memory_mb=256)
    error = refuse(make_collection(tmp_path / "a.geojson", [feature({"a": "x" * 13_000_000})]), settings)
    assert (error.code, "has a feature larger than 10 MB, from line 1" in error.message) == ("vector.too_large", True)
    topology = {"type": "Topology", "objects": {}, "arcs": [], "more": "x" * 13_000_000}
    (tmp_path / "b.json").write_text(json.dumps(topology))
    assert "larger than 10 MB" in refuse(tmp_path / "b.json", settings).message


def test_too_many_properties_are_refused(refuse: Refuse, tmp_path: Path) -> None:
    path = make_collection(tmp_path / "a.geojson", [feature({f"p{n}": n}) for n in range(2_000)])
    assert refuse(path).code == "vector.columns"


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
    assert facts.properties.names == {name for row in rows for name in row}


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


@pytest.mark.parametrize("suffix", [".geojson", ".geojsonl"])
def test_v1_nul_characters_are_removed_and_reported(tmp_path: Path, suffix: str) -> None:
    """GDAL would end the text at it."""
    rows: list[dict[str, Any]] = [
        {"a": "x\0y", "j": {"k\0": "\0"}, "t": "2020-01-01"},
        {"a": "plain", "j": None, "t": "2020-01-01\0"},
    ]
    features = [feature(row, id=f"i\0{n}") for n, row in enumerate(rows)]
    path = tmp_path / f"a{suffix}"
    if suffix == ".geojson":
        make_collection(path, features, name="\0")
    else:
        path.write_text("\n".join(map(json.dumps, features)))
    (layer,) = open_layers(path, tmp_path, ReadOptions(), VectorSettings())
    cleaned = clean(layer)
    assert cleaned.column("id") == ["i0", "i1"]
    assert cleaned.column("a") == ["xy", "plain"]
    assert cleaned.column("j") == ['{"k": ""}', None]
    assert cleaned.column("t") == ["2020-01-01", "2020-01-01"]
    assert cleaned.changes() == {"nul_removed": 2, "json_text": 1}
    assert cleaned.report.layer == "a"


def test_a_nul_character_in_the_name_of_a_property_is_refused(refuse: Refuse, tmp_path: Path) -> None:
    error = refuse(make_collection(tmp_path / "a.geojson", [feature({"a\0b": 1})]))
    assert (error.code, "name has a NUL character" in error.message) == ("vector.geojson", True)


def test_an_escaped_backslash_is_no_nul_character(layers: Open, tmp_path: Path) -> None:
    text = r"\u0000 \\u0000"
    (layer,) = layers(make_collection(tmp_path / "a.geojson", [feature({"a": text})]))
    assert read_all(layer).attributes == [{"a": text}]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"features":', True),
        ('{"a": 1, "features" \n:\t ', True),
        ('{"x": ', False),
        ('{"no features": ', False),
        (r'{"\"features": ', False),
        (": ", False),
        ("", False),
        ("  ", False),
    ],
)
def test_the_name_of_a_list_is_found_before_it(text: str, found: bool) -> None:
    assert follows_features(bytearray(text.encode()), len(text)) is found


def test_s7_the_name_of_a_list_is_looked_for_just_before_it() -> None:
    """A file of many lists is not searched from its start for each of them."""

    class Watched(bytearray):
        def __getitem__(self, place: Any) -> Any:
            looked.append(place.start if isinstance(place, slice) else place)
            return super().__getitem__(place)

    looked: list[int] = []
    text = b'{"features": 1, ' + b'"a": [], ' * 10_000 + b'"b": '
    assert not follows_features(Watched(text), len(text))
    assert (min(looked) > len(text) - 20, len(looked) < 20) == (True, True)


def test_properties_of_topojson_are_objects(refuse: Refuse, tmp_path: Path) -> None:
    held = {"type": "GeometryCollection", "geometries": [{"type": "Point", "coordinates": [1, 2], "properties": [1]}]}
    (tmp_path / "a.json").write_text(json.dumps({"type": "Topology", "arcs": [], "objects": {"a": held}}))
    error = refuse(tmp_path / "a.json")
    assert error.code == "vector.geojson"
    assert error.message == "a.json has properties that are no JSON object, in feature number 1"
