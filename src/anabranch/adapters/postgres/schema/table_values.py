"""The engine's values that stand for rows, by table; `db check` holds them against the columns."""

from anabranch.engine.model import Event, Job, NodeRow, Session, Tombstone

__all__ = ["ROWS"]

ROWS: dict[str, type] = {
    "jobs": Job,
    "nodes": NodeRow,
    "events": Event,
    "sessions": Session,
    "tombstones": Tombstone,
}
