"""A handler that needs something outside, which is there once a file is, and its breaker."""

from datetime import timedelta
from pathlib import Path
from typing import Any

from anabranch import Breaker, Context, Retry, Transient, handler


@handler(
    "fragile.ask",
    retry=Retry(max_attempts=4, initial_delay=timedelta(seconds=0.1)),
    breaker=Breaker(failures=3, window_seconds=60, open_seconds=1),
)
def ask(params: dict[str, Any], ctx: Context) -> int:
    """Ask what is outside."""
    if not Path(params["file"]).exists():
        raise Transient("no answer")
    return ctx.attempt
