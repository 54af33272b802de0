"""One private PostgreSQL for a whole test run, shared by its processes, and never left behind."""

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from anabranch.embedded.cluster import Cluster
from anabranch.embedded.home import Home

__all__ = ["SharedCluster"]


class SharedCluster:
    """A cluster in the run's own folder: the first process that needs it starts it, the one that made it ends it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cluster = Cluster(Home(folder / "home"), durable=False)
        self._alive = folder / "alive"
        self._held: int | None = None
        self._watcher: subprocess.Popen[bytes] | None = None

    @classmethod
    def make(cls) -> "SharedCluster":
        """A new one, held by this process until `remove`; nothing is started yet."""
        folder = Path(tempfile.mkdtemp(prefix="anabranch-tests-", dir=_choose_folder()))
        folder.chmod(0o711)  # the server may run as another user
        made = cls(folder)
        made._held = os.open(made._alive, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(made._held, fcntl.LOCK_EX)
        return made

    def start(self, prepare: Callable[[Cluster], None]) -> Cluster:
        """The running cluster, started and prepared by the first that asks."""
        ready = self.folder / "ready"
        with _locked(self.folder / "start"):
            if not ready.exists():
                self._watcher = self._watcher or self._watch()
                self._start(prepare)
                ready.touch()
        return self.cluster

    def once(self, what: str, prepare: Callable[[Cluster], None]) -> None:
        """Prepare something more in the running cluster, by the first that asks."""
        done = self.folder / f"{what}.done"
        with _locked(self.folder / what):
            if not done.exists():
                prepare(self.cluster)
                done.touch()

    def remove(self) -> None:
        """End the server, if one was started, and remove every trace."""
        if self.cluster.home.path.exists():
            self.cluster.purge()
        shutil.rmtree(self.folder, ignore_errors=True)
        if self._held is not None:
            os.close(self._held)
            self._held = None
        if self._watcher:
            self._watcher.wait()

    def remove_when_released(self) -> None:
        """Wait until the process that made it has ended, in whatever way, and remove what it left."""
        with _locked(self._alive):
            self.remove()

    def _start(self, prepare: Callable[[Cluster], None]) -> None:
        try:
            self.cluster.start()
            prepare(self.cluster)
        except BaseException:
            # The next to ask finds nothing half made, and the same error.
            self.cluster.purge()
            raise
        finally:
            self.cluster.home.release()

    def _watch(self) -> subprocess.Popen[bytes]:
        # Not even a kill -9 of the test run leaves a server behind: the kernel frees its lock.
        command = [sys.executable, "-m", "anabranch.testing.shared_cluster", str(self.folder)]
        quiet = subprocess.DEVNULL
        return subprocess.Popen(command, stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True)


def _choose_folder() -> Path | None:
    # A database is hundreds of small files: memory makes one in a tenth of the time that some disks need.
    memory = Path("/dev/shm")  # noqa: S108  # the folder in it is made private and new
    roomy = memory.is_dir() and os.access(memory, os.W_OK) and shutil.disk_usage(memory).free >= 4 << 30
    return memory if roomy else None


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    SharedCluster(Path(sys.argv[1])).remove_when_released()
