"""The API's listening socket, held by the supervisor so that a restarted API keeps its port."""

import errno
import socket

from anabranch.errors import Conflict, InputError

__all__ = ["api_url", "listen"]


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens on an address; port 0 chooses a free one; Conflict if the port is in use."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise _refused(host, port, error) from error
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        # Callers wait in this queue while the API restarts, instead of being refused.
        listener.listen(1024)
    except OSError as error:
        listener.close()
        raise _refused(host, port, error) from error
    return listener


def api_url(listener: socket.socket) -> str:
    """The URL at which a client on this machine reaches the socket."""
    host, port = listener.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104  it is named here to be replaced
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _refused(host: str, port: int, error: OSError) -> Conflict | InputError:
    if error.errno == errno.EADDRINUSE:
        return Conflict(
            "stack.port_taken",
            f"port {port} of {host} is in use by another process",
            remedy="Set ANABRANCH_PORT to another port, or use `up --port`; 0 chooses a free one.",
        )
    reason = error.strerror or str(error)
    return InputError(
        "stack.bad_address",
        f"can't listen on {host} port {port}: {reason}",
        remedy="Fix ANABRANCH_HOST and ANABRANCH_PORT, or `--host` and `--port` of `up`.",
    )
