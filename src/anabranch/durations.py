"""Durations in words."""

from datetime import timedelta

__all__ = ["spell_duration"]

UNITS = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))
MAX_SECONDS = 120  # more are spelled in larger units


def spell_duration(duration: timedelta | float) -> str:
    """A duration in its two largest units, like `30 d`, `1 h 30 min` or `0.25 s`."""
    seconds = duration.total_seconds() if isinstance(duration, timedelta) else duration
    if abs(seconds) < MAX_SECONDS:
        return f"{round(seconds, 2):g} s"
    parts: list[tuple[int, str]] = []
    rest = round(abs(seconds))
    for unit, size in UNITS:
        number, rest = divmod(rest, size)
        if number or parts:
            parts.append((number, unit))
    words = " ".join(f"{number} {unit}" for number, unit in parts[:2] if number)
    return f"-{words}" if seconds < 0 else words
