"""Clears what a killed supervisor left behind."""

import os
from signal import SIGKILL, SIGTERM

from anabranch.embedded.home import STACK_MARK, Home
from anabranch.embedded.layout import ClusterLayout
from anabranch.embedded.postmaster import shut_down
from anabranch.embedded.processes import Process, alive, end, family, marked

__all__ = ["clear_orphans", "find_orphans"]


def clear_orphans(home: Home, grace: float = 5) -> int:
    """Hold the home and end every process of its former stacks, clients before the server; how many there were."""
    home.acquire()
    ended = len(end(lambda: find_orphans(home), (SIGTERM, grace), (SIGKILL, 5)))
    ended += shut_down(ClusterLayout(home).data)
    home.clear_stack()
    return ended


def find_orphans(home: Home) -> list[Process]:
    """The processes of this home's stacks, apart from the server and from whoever asks."""
    stack, stack_id = home.last_stack(), home.stack_id
    recorded = [child.process for child in stack.children if alive(child.process)] if stack else []
    # The mark finds those the record can't: started a moment before the kill, or a child's own children.
    found = [*recorded, *(marked(STACK_MARK, stack_id) if stack_id else [])]
    ours = family(os.getpid())
    return [process for process in found if process.pid not in ours]
