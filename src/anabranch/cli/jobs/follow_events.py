"""New events of a job, as they arrive."""

from collections.abc import Iterator

from anabranch.cli.exit_codes import UsageError
from anabranch.client import Client, Event

__all__ = ["new_events"]


def new_events(client: Client, job_id: str, after: str | None) -> Iterator[Event]:
    """The events of a job as they happen, until it has ended."""
    if after and not after.isdecimal():
        raise UsageError("usage", f"{after!r} is not an event number", remedy="Give the `seq` of an event.")
    return (update for update in client.stream(job_id, after=int(after or 0)) if isinstance(update, Event))
