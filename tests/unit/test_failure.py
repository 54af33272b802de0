import asyncio
import errno
import json
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest

from anabranch import (
    ContractViolationError,
    Permanent,
    Resource,
    ResourceNotFoundError,
    ServiceBusError,
    TaskError,
    Throttled,
    Transient,
)
from anabranch.engine.exhaustion import is_free_attempt
from anabranch.engine.failure import Failure, describe_error, next_delay
from anabranch.engine.plugin_folders import load_file, open_folder
from anabranch.webhook_signature import read_secret
from anabranch.workflows.work import Backoff, Retry

FIXED = Retry(None, Backoff.FIXED, timedelta(seconds=10), timedelta(seconds=60))


@pytest.mark.parametrize(
    ("error", "category", "code"),
    [
        (Permanent("no"), "permanent", "handler.permanent"),
        (Transient("no", code="blob.busy"), "transient", "blob.busy"),
        (Resource("no"), "resource", "handler.resource"),
        (TimeoutError("slow"), "transient", "handler.transient"),
        (ConnectionResetError("gone"), "transient", "handler.transient"),
        (ValueError("no"), "error", "handler.error"),
        (TaskError("no"), "error", "handler.error"),
        (ResourceNotFoundError("no"), "permanent", "handler.permanent"),
        (ServiceBusError("no"), "transient", "handler.transient"),
        (MemoryError(), "resource", "handler.resource"),
        (OSError(errno.ENOSPC, "full"), "resource", "handler.resource"),
        (OSError(errno.EMFILE, "too many open files"), "resource", "handler.resource"),
        (SystemExit(3), "error", "handler.exited"),
        (KeyboardInterrupt(), "error", "handler.exited"),
        (GeneratorExit(), "error", "handler.exited"),
        (asyncio.CancelledError(), "error", "handler.exited"),
        (ContractViolationError("bug"), "bug", "handler.contract"),
    ],
)
def test_an_error_keeps_its_code_and_category(error: BaseException, category: str, code: str) -> None:
    described = describe_error(error)
    assert (described.category, described.code) == (category, code)


def test_an_error_that_cannot_be_stored_is_made_storable() -> None:
    described = describe_error(ValueError("a\x00b\ud800" + "x" * 10_000))
    assert isinstance(described.message, str)
    assert described.message.startswith("a\\x00b\\ud800")
    assert len(described.message) < 5_000


def place_of(call: Callable[[], object]) -> str | None:
    with pytest.raises(Exception) as raised:  # noqa: PT011  # any
        call()
    return describe_error(raised.value).where


