"""The page on rasters names every notice."""

import re
from pathlib import Path

from anabranch.plugins import raster

PAGE = Path(__file__).parents[3] / "docs" / "explanation" / "rasters.md"


def test_every_notice_is_on_the_page() -> None:
    source = "".join(file.read_text() for file in Path(raster.__path__[0]).rglob("*.py"))
    codes = set(re.findall(r'Notice\(\s*code="([a-z._]+)"', source))
    assert len(codes) >= 8
    assert [code for code in sorted(codes) if f"`{code}`" not in PAGE.read_text()] == []
