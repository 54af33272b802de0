"""Durations on the command line: 45m, 12h, 30d."""

import re
from datetime import timedelta

__all__ = ["parse_duration"]

UNIT_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
MAX_DURATION = timedelta(days=36_500)


def parse_duration(text: str) -> timedelta | None:
    """The duration in a text, at most a hundred years; None if it is not one."""
    found = re.fullmatch(r"([0-9]{1,12})([smhdw])", text)
    return (
        timedelta(seconds=min(int(found[1]) * UNIT_SECONDS[found[2]], MAX_DURATION.total_seconds())) if found else None
    )
