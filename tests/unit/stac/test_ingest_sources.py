"""The documents of a source are found with bounded memory, below its folder and nowhere else."""

import struct
from pathlib import Path
from typing import Any

import pytest

from anabranch.canonical import decode
from anabranch.errors import InputError, NotFound, Permanent
from anabranch.plugins.stac.ingest.handlers import read_items, validate_items
from anabranch.plugins.stac.ingest.models import Read, ReadParams, Validated, ValidateParams
from anabranch.plugins.stac.ingest.records import Record, Refused, read_records
from anabranch.plugins.stac.ingest.sources import SourceReader
from anabranch.plugins.stac.settings import StacSettings
from anabranch.testing import FakeContext
from tests.support.stac_items import make_collection, make_item, write_json, write_ndjson


@pytest.fixture
def bronze(tmp_path: Path) -> Path:
    return tmp_path / "bronze"


def read(tmp_path: Path, source: str, **settings: int) -> tuple[list[str], list[tuple[str, str]]]:
    """The ids of what was found, and the codes and reasons of what was refused."""

    def convert(path: Path) -> Path:
        raise AssertionError(path)

    reader = SourceReader(FakeContext(tmp_path).storage, convert, StacSettings(**settings))
    found = list(reader.read(source))
    documents: list[Any] = [decode(one.text) for one in found if isinstance(one, Record)]
    return [each["id"] for each in documents], [(one.code, one.reason) for one in found if isinstance(one, Refused)]


def link(rel: str, href: object) -> dict[str, object]:
    return {"rel": rel, "href": href}


@pytest.mark.parametrize(
    ("document", "found"),
    [
        (make_item("a"), ["a"]),
        ([make_item("a"), make_item("b")], ["a", "b"]),
        ({"type": "FeatureCollection", "features": [make_item("a"), make_item("b")]}, ["a", "b"]),
        ({"collections": [make_collection("c")]}, ["c"]),
        (make_collection("c"), ["c"]),
        ({"type": "Catalog", "id": "x", "links": []}, []),
    ],
)
def test_each_kind_of_document_gives_its_items(
    tmp_path: Path, bronze: Path, document: object, found: list[str]
) -> None:
    write_json(bronze / "in.json", document)
    assert read(tmp_path, "bronze://in.json") == (found, [])


def test_a_folder_without_files_is_a_mistake(tmp_path: Path, bronze: Path) -> None:
    (bronze / "other").mkdir(parents=True)
    (bronze / "other" / "a.tif").touch()
    for folder in ("bronze://none/", "bronze://other/"):
        with pytest.raises(NotFound, match="no file with an extension of STAC below"):
            read(tmp_path, folder)


def test_lines_are_known_by_their_extension_or_their_content(tmp_path: Path, bronze: Path) -> None:
    for name in ("in.ndjson", "in.json"):
        write_ndjson(bronze / name, [make_item("a"), "", make_item("b")])
        assert read(tmp_path, f"bronze://{name}") == (["a", "b"], [])


def test_s7_long_lines_and_large_documents_are_refused_alone(tmp_path: Path, bronze: Path) -> None:
    write_ndjson(bronze / "in.ndjson", [make_item("a"), make_item("b", title="x" * 5_000), make_item("c")])
    found, [(code, reason)] = read(tmp_path, "bronze://in.ndjson", stac_item_kb=4)
    assert (found, code, reason) == (["a", "c"], "ingest.too_large", "the line has more than 4096 bytes")
    (bronze / "large.json").write_bytes(b'{"type":\n' + b" " * 2**20 + b'"Feature"}')
    found, [(code, reason)] = read(tmp_path, "bronze://large.json", stac_document_mb=1)
    assert (found, code) == ([], "ingest.too_large")
    assert "at most 1048576 are read whole" in reason


