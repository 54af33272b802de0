"""The engine's row types by table; `db check` compares them with the columns."""

from anabranch.engine.model import Event, Job, NodeRow, Session, Tombstone

__all__ = ["ROW_TYPES"]

ROW_TYPES: dict[str, type] = {
    "jobs": Job,
    "nodes": NodeRow,
    "events": Event,
    "sessions": Session,
    "tombstones": Tombstone,
}
