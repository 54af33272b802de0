"""The bounds of the numbers that workflows, stages and handlers declare: one table, whichever way they are written."""

from datetime import timedelta

__all__ = [
    "MAX_ATTEMPTS",
    "MAX_SECONDS",
    "MAX_TASKS",
    "MAX_WHOLE",
    "PRIORITIES",
    "find_seconds_mistake",
    "find_whole_mistake",
]

PRIORITIES = (1, 9)
MAX_ATTEMPTS = 1000
MAX_SECONDS = 10**9  # thirty years: it can be added to any date
MAX_TASKS = 1_000_000  # of one node
MAX_WHOLE = 2**31 - 1


def find_whole_mistake(name: str, value: object, low: int = 1, high: int = MAX_WHOLE) -> str:
    """What is wrong with a number that has to be whole and within bounds; nothing where it is."""
    if isinstance(value, int) and not isinstance(value, bool) and low <= value <= high:
        return ""
    is_bounded = high < MAX_WHOLE or _is_above(value, high)
    return f"{name} is a whole number " + (f"from {low:,} to {high:,}" if is_bounded else f"of {low} or more")


def find_seconds_mistake(name: str, value: object, *, zero: bool = False) -> str:
    """What is wrong with a time in seconds; nothing where it is one within bounds."""
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= MAX_SECONDS:
        time = timedelta(seconds=value)
        if time > timedelta(0) or (zero and value == 0):
            return ""
    low = "of 0 or more" if zero else "above 0"
    return f"{name} is a number of seconds " + (f"up to {MAX_SECONDS:,}" if _is_above(value, MAX_SECONDS) else low)


def _is_above(value: object, limit: int) -> bool:
    return isinstance(value, int | float) and value > limit
