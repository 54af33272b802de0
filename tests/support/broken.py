"""Workflows with mistakes: each case opens with them, as comments that say where, what and what to do."""

import re
from pathlib import Path

__all__ = ["BROKEN"]

_FOLDER = Path(__file__).parents[1] / "data" / "broken"
_CASE = re.compile(r"^=== (\w+)\n(.*?)(?=^=== |\Z)", re.DOTALL | re.MULTILINE)

BROKEN: dict[str, str] = {
    name: text for file in sorted(_FOLDER.glob("*.txt")) for name, text in _CASE.findall(file.read_text())
}
