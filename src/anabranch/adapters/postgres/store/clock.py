"""How far the server's clock is from ours."""

import time
from datetime import timedelta

from anabranch.adapters.postgres.connect import Role, connect

__all__ = ["measure_skew"]


def measure_skew(url: str) -> timedelta:
    """How much the server's clock is ahead of this machine's; half of the round trip is the error."""
    with connect(url, Role.READER, name="anabranch clock") as connection:
        before = time.time()
        row = connection.execute("select extract(epoch from clock_timestamp())::float").fetchone()
        after = time.time()
    return timedelta(seconds=(row[0] if row else before) - (before + after) / 2)