def test_s5_the_place_of_an_error_names_no_folder_of_the_server(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def act():\n    raise ValueError\n")
    mine = load_file(open_folder(tmp_path), tmp_path / "mine.py")
    assert place_of(mine.act) == "mine.py:2 in act"
    assert re.fullmatch(r"anabranch/webhook_signature\.py:\d+ in read_secret", str(place_of(lambda: read_secret("x"))))
    assert re.fullmatch(r"json/decoder\.py:\d+ in raw_decode", str(place_of(lambda: json.loads(""))))
    assert place_of(lambda: exec("raise ValueError")) == "<string>:1 in <module>"  # our own text


def failed(category: str) -> Failure:
    return Failure(code="handler.error", message="no", category=category)


def test_e9_permanent_errors_are_not_retried() -> None:
    assert next_delay(replace(FIXED, max_attempts=5), 0, failed("permanent")) is None
    assert next_delay(replace(FIXED, max_attempts=5), 0, failed("bug")) is None


def test_e9_max_attempts_counts_attempts() -> None:
    assert next_delay(replace(FIXED, max_attempts=1), 0, failed("transient")) is None
    assert next_delay(replace(FIXED, max_attempts=2), 0, failed("transient")) is not None
    assert next_delay(replace(FIXED, max_attempts=2), 1, failed("transient")) is None


def test_e9_without_a_policy_the_category_decides() -> None:
    tried = [next_delay(FIXED, failures, failed("transient")) is not None for failures in range(4)]
    assert tried == [True, True, False, False]


@pytest.mark.parametrize(
    ("backoff", "expected"), [(Backoff.FIXED, 10), (Backoff.LINEAR, 30), (Backoff.EXPONENTIAL, 40)]
)
def test_e9_backoff_is_obeyed_with_jitter(backoff: Backoff, expected: float) -> None:
    retry = replace(FIXED, backoff=backoff, max_attempts=9)
    delay = next_delay(retry, 2, failed("transient"))
    assert delay is not None
    assert expected * 0.8 <= delay.total_seconds() <= expected


def test_e9_the_delay_has_a_ceiling() -> None:
    delay = next_delay(replace(FIXED, backoff=Backoff.EXPONENTIAL, max_attempts=99), 50, failed("transient"))
    assert delay is not None
    assert delay.total_seconds() <= 60


def test_e9_a_throttled_error_says_when() -> None:
    described = describe_error(Throttled("slow down", retry_after=timedelta(seconds=7)))
    assert next_delay(FIXED, 0, described) == timedelta(seconds=7)


@pytest.mark.parametrize("category", ["error", "transient", "throttled", "resource", "child"])
def test_e9_a_declared_number_of_attempts_bounds_every_failure_that_is_not_permanent(category: str) -> None:
    retry = replace(FIXED, max_attempts=4)
    tried = [next_delay(retry, failures, failed(category)) is not None for failures in range(5)]
    assert tried == [True, True, True, False, False]


def test_e9_an_ordinary_exception_is_not_retried_where_no_retry_is_declared() -> None:
    assert next_delay(FIXED, 0, describe_error(ValueError("no"))) is None


class ApiError(Exception):
    """As client libraries write them."""

    def __init__(self, **told: object) -> None:
        super().__init__("the request failed")
        self.__dict__.update(told)


@pytest.mark.parametrize(
    "error",
    [
        ValueError("Rate limit exceeded"),
        TaskError("the API says: rate LIMIT reached"),
        TimeoutError("Too Many Requests"),
        RuntimeError("HTTP Error 429: slow down"),
        RuntimeError("HTTP/1.1 429"),
        RuntimeError("server answered with status code 429"),
        RuntimeError("429 Client Error for url: https://example.org"),
        RuntimeError("x" * 3_000 + " status=429"),
        ApiError(status=429),
        ApiError(status_code=429),
        ApiError(code="429"),
        ApiError(response=SimpleNamespace(status_code=429)),
        ApiError(response=SimpleNamespace(status=429)),
    ],
)
def test_e9_an_error_that_says_429_or_rate_limit_is_throttling(error: Exception) -> None:
    described = describe_error(error)
    assert (described.category, described.code) == ("throttled", "handler.throttled")
    assert [next_delay(FIXED, failures, described) is not None for failures in range(6)] == [True] * 4 + [False] * 2


@pytest.mark.parametrize(
    ("error", "category"),
    [
        (Permanent("rate limit of the licence"), "permanent"),
        (Resource("rate limit"), "resource"),
        (ValueError("429 tiles are missing"), "error"),
        (ValueError("band 429 of https://example.org/429"), "error"),
        (ApiError(status=404), "error"),
        (ContractViolationError("rate limit"), "bug"),
    ],
)
def test_e9_what_only_looks_like_throttling_is_not(error: Exception, category: str) -> None:
    assert describe_error(error).category == category


class Nosy(Exception):
    """Asks for trouble when it is looked at."""

    @property
    def status(self) -> int:
        raise SystemExit(1)

    def __str__(self) -> str:
        raise KeyboardInterrupt


def test_e10_an_exception_that_raises_when_it_is_described_is_described_by_its_type() -> None:
    described = describe_error(Nosy())
    assert (described.message, described.category) == ("Nosy", "error")


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (SystemExit(3), "the handler called sys.exit(3)"),
        (SystemExit(), "the handler called sys.exit()"),
        (SystemExit("no more"), "the handler called sys.exit('no more')"),
        (KeyboardInterrupt(), "the handler raised KeyboardInterrupt"),
        (GeneratorExit(), "the handler raised GeneratorExit"),
    ],
)
def test_tf9_what_would_end_the_process_is_told_as_what_it_is(error: BaseException, message: str) -> None:
    assert describe_error(error).message == message


def test_tf7_codes_and_types_of_any_length_are_cut() -> None:
    error = type("E" * 100_000, (TaskError,), {})("x" * 50_000_000, code="a\x00" * 10_000_000, remedy="y" * 50_000_000)
    assert all(len(str(value)) < 5_000 for value in describe_error(error).to_json().values())


def test_e9_a_delay_that_nobody_can_wait_for_is_cut() -> None:
    delay = next_delay(FIXED, 0, describe_error(Throttled("no", retry_after=1e300)))
    assert delay == timedelta(days=30)


def test_o5_a_failure_is_read_as_it_was_written_and_shown_as_it_is_stored() -> None:
    child = Failure(code="handler.error", message="no", where="tile.py:3 in act", category="error", node="tiles")
    failure = Failure(code="child.failed", message="job 1 failed", category="child", job_id="1", cause=child)
    written = failure.to_json()
    assert Failure.read(written) == failure
    assert list(written) == sorted(written, key=lambda name: (len(name), name))  # the order of jsonb
    assert Failure.read({**written, "later": True}) == failure
    assert Failure.read(None) is None


@pytest.mark.parametrize(
    ("tries", "seconds", "free"), [(1, 7200, True), (5, 7200, True), (6, 7200, False), (40, 1, True), (41, 0, False)]
)
def test_e1_what_does_not_answer_is_tried_often_but_not_for_ever(tries: int, seconds: float, free: bool) -> None:
    assert is_free_attempt(tries, seconds) is free
