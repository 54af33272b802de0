"""The history of a job: its events, and the logs of its tasks."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from anabranch.client.answers import JsonValue, Raw

__all__ = ["Event", "Log"]


@dataclass(frozen=True)
class Event:
    """An event of a job; `by` is the caller who caused it, if there is one."""

    seq: int
    at: datetime
    kind: str
    node: str | None
    by: str | None
    data: JsonValue
    raw: Raw = field(repr=False)

    @classmethod
    def of(cls, raw: Raw) -> "Event":
        """Read an event."""
        moment, by = datetime.fromisoformat(raw["at"]), raw.get("by")  # missing in an older API
        return cls(raw["seq"], moment, raw["kind"], raw["node"], by, raw["data"], raw)


@dataclass(frozen=True)
class Log:
    """The output and the metrics of one attempt of a task."""

    task_id: str
    node: str
    index: int | str
    attempt: int
    log: str | None
    metrics: Mapping[str, JsonValue] | None
    raw: Raw = field(repr=False)

    @classmethod
    def of(cls, raw: Raw) -> "Log":
        """Read the log of an attempt."""
        names = cls.__dataclass_fields__.keys() - {"raw"}
        return cls(**{name: raw[name] for name in names}, raw=raw)
