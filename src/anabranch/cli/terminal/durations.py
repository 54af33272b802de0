"""Durations on the command line: 45m, 12h, 30d."""

import re
from datetime import timedelta

from anabranch.cli.exit_codes import UsageError

__all__ = ["parse_duration"]

UNIT_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
MAX_DURATION = timedelta(days=36_500)


def parse_duration(text: str, what: str = "an age", *, code: str = "usage") -> timedelta:
    """The duration in a text, at most a hundred years; UsageError if it is not one."""
    found = re.fullmatch(r"([0-9]{1,12})([smhdw])", text)
    if not found:
        raise UsageError(code, f"{text!r} is not {what}", remedy="Write it as 30d, 12h, 45m, 30s or 2w.")
    return timedelta(seconds=min(int(found[1]) * UNIT_SECONDS[found[2]], MAX_DURATION.total_seconds()))
