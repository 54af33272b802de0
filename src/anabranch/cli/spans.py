"""Spans of time as the command line gives them: 45m, 12h, 30d."""

import re
from datetime import timedelta

__all__ = ["read_span"]

UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
LONGEST = timedelta(days=36_500)


def read_span(text: str) -> timedelta | None:
    """The span that a text tells, at most a hundred years; None where it tells none."""
    found = re.fullmatch(r"([0-9]{1,12})([smhdw])", text)
    return timedelta(seconds=min(int(found[1]) * UNITS[found[2]], LONGEST.total_seconds())) if found else None
