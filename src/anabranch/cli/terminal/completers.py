"""The workflows, queues and jobs that a shell offers."""

from collections.abc import Callable
from contextlib import suppress
from threading import Thread

from anabranch.cli.connection import connect
from anabranch.client import Client

__all__ = ["complete_job", "complete_queue", "complete_workflow"]

TIMEOUT_SECONDS = 0.3
MAX_JOBS = 100
Completions = list[tuple[str, str]]


def complete_workflow(incomplete: str) -> Completions:
    """The workflows of the running stack whose name has this prefix."""
    return _offer(
        incomplete, lambda client: [(each.workflow_id, each.description) for each in client.workflows().items]
    )


def complete_queue(incomplete: str) -> Completions:
    """The queues of the running stack whose name has this prefix."""
    return _offer(
        incomplete,
        lambda client: [(each.name, f"{each.ready} ready, {each.running} running") for each in client.queues()],
    )


def complete_job(incomplete: str) -> Completions:
    """The newest jobs whose id has this prefix."""
    length = max(12, len(incomplete))
    return _offer(
        incomplete,
        lambda client: [(job.job_id[:length], f"{job.job_type}, {job.status}") for job in client.jobs(limit=MAX_JOBS)],
    )


def _offer(incomplete: str, ask: Callable[[Client], Completions]) -> Completions:
    """The running stack's matches for a prefix; errors are never shown while a shell completes."""
    found: Completions = []

    def look(client: Client) -> None:
        with suppress(Exception):
            found.extend(offer for offer in ask(client) if offer[0].startswith(incomplete))

    with suppress(Exception), connect(timeout=TIMEOUT_SECONDS) as client:
        # In a thread, because the client limits each step of a request and not the whole.
        looking = Thread(target=look, args=[client], daemon=True)
        looking.start()
        looking.join(TIMEOUT_SECONDS)
        return [] if looking.is_alive() else found
    return []
