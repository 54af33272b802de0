"""The pages of the docs, and the code blocks on them."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["PAGES", "ROOT", "Block", "list_commands", "read_blocks"]

ROOT = Path(__file__).parents[2]
PAGES = [
    str(page.relative_to(ROOT))
    for page in (
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *sorted((ROOT / "docs").rglob("*.md")),
        *sorted((ROOT / "examples").rglob("*.md")),
    )
]
BLOCK = re.compile(r"^( *)```(\w*)[^\n]*\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
SAVED_AS = re.compile(r"\bthis as `([\w./-]+)`")


@dataclass(frozen=True)
class Block:
    """A code block of a page; `file` is where the text before it says to save it."""

    page: str
    language: str
    text: str
    file: str | None


def read_blocks(page: str, *languages: str) -> Iterator[Block]:
    """The blocks of a page in order, of all languages or of some."""
    text, end = (ROOT / page).read_text(), 0
    for found in BLOCK.finditer(text):
        before = text[end : found.start()].strip().rpartition("\n\n")[2]
        end = found.end()
        if not languages or found[2] in languages:
            yield Block(page, found[2], found[3], next(reversed(SAVED_AS.findall(before)), None))


def list_commands(page: str) -> list[str]:
    """The commands of a page, in order, those over several lines joined."""
    lines = "".join(block.text for block in read_blocks(page, "sh", "console")).replace("\\\n", "").splitlines()
    return [line.removeprefix("$ ").split("  #")[0].strip() for line in lines if line.strip()]
