from datetime import timedelta

import pytest

from anabranch import ContractViolationError, Permanent, Resource, Throttled, Transient
from anabranch.engine.canonical import Json
from anabranch.engine.failure import describe_error, next_delay

FIXED: dict[str, Json] = {"backoff": "fixed", "initial_delay_seconds": 10, "max_delay_seconds": 60}


@pytest.mark.parametrize(
    ("error", "category", "code"),
    [
        (Permanent("no"), "permanent", "handler.permanent"),
        (Transient("no", code="blob.busy"), "transient", "blob.busy"),
        (Resource("no"), "resource", "handler.resource"),
        (TimeoutError("slow"), "transient", "handler.transient"),
        (ConnectionResetError("gone"), "transient", "handler.transient"),
        (ValueError("no"), "permanent", "handler.permanent"),
        (MemoryError(), "resource", "handler.resource"),
        (ContractViolationError("bug"), "bug", "handler.contract"),
    ],
)
def test_an_error_keeps_its_code_and_category(error: Exception, category: str, code: str) -> None:
    described = describe_error(error)
    assert (described["category"], described["code"]) == (category, code)


def test_an_error_that_cannot_be_stored_is_made_storable() -> None:
    described = describe_error(ValueError("a\x00b\ud800" + "x" * 10_000))
    assert isinstance(described["message"], str)
    assert described["message"].startswith("a\\x00b\\ud800")
    assert len(described["message"]) < 5_000


def test_e9_permanent_errors_are_not_retried() -> None:
    assert next_delay({**FIXED, "max_attempts": 5}, 0, {"category": "permanent"}) is None
    assert next_delay({**FIXED, "max_attempts": 5}, 0, {"category": "bug"}) is None


def test_e9_max_attempts_counts_attempts() -> None:
    assert next_delay({**FIXED, "max_attempts": 1}, 0, {"category": "transient"}) is None
    assert next_delay({**FIXED, "max_attempts": 2}, 0, {"category": "transient"}) is not None
    assert next_delay({**FIXED, "max_attempts": 2}, 1, {"category": "transient"}) is None


def test_e9_without_a_policy_the_category_decides() -> None:
    tried = [next_delay(FIXED, failures, {"category": "transient"}) is not None for failures in range(4)]
    assert tried == [True, True, False, False]


@pytest.mark.parametrize(("backoff", "expected"), [("fixed", 10), ("linear", 30), ("exponential", 40)])
def test_e9_backoff_is_obeyed_with_jitter(backoff: str, expected: float) -> None:
    policy: dict[str, Json] = {**FIXED, "backoff": backoff, "max_attempts": 9}
    delay = next_delay(policy, 2, {"category": "transient"})
    assert delay is not None
    assert expected * 0.8 <= delay.total_seconds() <= expected


def test_e9_the_delay_has_a_ceiling() -> None:
    delay = next_delay({**FIXED, "backoff": "exponential", "max_attempts": 99}, 50, {"category": "transient"})
    assert delay is not None
    assert delay.total_seconds() <= 60


def test_e9_a_throttled_error_says_when() -> None:
    described = describe_error(Throttled("slow down", retry_after=timedelta(seconds=7)))
    assert next_delay(FIXED, 0, described) == timedelta(seconds=7)
