"""SQL files of several statements, each after a line with its name."""

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

__all__ = ["read_statements"]

_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)


@cache
def read_statements(path: Path) -> Mapping[str, str]:
    """The statements of a file by their names."""
    _, *parts = _NAME.split(path.read_text(encoding="utf-8"))
    return {name: text.strip() + "\n" for name, text in zip(parts[::2], parts[1::2], strict=True)}
