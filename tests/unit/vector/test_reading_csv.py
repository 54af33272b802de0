"""CSV files as people send them."""

import csv
from datetime import UTC, date, datetime, time
from pathlib import Path

import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st

from anabranch.errors import Permanent
from anabranch.plugins.vector.convert import convert
from anabranch.plugins.vector.models import ReadOptions
from anabranch.plugins.vector.reading.csv.open_csv import open_csv
from anabranch.plugins.vector.reading.encodings import PIECE_BYTES, detect_encoding
from anabranch.plugins.vector.settings import VectorSettings
from tests.support.source_layers import read_all
from tests.unit.vector.conftest import Open, Refuse


def write(path: Path, text: str, encoding: str = "utf-8") -> Path:
    path.write_bytes(text.encode(encoding))
    return path


@pytest.mark.parametrize(
    ("text", "encoding", "detected"),
    [
        ("lat,lon,name\n48.5,11.25,Zürich\n", "utf-8", ("utf-8", "comma")),
        ("lat,lon,name\n48.5,11.25,Zürich\n", "utf-8-sig", ("utf-8", "comma")),
        ("lat,lon,name\n48.5,11.25,Zürich\n", "cp1252", ("cp1252", "comma")),
        ("lat,lon,name\n48.5,11.25,Zürich\n", "utf-16", ("utf-16", "comma")),
        ("lat;lon;name\n48,5;11,25;Zürich\n", "latin-1", ("cp1252", "semicolon")),
        ("lat\tlon\tname\r\n48.5\t11.25\tZürich\r\n", "utf-8", ("utf-8", "tab")),
        ("lat|lon|name\n48.5|11.25|Zürich", "utf-8", ("utf-8", "pipe")),
        ("sep=;\nlat;lon;name\n48,5;11,25;Zürich\n", "utf-8", ("utf-8", "semicolon")),
        ('"lat","lon","name"\n"48.5"," 11.25 ","Zürich"\n', "utf-8", ("utf-8", "comma")),
    ],
)
def test_encoding_and_delimiter_are_detected(
    layers: Open, tmp_path: Path, text: str, encoding: str, detected: tuple[str, str]
) -> None:
    (layer,) = layers(write(tmp_path / "a.csv", text, encoding))
    content = read_all(layer)
    assert (content.attributes, content.shapes) == ([{"name": "Zürich"}], ["POINT (11.25 48.5)"])
    assert (layer.detected["encoding"], layer.detected["delimiter"]) == detected
    assert (layer.crs, layer.crs_found, layer.features) == ("OGC:CRS84", "columns", 1)
    assert [line[:58] for line in layer.warnings] == ["The texts of the layer a are not in UTF-8, and cp1252 was "] * (
        detected[0] == "cp1252"
    )
    assert not layers(tmp_path / "a.csv", encoding=encoding)[0].warnings


def test_an_encoding_that_gives_control_characters_is_almost_certainly_wrong(layers: Open, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"lat,lon,name\n48.5,11.25,Z\x81rich\n")
    ((warning,),) = [layer.warnings for layer in layers(tmp_path / "a.csv")]
    assert "iso8859-1 was guessed. This is almost certainly wrong: control characters come out." in warning


@pytest.mark.parametrize(
    ("header", "options", "crs"),
    [
        ("Latitude,LNG", {}, "OGC:CRS84"),
        ("y,x", {}, None),
        ("north,east", {"lat": "north", "lon": "east"}, "OGC:CRS84"),
        ("lat ,long", {}, "OGC:CRS84"),
    ],
)
def test_coordinate_columns_are_found(
    layers: Open, tmp_path: Path, header: str, options: dict[str, str], crs: str | None
) -> None:
    (layer,) = layers(write(tmp_path / "a.csv", f"{header},n\n1.5,2.5,7\n"), **options)
    assert (layer.crs, read_all(layer).shapes, read_all(layer).attributes) == (crs, ["POINT (2.5 1.5)"], [{"n": 7}])


