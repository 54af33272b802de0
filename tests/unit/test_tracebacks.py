"""A traceback tells where a handler failed, shortly and without secrets."""

import re
from collections.abc import Callable

import pytest

from anabranch.cli.jobs.log_lines import read_filter
from anabranch.client import Log
from anabranch.engine.worker import tracebacks
from anabranch.engine.worker.tracebacks import MAX_TRACEBACK_CHARS, format_traceback
from anabranch.plugins.raster.checks.crs import parse_crs
from anabranch.redaction import hide_secrets


def catch(act: Callable[[], object]) -> BaseException:
    with pytest.raises(BaseException) as caught:  # noqa: PT011  # any
        act()
    return caught.value


def tell(act: Callable[[], object]) -> str:
    return format_traceback(catch(act)) or ""


def dig(depth: int, message: str) -> None:
    secret = message * 2
    if not depth:
        raise ValueError(message)
    dig(depth - 1, secret[: len(message)])


def wrap() -> None:
    try:
        dig(0, "the cause")
    except ValueError as error:
        raise RuntimeError("the rest") from error


def test_a_traceback_ends_with_the_line_that_failed_and_its_causes() -> None:
    told = tell(wrap)
    assert told.index("ValueError: the cause") < told.index("RuntimeError: the rest")
    assert "test_tracebacks.py" in told
    assert "in dig\n    raise ValueError(message)\n" in told


def test_s5_a_traceback_holds_no_secrets() -> None:
    key, url = f"anb_{'a' * 12}_{'b' * 64}", "postgresql://me:hunter2@db/x"
    told = tell(lambda: dig(1, f"{key} at {url}"))
    assert "hunter2" not in told
    assert "b" * 64 not in told
    assert f"ValueError: anb_{'a' * 12}_*** at postgresql://me:***@db/x" in told


@pytest.mark.parametrize(("depth", "message"), [(900, "deep"), (0, "x" * 10**6), (300, "\x00\ud800" * 900)])
def test_a_traceback_is_bounded_and_can_be_stored(depth: int, message: str) -> None:
    told = tell(lambda: dig(depth, message))
    assert len(told) <= MAX_TRACEBACK_CHARS + 10
    assert "raise ValueError(message)" in told
    assert "\x00" not in told.encode().decode()


def test_what_a_handler_of_ours_refuses_is_a_message_and_what_to_do() -> None:
    error = catch(lambda: parse_crs("EPSG:99999999", "target_crs"))
    assert "Traceback" in (format_traceback(error) or "")  # the code of this test called it
    error.__traceback__ = error.__traceback__ and error.__traceback__.tb_next and error.__traceback__.tb_next.tb_next
    text = format_traceback(error) or ""
    said = r" ERROR \[raster.crs_unknown\] target_crs EPSG:99999999 is not known\n  Give a code like EPSG:32633."
    assert re.fullmatch(r"\S+" + said, text)
    assert read_filter("error", None).keep(Log("1", "a", "0", 1, text, None)) is not None


def test_what_the_engine_refuses_has_none() -> None:
    error = catch(lambda: format_traceback(None))  # type: ignore[arg-type]  # to fail inside the engine
    assert error.__traceback__ is not None
    engine = error.__traceback__
    while engine.tb_next is not None:
        engine = engine.tb_next
    assert format_traceback(error.with_traceback(engine)) is None


def shout(message: str, notes: int = 0) -> None:
    error = ValueError(message)
    for _ in range(notes):
        error.add_note(message)
    raise error


def test_tf7_a_text_of_any_length_is_cut_before_secrets_are_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[int] = []

    def look(text: str) -> str:
        looked_at.append(len(text))
        return hide_secrets(text)

    monkeypatch.setattr(tracebacks, "hide_secrets", look)
    told = tell(lambda: shout("https://user:secret@host/ " * 2_000_000))
    told += tell(lambda: shout("password=secret", notes=100_000))
    assert max(looked_at) <= 2 * MAX_TRACEBACK_CHARS
    assert sum(looked_at) < 100_000
    assert "secret" not in told
    assert "ValueError: https://***@host/" in told
