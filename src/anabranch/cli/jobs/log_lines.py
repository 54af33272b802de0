"""The lines of a log that are wanted: by level, and by a pattern."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, get_args

from anabranch.cli.exit_codes import UsageError
from anabranch.client import Log

__all__ = ["Level", "LineFilter", "read_filter"]

Level = Literal["debug", "info", "warning", "error", "critical"]
LEVELS: tuple[Level, ...] = get_args(Level)
# As the lines of `logging` and of structlog begin.
LEVEL_OF_LINE = re.compile(
    r"^\S+(?: \S+)? (?:(DEBUG|INFO|WARNING|ERROR|CRITICAL) \[|\[(debug|info|warning|error|critical) *\])"
)
TRACEBACK = "Traceback (most recent call last)"


@dataclass(frozen=True)
class LineFilter:
    """Keeps lines of at least a level that match a pattern."""

    level: Level | None
    pattern: re.Pattern[str] | None

    def keep(self, log: Log) -> Log | None:
        """The log with the wanted lines; None if there are none."""
        if not (self.level or self.pattern):
            return log
        kept = "\n".join(self._keep_lines((log.log or "").splitlines()))
        return replace(log, log=kept, metrics=None) if kept else None

    def _keep_lines(self, lines: list[str]) -> Iterator[str]:
        least = LEVELS.index(self.level) if self.level else 0
        for level, line in _levels(lines):
            if level >= least and (not self.pattern or self.pattern.search(line)):
                yield line


def _levels(lines: list[str]) -> Iterator[tuple[int, str]]:
    """Each line with its level: what is printed without one is `info`, and a traceback is `error` to its end."""
    level, in_traceback = LEVELS.index("info"), False
    for line in lines:
        found = LEVEL_OF_LINE.match(line)
        if found:
            level, in_traceback = LEVELS.index((found[1] or found[2]).lower()), False
        elif line.startswith(TRACEBACK):
            level, in_traceback = LEVELS.index("error"), True
        elif not in_traceback and not line.startswith((" ", "\t")):
            level = LEVELS.index("info")
        yield level, line


def read_filter(level: Level | None, pattern: str | None) -> LineFilter:
    """The filter of a level and a regular expression; UsageError if it is not one."""
    try:
        return LineFilter(level, re.compile(pattern) if pattern else None)
    except re.error as error:
        raise UsageError("usage", f"{pattern!r} is not a regular expression: {error}") from error
