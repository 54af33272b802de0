"""What the API tells of a job's past: its events, and what its tasks printed."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from anabranch.client.answers import JsonValue, Raw

__all__ = ["Event", "Log"]


@dataclass(frozen=True)
class Event:
    """One thing that happened to a job; `by` is who did it, where a caller did."""

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
        moment, by = datetime.fromisoformat(raw["at"]), raw.get("by")  # an older API does not tell
        return cls(raw["seq"], moment, raw["kind"], raw["node"], by, raw["data"], raw)


@dataclass(frozen=True)
class Log:
    """What one attempt of a task printed and measured."""

    task_id: str
    node: str
    index: int | str
    attempt: int
    log: str | None
    metrics: Mapping[str, JsonValue] | None
    raw: Raw = field(repr=False)

    @classmethod
    def of(cls, raw: Raw) -> "Log":
        """Read what an attempt left."""
        names = cls.__dataclass_fields__.keys() - {"raw"}
        return cls(**{name: raw[name] for name in names}, raw=raw)