def test_s3_links_are_followed_below_the_folder_of_the_root_and_cycles_end(tmp_path: Path, bronze: Path) -> None:
    (bronze / "cat").mkdir(parents=True)
    write_json(bronze / "secret.json", make_item("secret"))
    bad = ["../secret.json", "/secret.json", "bronze://secret.json", "https://x.org/a.json", "gone.json", 5, "a%00b"]
    links = [link("child", "sub/c.json"), link("items", "all.json"), *(link("item", href) for href in bad)]
    write_json(bronze / "cat" / "catalog.json", {"type": "Catalog", "id": "x", "links": links})
    children = [link("child", "../catalog.json"), link("item", "my%20item.json"), link("parent", "../../secret.json")]
    write_json(bronze / "cat" / "sub" / "c.json", make_collection("c", links=children))
    write_json(bronze / "cat" / "sub" / "my item.json", make_item("a"))
    write_json(bronze / "cat" / "all.json", {"type": "FeatureCollection", "features": [make_item("b")]})
    found, refused = read(tmp_path, "bronze://cat/catalog.json")
    assert sorted(found) == ["a", "b", "c"]
    codes = sorted(code for code, _ in refused)
    assert codes == ["ingest.link"] * 5 + ["storage.not_found", "storage.path"]


def test_s7_a_chain_of_catalogs_is_followed_so_far_and_the_number_of_documents_is_bounded(
    tmp_path: Path, bronze: Path
) -> None:
    for number in range(40):
        write_json(bronze / f"{number}.json", {"type": "Catalog", "links": [link("child", f"{number + 1}.json")]})
    _, [(code, reason)] = read(tmp_path, "bronze://0.json")
    assert (code, "32 links away" in reason) == ("ingest.link", True)
    for source in ("bronze://0.json", "bronze://"):
        with pytest.raises(InputError, match="more than 10 documents"):
            read(tmp_path, source, stac_max_documents=10)


def test_a_folder_gives_its_json_files_and_one_that_is_broken_is_refused_alone(tmp_path: Path, bronze: Path) -> None:
    write_json(bronze / "in" / "a.json", make_item("a"))
    write_ndjson(bronze / "in" / "b" / "b.jsonl", [make_item("b")])
    (bronze / "in" / "c.json").write_text('{"type": "Feature",')
    (bronze / "in" / "d.txt").write_text("x")
    found, [(code, _)] = read(tmp_path, "bronze://in/")
    assert (found, code) == (["a", "b"], "ingest.unreadable")
    with pytest.raises(NotFound):
        read(tmp_path, "bronze://nothing.json")


def test_the_items_of_a_source_are_split_into_parts_and_their_number_is_bounded(tmp_path: Path, bronze: Path) -> None:
    write_ndjson(bronze / "in.ndjson", ["{}"] * 1_200)
    ctx = FakeContext(tmp_path, settings=[StacSettings()])
    made: Read = read_items(ReadParams(source="bronze://in.ndjson"), ctx)
    parts = [list(read_records(path)) for part in made.parts if (path := ctx.work.fetch(part))]
    assert ([len(part) for part in parts], made.read, made.refused) == ([500, 500, 200], 1_200, None)
    assert (parts[2][-1].place.line, len(parts[2][-1].place.sha256)) == (1_200, 64)
    with pytest.raises(InputError, match="more than 1000 items"):
        read_items(
            ReadParams(source="bronze://in.ndjson"),
            FakeContext(tmp_path, settings=[StacSettings(stac_max_items=1_000)]),
        )


def test_s7_large_documents_of_a_catalog_are_read_one_at_a_time(tmp_path: Path, bronze: Path) -> None:
    names = [f"{number}.json" for number in range(12)]
    write_json(bronze / "catalog.json", {"type": "Catalog", "links": [link("item", name) for name in names]})
    for name in names:
        write_json(bronze / name, make_item(name, title="x" * 2**20))
    storage, large = FakeContext(tmp_path).storage, list[str]()
    read_file = storage.read

    def count(address: str, start: int = 0, length: int | None = None) -> bytes:
        text = read_file(address, start, length)
        large.extend([address] if len(text) > 2**20 else [])
        return text

    storage.read = count  # type: ignore[method-assign]  # the real one, counted
    found = SourceReader(storage, Path, StacSettings()).read("bronze://catalog.json")
    for number, _ in enumerate(found, 1):
        assert len(large) == number