def test_geometries_as_text_are_read(layers: Open, tmp_path: Path) -> None:
    point = shapely.Point(1, 2)
    rows = [
        ("a", point.wkt),
        ("b", "POLYGON((0 0,1 0,1 1,0 0))"),
        ("c", ""),
        ("d", shapely.to_wkb(point, hex=True)),
        ("e", "MULTIPOINT Z ((1 2 3))"),
    ]
    with (tmp_path / "a.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("name", "the_geom"), *rows])
    (layer,) = layers(tmp_path / "a.csv")
    content = read_all(layer)
    assert (layer.crs, content.shapes[0], content.shapes[3]) == (None, "POINT (1 2)", "POINT (1 2)")
    assert content.shapes[1:3] == ["POLYGON ((0 0, 1 0, 1 1, 0 0))", ""]
    assert content.shapes[4] == "MULTIPOINT Z ((1 2 3))"
    (layer,) = layers(write(tmp_path / "c.csv", 'n,where\n1,"SRID=25832;POINT(1 2)"\n'), wkt="where")
    assert (layer.crs, layer.crs_found, read_all(layer).shapes) == ("EPSG:25832", "file", ["POINT (1 2)"])


def as_ewkb(srid: int) -> str:
    text: str = shapely.to_wkb(shapely.set_srid(shapely.Point(1, 2), srid), hex=True, include_srid=True)
    return text


@pytest.mark.parametrize(
    ("cells", "crs"),
    [
        (["", "SRID=25832;POINT(1 2)", "SRID=25832;POINT(1 2)"], "EPSG:25832"),
        (["", as_ewkb(25832), "srid=25832; POINT(1 2)"], "EPSG:25832"),
        (["SRID=0;POINT(1 2)", "POINT(1 2)", as_ewkb(0)], None),
    ],
)
def test_the_srid_of_any_row_is_the_crs(layers: Open, tmp_path: Path, cells: list[str], crs: str | None) -> None:
    (layer,) = layers(write(tmp_path / "a.csv", "n,wkt\n" + "".join(f'1,"{cell}"\n' for cell in cells)))
    assert (layer.crs, layer.crs_found, layer.warnings) == (crs, "file", ())


def test_rows_without_an_srid_are_in_that_of_the_others(layers: Open, tmp_path: Path) -> None:
    (layer,) = layers(write(tmp_path / "a.csv", 'n,wkt\n1,"SRID=25832;POINT(1 2)"\n2,POINT(1 2)\n3,\n'))
    assert (layer.crs, layer.warnings) == (
        "EPSG:25832",
        ("Geometries without an SRID are in EPSG:25832, as others are.",),
    )


@pytest.mark.parametrize("second", ["SRID=25833;POINT(1 2)", as_ewkb(25833)])
@pytest.mark.parametrize("rows", [1, 3_000])
def test_r1_geometries_of_several_srids_are_refused(refuse: Refuse, tmp_path: Path, second: str, rows: int) -> None:
    cells = ["SRID=25832;POINT(1 2)"] * rows + [second]
    error = refuse(write(tmp_path / "a.csv", "n,wkt\n" + "".join(f'1,"{cell}"\n' for cell in cells)))
    assert error.code == "vector.crs_conflict"
    assert error.message == "the geometries of a.csv are in several CRSs: EPSG:25832, EPSG:25833"


def test_an_srid_that_is_no_number_of_a_crs_is_no_geometry(refuse: Refuse, tmp_path: Path) -> None:
    error = refuse(write(tmp_path / "a.csv", f'n,wkt\n1,"SRID={"9" * 5000};POINT(1 2)"\n'))
    assert (error.code, "geometry is not wkt in 1" in error.message) == ("vector.bad_rows", True)


@pytest.mark.parametrize(
    ("values", "read"),
    [
        (["0.12345678901234567891", "1"], str),
        (["12345678901234.567", "1.5"], str),
        (["1.0000000000000000001"], str),
        (["9007199254740993.5"], str),
        (["123456789012345678e2"], str),
        (["0.30000000000000004", "1e-7", "12345.678901234567"], float),  # as Python writes them
        (["0.10000000000000001", "5.0999999999999996"], float),  # with 17 digits
        (["1.000000000000000000", "-0.000000000000000000001"], float),
        (["1234567890.12345"], float),
    ],
)
@pytest.mark.parametrize("comma", [False, True])
def test_v1_numbers_of_more_digits_than_floating_point_stay_text(
    layers: Open, tmp_path: Path, values: list[str], read: type, comma: bool
) -> None:
    """Those that floating point would be written as are numbers: nothing is lost of them."""
    texts = [value.replace(".", ",") for value in values if "e" not in value] if comma else values
    (layer,) = layers(write(tmp_path / "a.csv", "lat;lon;v\n" + "".join(f"1;2;{text}\n" for text in texts)))
    found = [row["v"] for row in read_all(layer).attributes]
    assert found == [read(text.replace(",", ".") if read is float else text) for text in texts]


def test_types_hold_every_value_exactly(layers: Open, tmp_path: Path) -> None:
    header = "lat,lon,whole,big,real,zeros,phone,flag,day,moment,zoned,long,mixed,none,yes"
    first = "1,2,1,9007199254740993,0.5,00123,+49,true,2020-02-29,2020-01-01T10:00:00,2020-01-01 10:00:00+02:00"
    second = "1,2,,-9223372036854775808,1e-7,1,5,FALSE,2020-03-01,2020-01-01 10:00,2020-01-01T10:00:00Z"
    text = f"{header}\n{first},12345678901234567890,1,,yes\n{second},1,x,,no\n"
    (layer,) = layers(write(tmp_path / "a.csv", text))
    one, two = read_all(layer).attributes
    assert (one["whole"], two["whole"], one["big"], two["big"]) == (1, None, 9007199254740993, -(2**63))
    assert (one["real"], two["real"], one["zeros"], one["phone"]) == (0.5, 1e-7, "00123", "+49")
    assert (one["flag"], two["flag"], one["day"], one["yes"]) == (True, False, date(2020, 2, 29), "yes")
    assert one["moment"] == two["moment"] == datetime(2020, 1, 1, 10)  # noqa: DTZ001
    assert one["zoned"].astimezone(UTC) == datetime(2020, 1, 1, 8, tzinfo=UTC)
    assert (one["long"], one["mixed"], one["none"]) == ("12345678901234567890", "1", None)


def test_a_day_that_is_none_makes_its_column_text(layers: Open, tmp_path: Path) -> None:
    (layer,) = layers(write(tmp_path / "a.csv", "lat,lon,day\n1,2,2020-02-29\n1,2,2021-02-29\n"))
    assert [row["day"] for row in read_all(layer).attributes] == ["2020-02-29", "2021-02-29"]


def test_decimal_commas_are_numbers(layers: Open, tmp_path: Path) -> None:
    (layer,) = layers(write(tmp_path / "a.csv", "lat;lon;share;count\n48,5;11;0,25;1\n48;11,5;7;2\n"))
    assert read_all(layer).attributes == [{"share": 0.25, "count": 1}, {"share": 7.0, "count": 2}]
    assert layer.detected["decimal separator"] == "comma"


def test_v1_bad_rows_are_dropped_with_their_lines(layers: Open, tmp_path: Path) -> None:
    lines = [
        "lat,lon,note",
        '1,2,"two',
        'lines"',
        "1,2",
        "",
        "91,2,far",
        "1,x,word",
        ",2,half",
        ",,nowhere",
        "1,2,fine,more",
        '1,2,"quote ""in"" it"',
        ",,",
        "1,2,last",
    ]
    settings = VectorSettings(vector_max_bad_rows=60)
    (layer,) = layers(write(tmp_path / "a.csv", "\n".join(lines) + "\n1\n"), settings)
    content = read_all(layer, 2)
    assert [row["note"] for row in content.attributes] == ["two\nlines", "nowhere", 'quote "in" it', "last"]
    assert (content.rows, max(content.sizes)) == ([2, 9, 11, 13], 2)
    found = {reason: [sample.row for sample in count.samples] for reason, count in content.dropped.items()}
    assert found == {
        "wrong_number_of_fields": [4, 10, 14],
        "coordinate_is_not_a_number": [7],
        "coordinate_is_missing": [8],
        "coordinate_is_out_of_range": [6],
        "blank_row": [5, 12],
    }
    assert content.geometry[1] is None, "no coordinates at all: cleaning reports it"
    assert layer.features == 12 == len(content.rows) + sum(count.count for count in content.dropped.values())


def test_too_many_bad_rows_are_refused(refuse: Refuse, tmp_path: Path) -> None:
    good = "1,2,a\n" * 8
    error = refuse(write(tmp_path / "a.csv", f"lat,lon,n\n{good}95,2,b\n1,200000,c\n"))
    assert error.code == "vector.bad_rows"
    assert "2 of 10 rows of a.csv can't be read, over the limit of 10 %" in error.message
    assert "coordinate is out of range in 2, like line 10: 95, 2, b" in error.message


@pytest.mark.parametrize(
    ("geometry", "words"),
    [
        ("CURVEPOLYGON (CIRCULARSTRING (0 0, 1 1, 2 0, 1 -1, 0 0))", "geometry is a curve"),
        ("GEOMETRYCOLLECTION (COMPOUNDCURVE ((0 0, 1 1)))", "geometry is a curve"),
        ("GEOMETRYCOLLECTION(" * 20_000, "geometry is not wkt"),
        ("MULTICURVE(" * 20_000, "geometry is a curve"),
        ("010700000001000000" * 20_000 + shapely.Point(1, 2).wkb_hex, "geometry is not wkt"),
        ("010900000001000000" * 20_000 + shapely.Point(1, 2).wkb_hex, "geometry is not wkt"),
        ("0101000000", "geometry is not wkt"),
    ],
    ids=["curve", "curve in a collection", "deep", "deep curve", "deep WKB", "deep curve in WKB", "cut off"],
)
@pytest.mark.parametrize("first", [True, False])
def test_geometries_that_cant_be_parsed_are_bad_rows(
    refuse: Refuse, tmp_path: Path, geometry: str, words: str, first: bool
) -> None:
    rows = ["POINT (1 2);a", "POINT (1 2);b"]
    rows.insert(0 if first else 2, f'"{geometry}";c')
    error = refuse(write(tmp_path / "a.csv", "\n".join(["wkt;n", *rows])))
    assert (error.code, f"{words} in 1, like line {2 if first else 4}" in error.message) == ("vector.bad_rows", True)


def test_a_long_geometry_does_not_hide_the_delimiter(layers: Open, tmp_path: Path) -> None:
    line = shapely.LineString([(n / 7, 50) for n in range(8_000)])
    (layer,) = layers(write(tmp_path / "a.csv", f"wkt;n\n{line.wkt};7\n"))
    assert (len(line.wkt) > 2**17, read_all(layer).attributes) == (True, [{"n": 7}])


@pytest.mark.parametrize(
    ("text", "options", "code", "words"),
    [
        ("1.5,2.5,a\n3,4,b\n", {}, "vector.csv", "has no header: its first line is 1.5, 2.5, a"),
        ("lat,name\n1,a\n", {}, "vector.csv", "one coordinate column only, 'lat'"),
        ("a,b\n1,2\n", {}, "vector.csv", "no column with geometries: it has a, b"),
        ("a,b\n1,2\n", {"lat": "a"}, "vector.csv", "only one coordinate column"),
        ("a,b\n1,2\n", {"lat": "a", "lon": "c"}, "vector.csv", "no column 'c': it has a, b"),
        ("lat,lon\n1,2\n", {"delimiter": "ab"}, "vector.csv", "can't be a delimiter"),
        ("lat,lon\n1,2\n", {"delimiter": "\0"}, "vector.csv", "can't be a delimiter"),
        ("lat,lon\n1,2\n", {"encoding": "klingon"}, "vector.encoding", "no encoding 'klingon'"),
        ("lat,lon,n\n1,2,\xfc\n", {"encoding": "utf-8"}, "vector.encoding", "not written in utf-8"),
        ("\nlat,lon\n1,2\n", {}, "vector.csv", "begins with a blank line"),
        ("lat,lon\n1,2\n", {"layer": "b"}, "vector.layer", "has no layer 'b': it has a"),
        ("wkt\nPOINT(1 2\nnowhere\n", {}, "vector.bad_rows", "geometry is not wkt in 2"),
        ("wkt\n" + "GEOMETRYCOLLECTION(" * 5000 + ")" * 5000, {}, "vector.bad_rows", "not wkt in 1"),
        ("lat,lon," + ",".join(f"c{n}" for n in range(2000)), {}, "vector.columns", "2,002 columns"),
    ],
)
def test_csv_is_refused_with_a_reason(
    refuse: Refuse, tmp_path: Path, text: str, options: dict[str, str], code: str, words: str
) -> None:
    error = refuse(write(tmp_path / "a.csv", text, "latin-1"), **options)
    assert (error.code, words in error.message) == (code, True), error.message


def test_a_header_alone_can_be_opened(layers: Open, tmp_path: Path) -> None:
    for text in ("lat,lon,n", "lat,lon,n\n"):
        (layer,) = layers(write(tmp_path / "a.csv", text))
        assert (layer.features, read_all(layer).rows, layer.schema.names) == (0, [], ["n"])


def test_a_header_alone_is_refused_when_it_is_cleaned(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "lat,lon,n\n")
    with pytest.raises(Permanent) as refused:
        convert(path, tmp_path, ReadOptions(), VectorSettings(), None, lambda *_: None)
    assert (refused.value.code, refused.value.message) == ("vector.no_features", "the layer a has no features")


def test_given_crs_and_delimiter_are_used(layers: Open, tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "lat:lon:n\n5334000.5:691000:x,y;z\n")
    (layer,) = layers(path, delimiter=":", crs="EPSG:25832")
    content = read_all(layer)
    assert (content.attributes, content.shapes) == ([{"n": "x,y;z"}], ["POINT (691000 5334000.5)"])


plain = st.text(st.characters(codec="utf-8", exclude_characters="\x00\r\ufeff"), max_size=8)


def test_v1_a_replacement_character_in_a_file_is_kept_wherever_it_is(tmp_path: Path) -> None:
    """Also where two reads of the file meet: it is valid UTF-8."""
    path = tmp_path / "a.csv"
    for before in range(3):
        path.write_text("a" * (PIECE_BYTES - before) + "\ufffd\u00e4", encoding="utf-8")
        assert detect_encoding(path) == "utf-8"
    path.write_bytes("\ufffd".encode() + b"\xe4")
    assert detect_encoding(path) == "cp1252"


@given(st.lists(st.tuples(st.floats(-90, 90), st.floats(-180, 180), plain, plain), min_size=1, max_size=8))
def test_v1_what_python_writes_comes_back(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[float, float, str, str]]
) -> None:
    path = tmp_path_factory.mktemp("csv") / "a.csv"
    written = [("lat", "lon", "a", "b"), *rows, (1, 2, "end", "end")]
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, quoting=csv.QUOTE_NONNUMERIC).writerows(written)
    (layer,) = open_csv(path, ReadOptions(delimiter=","), VectorSettings())
    content = read_all(layer)
    assert [(row["a"], row["b"]) for row in content.attributes[:-1]] == [(a, b) for _, _, a, b in rows]
    points = shapely.from_wkb(content.geometry)
    assert [(point.y, point.x) for point in points[:-1]] == [(lat, lon) for lat, lon, _, _ in rows]


