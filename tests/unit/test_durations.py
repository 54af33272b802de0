"""Durations in words."""

from datetime import timedelta

import pytest

from anabranch.durations import spell_duration


@pytest.mark.parametrize(
    ("duration", "words"),
    [
        (timedelta(days=30), "30 d"),
        (timedelta(hours=1, minutes=30, seconds=5), "1 h 30 min"),
        (3600, "1 h"),
        (86_400 + 60, "1 d"),
        (119, "119 s"),
        (120, "2 min"),
        (0.254, "0.25 s"),
        (0, "0 s"),
        (-300, "-5 min"),
    ],
)
def test_a_duration_is_spelled_in_its_two_largest_units(duration: timedelta | float, words: str) -> None:
    assert spell_duration(duration) == words
