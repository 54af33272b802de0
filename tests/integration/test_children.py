"""Children of a worker, without a worker."""

import os
import signal
from multiprocessing import forkserver

from anabranch.engine.children import Child


def test_e21_a_child_is_made_though_the_server_that_forks_it_has_just_died() -> None:
    forkserver.ensure_running()
    for _ in range(3):
        os.kill(forkserver._forkserver._forkserver_pid, signal.SIGKILL)  # type: ignore[attr-defined]  # it has no name
        child = Child([], memory=0)
        assert child.process.is_alive()
        child.kill()
