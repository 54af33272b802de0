"""Files of rows are sent when they are complete, with the shape of their table where that must be made or changed."""

from pathlib import Path

import geopandas
from shapely import MultiPoint, Point

from anabranch.plugins.vector.convert import convert
from anabranch.plugins.vector.models import ReadOptions, WrittenChunk
from anabranch.plugins.vector.settings import VectorSettings

TEXT = "x" * 2_000


def test_chunks_are_sent_as_they_are_written(tmp_path: Path) -> None:
    shapes = [Point(n / 100, 1) for n in range(1_500)] + [MultiPoint([(1, 1), (2, 2)])]
    source = tmp_path / "places.parquet"
    geopandas.GeoDataFrame({"text": [TEXT] * len(shapes)}, geometry=shapes, crs="EPSG:4326").to_parquet(source)
    sent: list[WrittenChunk] = []
    sizes: list[int] = []

    def receive(chunk: WrittenChunk) -> None:
        sent.append(chunk)
        sizes.append((tmp_path / chunk.file).stat().st_size)

    settings = VectorSettings(vector_chunk_mb=1, vector_batch_rows=500)
    (table,) = convert(source, tmp_path, ReadOptions(), settings, None, lambda *_: None, receive).tables
    assert [chunk.file for chunk in sent] == [f"layer0-point-0000{number}.copy" for number in range(3)]
    assert sizes == [(tmp_path / chunk.file).stat().st_size for chunk in sent], "each was complete"
    assert (sum(chunk.rows for chunk in sent), len(sent)) == (table.rows, table.chunks) == (1_501, 3)
    shapes_sent = [chunk.shape and (chunk.shape.geometry_type, chunk.shape.mixed) for chunk in sent]
    assert shapes_sent == [("Point", False), None, ("MultiPoint", True)]
