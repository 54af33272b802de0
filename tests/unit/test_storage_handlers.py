"""Files of a tier as workflows list and stage them."""

import hashlib
from pathlib import Path

import pytest

from anabranch.errors import Permanent
from anabranch.plugins.storage.handlers import ListParams, Staged, StageParams, list_files, stage
from anabranch.testing import FakeContext

SOURCE = "bronze://in/a.tif"


@pytest.fixture
def ctx(tmp_path: Path) -> FakeContext:
    made = FakeContext(tmp_path)
    for name, size in (("a.tif", 3), ("b.TIF", 5), ("c.txt", 7), ("d/e.tif", 11)):
        made.tiers.put(f"bronze://in/{name}", b"x" * size)
    made.tiers.put("bronze://other.tif", b"x")
    return made


def test_the_files_of_a_folder_are_listed_by_extension_size_and_number(ctx: FakeContext) -> None:
    tiffs = list_files(ListParams(folder="bronze://in", extensions=("tif",), min_bytes=4), ctx)
    assert [file.address for file in tiffs.files] == ["bronze://in/b.TIF", "bronze://in/d/e.tif"]
    assert (tiffs.count, tiffs.total_bytes, tiffs.more) == (2, 16, False)
    first = list_files(ListParams(folder="bronze://in", limit=2), ctx)
    assert ([file.size for file in first.files], first.more) == ([3, 5], True)


def test_a_staged_file_is_known_by_its_content_and_a_replaced_one_is_refused(ctx: FakeContext) -> None:
    digest = hashlib.sha256(b"xxx").hexdigest()
    assert stage(StageParams(source=SOURCE), ctx) == Staged(
        source=SOURCE, name="a.tif", size=3, sha256=digest, versions={SOURCE: ctx.storage.stat(SOURCE).tag}
    )
    with pytest.raises(Permanent) as refused:
        stage(StageParams(source=SOURCE, tag="of another"), ctx)
    assert refused.value.code == "source.changed"
