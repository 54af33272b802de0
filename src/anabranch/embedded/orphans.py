"""Ends the processes that a killed supervisor left behind."""

import os
from signal import SIGKILL, SIGTERM

from anabranch.embedded.home import STACK_MARK, Home
from anabranch.embedded.layout import ClusterLayout
from anabranch.embedded.postmaster import shut_down
from anabranch.embedded.processes import Process, alive, end, family, marked

__all__ = ["clear_orphans", "find_orphans"]


def clear_orphans(home: Home, grace: float = 5) -> int:
    """Lock the home and end all processes of its former stacks, clients before the server; returns their number."""
    home.acquire()
    ended = len(end(lambda: find_orphans(home), (SIGTERM, grace), (SIGKILL, 5)))
    ended += shut_down(ClusterLayout(home).data)
    home.clear_stack()
    return ended


def find_orphans(home: Home) -> list[Process]:
    """The processes of this home's stacks, except the server, the caller and the caller's ancestors."""
    stack, stack_id = home.last_stack(), home.stack_id
    recorded = [child.process for child in stack.children if alive(child.process)] if stack else []
    # The mark finds processes that are not recorded: started just before the kill, or descendants of children.
    found = [*recorded, *(marked(STACK_MARK, stack_id) if stack_id else [])]
    ours = family(os.getpid())
    return [process for process in found if process.pid not in ours]
