"""By which rules the tasks of a lane run, and what they are given: stored with the lane, in one JSON object."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import lru_cache
from typing import Any, TypeVar

from anabranch.canonical import Json
from anabranch.workflows.nodes import Folding
from anabranch.workflows.values import Fold
from anabranch.workflows.work import DEFAULT_TIMEOUT, Backoff, HandlerWork, Retry, Timeouts, Work

__all__ = ["TaskPolicy", "TaskShape"]

Span = TypeVar("Span", timedelta, None)
Rules = TypeVar("Rules", "TaskPolicy", "TaskShape")
_POLICY_KEYS = (
    "timeout_seconds", "max_attempts", "backoff", "initial_delay_seconds", "max_delay_seconds",
    *(f"{name}_timeout_seconds" for name in Timeouts._fields),
)  # fmt: skip
_SHAPE_KEYS = ("lineage", "previous", "workflow", "single", "indexed")
_BACKOFFS = {str(backoff): backoff for backoff in Backoff}
_DEFAULT_RETRY = Retry()
_NO_TIMEOUTS = Timeouts()


@dataclass(frozen=True)
class TaskPolicy:
    """How long a task may take, and how often it is tried."""

    timeout: timedelta = DEFAULT_TIMEOUT
    retry: Retry = _DEFAULT_RETRY
    timeouts: Timeouts = _NO_TIMEOUTS

    @classmethod
    def of(cls, work: Work) -> "TaskPolicy":
        """The policy of a node's own tasks."""
        retry = work.retry or _DEFAULT_RETRY
        if not isinstance(work, HandlerWork):
            return cls(retry=retry)
        return cls(work.timeout or DEFAULT_TIMEOUT, retry, work.timeouts)

    @classmethod
    def from_json(cls, lane: Json) -> "TaskPolicy":
        """The policy of a stored lane. A value that can't be read is replaced by its default: one bad row must not
        keep a worker from the claims beside it (E10)."""
        return _read(_read_policy, lane, _POLICY_KEYS) or cls()

    def to_json(self) -> dict[str, Json]:
        """The policy as SQL functions and other releases read it."""
        timeouts = self.timeouts._asdict().items()
        return {
            "timeout_seconds": self.timeout.total_seconds(),
            "max_attempts": self.retry.max_attempts,
            "backoff": self.retry.backoff,
            "initial_delay_seconds": self.retry.initial_delay.total_seconds(),
            "max_delay_seconds": self.retry.max_delay.total_seconds(),
            **{f"{name}_timeout_seconds": limit.total_seconds() for name, limit in timeouts if limit is not None},
        }


@dataclass(frozen=True)
class TaskShape:
    """The inputs of a lane's tasks besides their parameters, and the kind of the tasks.

    `lineage` names the node whose result of the same index a task gets, `previous` the node of which it gets all;
    `workflow` is the hash of the workflow that each task runs as a job; `folding` is what a fan-in makes of results.
    Where it folds those of several nodes, these are its `sources`, and `skipped` those that did not run.
    The result of a `single` task is the node's output; tasks of an `indexed` lane get their index as a parameter.
    """

    lineage: str | None = None
    previous: str | None = None
    workflow: str | None = None
    single: bool = False
    indexed: bool = False
    folding: tuple[Folding, ...] | None = None
    sources: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()

    @property
    def collected(self) -> tuple[str, ...] | None:
        """The nodes whose results a task gets all; None: it gets none."""
        return self.sources or (None if self.previous is None else (self.previous,))

    @classmethod
    def from_json(cls, lane: Json) -> "TaskShape":
        """The shape of a stored lane; a value that can't be read is ignored (E10)."""
        shape = _read(_read_shape, lane, _SHAPE_KEYS) or cls()
        if not isinstance(lane, dict) or not ("folding" in lane or "sources" in lane):
            return shape
        sources, skipped = (_read_names(lane.get(key)) for key in ("sources", "skipped"))
        folding = _read_folding(lane) if "folding" in lane else None
        return replace(shape, folding=folding, sources=sources, skipped=skipped)

    def to_json(self) -> dict[str, Json]:
        """The shape as SQL functions and other releases read it."""
        written: dict[str, Json] = {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in vars(self).items()
            if value not in (None, False, ()) and name != "folding"
        }
        if self.folding is not None:
            written["folding"] = [{"name": part.name, "fold": part.fold, "field": part.field} for part in self.folding]
        return written


def _read(make: Callable[..., Rules], lane: Json, keys: Iterable[str]) -> Rules | None:
    try:
        return make(*map(lane.get, keys)) if isinstance(lane, dict) else None
    except TypeError:  # an array or an object in place of a value: it has no hash
        return None


@lru_cache(maxsize=1024, typed=True)  # the lanes of a workflow are alike, and there may be one for each task
def _read_policy(
    timeout: Json, attempts: Json, backoff: Json, initial_delay: Json, max_delay: Json, *timeouts: Json
) -> TaskPolicy:
    retry = Retry(
        attempts if isinstance(attempts, int) else None,
        _BACKOFFS.get(str(backoff), _DEFAULT_RETRY.backoff),
        _read_seconds(initial_delay, _DEFAULT_RETRY.initial_delay),
        _read_seconds(max_delay, _DEFAULT_RETRY.max_delay),
    )
    others = Timeouts(*(_read_seconds(one, None) for one in timeouts))
    return TaskPolicy(_read_seconds(timeout, DEFAULT_TIMEOUT), retry, others)


@lru_cache(maxsize=1024, typed=True)
def _read_shape(lineage: Json, previous: Json, workflow: Json, single: Json, indexed: Json) -> TaskShape:
    lineage, previous, workflow = (word if isinstance(word, str) else None for word in (lineage, previous, workflow))
    return TaskShape(lineage, previous, workflow, single is True, indexed is True)


def _read_seconds(given: Json, default: Span) -> timedelta | Span:
    try:
        return timedelta(seconds=given) if isinstance(given, int | float) else default
    except OverflowError:
        return default


def _read_names(given: Json) -> tuple[str, ...]:
    return tuple(name for name in given if isinstance(name, str)) if isinstance(given, list) else ()


def _read_folding(lane: Any) -> tuple[Folding, ...] | None:  # JSON, not checked yet
    try:
        return tuple(Folding(part["name"], Fold(part["fold"]), part["field"]) for part in lane["folding"])
    except (LookupError, TypeError, ValueError):
        return None
