"""Breakers as handlers and settings declare them."""

from typing import Any

import pytest
from pydantic import ValidationError

from anabranch import Breaker, DefinitionError, handler
from anabranch.engine.registry import Registry
from anabranch.engine.worker.handler import handlers_in
from anabranch.settings import Settings

FIVE = Breaker(failures=5, window_seconds=60, open_seconds=0.5)


def test_a_handler_declares_its_breaker() -> None:
    @handler("ask", breaker=FIVE)
    def ask(params: dict[str, Any]) -> None:
        """Ask."""

    @handler("tell")
    def tell(params: dict[str, Any]) -> None:
        """Tell."""

    registry = Registry()
    for declared in (*handlers_in({"ask": ask}), *handlers_in({"tell": tell})):
        registry.handlers[declared.name] = declared
    assert registry.breakers == {"ask": FIVE}


@pytest.mark.parametrize(
    ("breaker", "message"),
    [
        (Breaker(failures=0, window_seconds=1, open_seconds=1), "breaker.failures is a whole number from 1 to 1,000"),
        (Breaker(failures=1, window_seconds=0, open_seconds=1), "breaker.window_seconds is a number of seconds"),
        (Breaker(failures=1, window_seconds=1, open_seconds=-1), "breaker.open_seconds is a number of seconds"),
    ],
)
def test_a_breaker_that_can_not_be_is_refused(breaker: Breaker, message: str) -> None:
    with pytest.raises(DefinitionError, match=f"handler 'ask': {message}"):
        handler("ask", breaker=breaker)


def test_queues_have_theirs_in_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(
        "ANABRANCH_QUEUE_BREAKERS", '{"heavy": {"failures": 5, "window_seconds": 60, "open_seconds": 0.5}}'
    )
    assert Settings().queue_breakers == {"heavy": FIVE}
    monkeypatch.setenv(
        "ANABRANCH_QUEUE_BREAKERS", '{"heavy": {"failures": 0, "window_seconds": 60, "open_seconds": 0.5}}'
    )
    with pytest.raises(ValidationError, match="heavy: failures is a whole number from 1 to 1,000"):
        Settings()
