"""Keeps a stack running: PostgreSQL, then the processes that use it."""

import os
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from datetime import timedelta
from functools import partial
from signal import SIGKILL, SIGTERM

import structlog

from anabranch.embedded.child import ChildSpec, SupervisedProcess
from anabranch.embedded.cluster import Cluster
from anabranch.embedded.home import CHILD_MARK, STACK_MARK, Child, Home, Stack
from anabranch.embedded.listener import api_url, listen
from anabranch.embedded.logfiles import open_log, trim_logs
from anabranch.embedded.orphans import clear_orphans, find_orphans
from anabranch.embedded.processes import Process, boot_id, end, identify, marked
from anabranch.embedded.signals import Interrupted, StopSignals

__all__ = ["LISTEN_FD", "ChildSpec", "Supervisor"]

# The child that listens reads the descriptor of its socket from this variable.
LISTEN_FD = "ANABRANCH_LISTEN_FD"
POLL_SECONDS = 1.0

log = structlog.get_logger()


def _ignore(*_: object) -> None:
    """The default callback."""


class Supervisor:
    """Runs the stack of a home until a signal asks it to stop.

    `database` is the cluster to run, or the URL of an external server. `prepare` gets the URL before any child
    starts. `on_start` gets the stack when all have started; `on_death` gets role and pid, in a thread of its own;
    `on_stop` is called when all have ended and the database still runs.
    """

    def __init__(
        self,
        home: Home,
        database: Cluster | str,
        children: Sequence[ChildSpec],
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        prepare: Callable[[str], None] = _ignore,
        on_start: Callable[[Stack], None] = _ignore,
        on_death: Callable[[str, int], None] = _ignore,
        on_stop: Callable[[], None] = _ignore,
        grace: timedelta = timedelta(seconds=30),
        log_to_files: bool = False,
        plugins: Sequence[str] = (),
    ) -> None:
        self.home = home
        self._plugins = tuple(plugins)
        self._cluster = database if isinstance(database, Cluster) else None
        self._database_url = database if isinstance(database, str) else ""
        self._address = (host, port)
        self._prepare, self._on_start, self._on_death, self._on_stop = prepare, on_start, on_death, on_stop
        self._grace = grace.total_seconds()
        self._log_to_files = log_to_files
        self._server = (
            SupervisedProcess("postgres", lambda _: database.launch()) if isinstance(database, Cluster) else None
        )
        self._children = [SupervisedProcess(spec.role, partial(self._launch, spec)) for spec in children]

    def run(self) -> None:
        """Run the stack; returns when it has stopped cleanly. Conflict: it already runs, or the port is in use."""
        with self.home.locked():
            clear_orphans(self.home)
            with closing(listen(*self._address)) as self._listener, StopSignals() as self._signals:
                try:
                    self._start()
                    self._signals.stop_raising()
                    self._watch()
                except Interrupted:
                    _log_event("stack.interrupted")
                finally:
                    self._signals.stop_raising()
                    self._stop()

    def _start(self) -> None:
        if self._cluster is None:
            self.home.mark_elsewhere()
        self._record(None)
        if self._cluster and self._server:
            self._start_process(self._server)
            self._cluster.wait_ready()
            self._cluster.ensure_database()
            self._database_url = self._cluster.url()
            self._record(None)
        self._prepare(self._database_url)
        for child in self._children:
            self._start_process(child)
        stack = self._record(api_url(self._listener))
        _log_event("stack.started", url=stack.api_url, home=str(self.home.path))
        _log_errors(partial(self._on_start, stack))

    def _watch(self) -> None:
        supervised = [self._server, *self._children] if self._server else self._children
        while not self._signals.received:
            for act in (
                *(partial(self._restart_if_dead, one) for one in supervised),
                partial(trim_logs, self.home.logs),
            ):
                _log_errors(act)
            due = min((one.due for one in supervised if one.process is None), default=time.monotonic() + POLL_SECONDS)
            self._signals.wait(min(POLL_SECONDS, due - time.monotonic()))

    def _restart_if_dead(self, supervised: SupervisedProcess) -> None:
        if dead := supervised.take_dead():
            wait = max(0.0, round(supervised.due - time.monotonic(), 1))
            _log_event("child.died", role=supervised.role, pid=dead.pid, exit=dead.returncode, restart_in_seconds=wait)
            if supervised is not self._server:
                self._report_death(supervised, dead.pid)
        if supervised.process is None and supervised.due <= time.monotonic():
            self._start_process(supervised)
            self._record(api_url(self._listener))

    def _report_death(self, supervised: SupervisedProcess, pid: int) -> None:
        # Its own children would continue with work that is about to be given to another worker.
        end(partial(marked, CHILD_MARK, supervised.mark), (SIGKILL, 2.0))
        threading.Thread(target=_log_errors, args=[partial(self._on_death, supervised.role, pid)], daemon=True).start()

    def _start_process(self, supervised: SupervisedProcess) -> None:
        process = supervised.start()
        _log_event("child.started", role=supervised.role, pid=process.pid)

    def _launch(self, spec: ChildSpec, mark: str) -> subprocess.Popen[bytes]:
        ours = {
            "ANABRANCH_HOME": str(self.home.path),
            "ANABRANCH_DATABASE_URL": self._database_url,
            STACK_MARK: str(self.home.stack_id),
            CHILD_MARK: mark,
        }
        fds = spec.pass_fds
        if spec.listens:
            ours[LISTEN_FD] = str(self._listener.fileno())
            fds = (*fds, self._listener.fileno())
        output = open_log(self.home.logs / f"{spec.role}.log") if self._log_to_files else None
        try:
            # In its own session: a terminal's ^C reaches only the supervisor, which then stops all cleanly.
            return subprocess.Popen(
                spec.argv, env={**os.environ, **spec.env, **ours}, pass_fds=fds, start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=output, stderr=output,
            )  # fmt: skip
        finally:
            if output is not None:
                os.close(output)

    def _record(self, url: str | None) -> Stack:
        children = [Child(supervised.role, found) for supervised in self._children if (found := _identity(supervised))]
        supervisor = identify(os.getpid()) or Process(os.getpid(), 0)
        server = _identity(self._server) if self._server else None
        stack = Stack(boot_id(), supervisor, url, self._database_url or None, server, tuple(children), self._plugins)
        self.home.write_stack(stack)
        return stack

    def _stop(self) -> None:
        _log_event("stack.stopping")
        for child in reversed(self._children):
            child.send_signal(SIGTERM)
        self._wait_for_children()
        for child in self._children:
            child.kill()
        end(partial(find_orphans, self.home), (SIGKILL, 5.0))
        _log_errors(self._on_stop)
        if self._cluster:
            self._cluster.stop("fast", patience=3 if self._is_hurried else 30)
        self.home.clear_stack()
        _log_event("stack.stopped")

    def _wait_for_children(self) -> None:
        deadline = time.monotonic() + self._grace
        while any(child.process and child.process.poll() is None for child in self._children):
            if self._is_hurried or time.monotonic() > deadline:
                return
            self._signals.wait(0.1)

    @property
    def _is_hurried(self) -> bool:
        return self._signals.received > 1


def _identity(supervised: SupervisedProcess) -> Process | None:
    return identify(supervised.process.pid) if supervised.process else None


def _log_errors(act: Callable[[], None]) -> None:
    try:
        act()
    except Exception as error:  # noqa: BLE001  the stack must keep running: a full disk is temporary
        _log_event("supervisor.failed", error=repr(error))


def _log_event(event: str, **facts: object) -> None:
    # A full disk or a closed terminal must not stop the stack.
    with suppress(OSError):
        log.info(event, **facts)