def test_v1_an_empty_text_is_no_null(layers: Open, tmp_path: Path) -> None:
    """As our own exports write them: two quotes are an empty text, nothing is null; numbers have no empty ones."""
    path = write(tmp_path / "a.csv", 'lat,lon,t,n\n1,2,"",5\n1,2,,""\n1,2,x,\n"","","",""\n')
    content = read_all(layers(path)[0])
    assert content.attributes == [{"t": "", "n": 5}, {"t": None, "n": None}, {"t": "x", "n": None}]
    assert [sample.row for sample in content.dropped["blank_row"].samples] == [5]


def test_times_of_a_day_have_their_type(layers: Open, tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "lat,lon,t,d\n1,2,10:00:00.5,25:00:00\n1,2,23:59,10:00:00\n")
    content = read_all(layers(path)[0])
    assert [row["t"] for row in content.attributes] == [time(10, 0, 0, 500000), time(23, 59)]
    assert [row["d"] for row in content.attributes] == ["25:00:00", "10:00:00"]


@pytest.mark.parametrize(
    ("cell", "shape"), [("park", "POINT (2 1)"), ("", "POINT (2 1)"), ("POINT(3 4)", "POINT (3 4)")]
)
def test_a_column_named_geom_counts_before_coordinates_if_it_holds_geometries(
    layers: Open, tmp_path: Path, cell: str, shape: str
) -> None:
    path = write(tmp_path / "a.csv", f"lat,lon,geom,n\n1,2,{cell},5\n")
    content = read_all(layers(path)[0])
    assert content.shapes == [shape]
    assert content.attributes[0].get("geom") == (cell or None if shape == "POINT (2 1)" else None)


def test_a_quote_that_is_never_closed_is_named_with_its_line(refuse: Refuse, tmp_path: Path) -> None:
    text = 'n,lat,lon\n1,50.5,7\n"abc,50.5,7\n2,50.5,7\n'
    error = refuse(write(tmp_path / "a.csv", text))
    assert "line 3: the quote before abc,50.5,7" in error.message
    assert "is never closed" in error.message
    assert "swapped" not in (error.remedy or "")
    error = refuse(write(tmp_path / "b.csv", "n,lat,lon\n1,151.2,-33.8\n"))
    assert "lat and lon are not swapped" in (error.remedy or "")
