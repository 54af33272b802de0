"""Write the pages of the reference that are made from code."""

from itertools import groupby
from pathlib import Path

from anabranch.codes import CODES, Code

REFERENCE = Path(__file__).parents[1] / "docs" / "reference"
ERRORS = """# Errors

<!-- Made by `make reference` from src/anabranch/codes.py. -->

Every error has a stable code. A problem of the [HTTP API](http.md#problems) carries it as `code` and in its `type`,
`/errors/{code}`, where the running API tells what this page tells; a command with `--json` tells it on stderr; a job,
node or task that failed keeps it in `error.code`.

- **status** is the HTTP status of a request that is answered with the code. Where there is none, the code is a job's or
  a command's.
- **exit** is what a command [exits with](cli.md#exit-codes); 7 only where the job was waited for.
- **again** says whether the same may succeed later without a change.

Handlers of plugins may raise codes of their own, which stand in the pages of those plugins.
"""


def errors_page() -> str:
    """The page of all codes, a table for each part."""
    parts = [f"\n## {part}\n\n{_table(list(codes))}" for part, codes in groupby(sorted(CODES, key=_part), key=_part)]
    return ERRORS + "".join(parts)


def _part(code: Code) -> str:
    part, dot, _ = code.code.partition(".")
    return part if dot else "General"


def _table(codes: list[Code]) -> str:
    head = "| code | status | exit | again | meaning | what to do |\n|---|---|---|---|---|---|\n"
    return head + "".join(f"| {' | '.join(_cells(code))} |\n" for code in codes)


def _cells(code: Code) -> tuple[str, ...]:
    again = "yes" if code.retryable else "no"
    return f"`{code.code}`", str(code.status or ""), str(code.exit_code), again, code.meaning, code.remedy


PAGES = {"errors.md": errors_page}

if __name__ == "__main__":
    for name, page in PAGES.items():
        (REFERENCE / name).write_text(page())