def test_s7_refusals_count_as_items(tmp_path: Path, bronze: Path) -> None:
    links = [link("item", "x:")] * 1_200
    write_json(bronze / "catalog.json", {"type": "Catalog", "links": links})
    ctx = FakeContext(tmp_path, settings=[StacSettings()])
    made: Read = read_items(ReadParams(source="bronze://catalog.json"), ctx)
    assert (made.parts, made.read) == ([], 1_200)
    assert len(ctx.work.require(made.refused).read_text().splitlines()) == 1_200
    with pytest.raises(InputError, match="more than 1000 items"):
        read_items(
            ReadParams(source="bronze://catalog.json"),
            FakeContext(tmp_path, settings=[StacSettings(stac_max_items=1_000)]),
        )


def test_s7_few_unknown_extensions_of_a_part_are_counted(tmp_path: Path, bronze: Path) -> None:
    uris = [f"https://example.com/{number}/{'x' * 300}" for number in range(50)]
    write_ndjson(bronze / "in.ndjson", [make_item("a", stac_extensions=uris), make_item("b", stac_extensions=uris)])
    ctx = FakeContext(tmp_path, settings=[StacSettings()])
    (part,) = read_items(ReadParams(source="bronze://in.ndjson"), ctx).parts
    made: Validated = validate_items(ValidateParams(source="bronze://in.ndjson", part=part), ctx)
    assert made.part.unknown == {uri[:200]: 2 for uri in uris[:20]}


def test_a_file_that_vanishes_from_a_folder_is_refused_alone(tmp_path: Path, bronze: Path) -> None:
    for name in ("a", "b", "c"):
        write_ndjson(bronze / "in" / f"{name}.ndjson", [make_item(name)])
    storage = FakeContext(tmp_path).storage
    listed = list(storage.walk("bronze://in/"))
    storage.walk = lambda folder: iter(listed)  # type: ignore[method-assign]  # as a store lists: a page at a time
    found = SourceReader(storage, Path, StacSettings()).read("bronze://in/")
    assert isinstance(next(found), Record)
    (bronze / "in" / "b.ndjson").unlink()
    refused, last = found
    assert isinstance(refused, Refused)
    assert (refused.file, refused.code) == ("bronze://in/b.ndjson", "storage.not_found")
    assert isinstance(last, Record)


NESTED = struct.pack("<BII", 1, 7, 1) * 20_000 + struct.pack("<BII", 1, 7, 0)
CURVE = struct.pack("<BII6d", 1, 8, 3, 0, 0, 1, 1, 2, 0)


@pytest.mark.parametrize("wkb", [NESTED, CURVE], ids=["nested", "curve"])
def test_s7_geometries_that_would_end_the_process_are_unreadable(tmp_path: Path, wkb: bytes) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from anabranch.plugins.stac.ingest.sandbox_functions import write_items

    columns = {"id": ["a"], "geometry": pa.array([wkb]), "assets": ["{}"]}
    pq.write_table(pa.table(columns), tmp_path / "in.parquet")
    with pytest.raises(Permanent) as refused:
        write_items(str(tmp_path / "in.parquet"), str(tmp_path / "out"), 10, lambda *_: None)
    assert refused.value.code == "ingest.unreadable"


@pytest.mark.parametrize("hostile", ["keys", "metadata"])
def test_s7_a_parquet_file_that_is_no_json_is_unreadable(tmp_path: Path, hostile: str) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from anabranch.plugins.stac.ingest.sandbox_functions import write_items

    kind = pa.map_(pa.binary(), pa.string()) if hostile == "keys" else pa.string()
    columns = {
        "id": ["a"],
        "geometry": ["{}"],
        "assets": pa.array([[(b"k", "v")] if hostile == "keys" else "{}"], kind),
    }
    deep = {"stac-geoparquet": "[" * 100_000} if hostile == "metadata" else None
    pq.write_table(pa.table(columns).replace_schema_metadata(deep), tmp_path / "in.parquet")
    with pytest.raises(Permanent) as refused:
        write_items(str(tmp_path / "in.parquet"), str(tmp_path / "out"), 10, lambda *_: None)
    assert refused.value.code == "ingest.unreadable"
