"""The folders of a home's cluster: in the home, unless the server's user or the socket's path can't be there."""

import hashlib
import os
import shutil
import stat
import tempfile
from pathlib import Path

from anabranch.embedded.home import Home
from anabranch.embedded.server_user import ServerUser
from anabranch.errors import Conflict, Unavailable

__all__ = ["PORT", "STATE_FOLDER", "ClusterLayout"]

STATE_FOLDER = Path("/var/lib/anabranch")
PORT = 5432
MAX_SOCKET_PATH_BYTES = 107


class ClusterLayout:
    """The folders of one cluster."""

    def __init__(self, home: Home, state: Path = STATE_FOLDER) -> None:
        self.home = home
        self._state = state
        self._inside = home.path / "postgres"

    @property
    def _hash(self) -> str:
        return hashlib.sha256(str(self.home.stack_id).encode()).hexdigest()[:16]

    @property
    def _prefix(self) -> str:
        return f"anabranch-{self._hash}-"

    @property
    def folder(self) -> Path:
        """The folder of the cluster, without a socket moved for its length; Conflict if it belongs to another home."""
        outside = self.home.read_cluster_folders().get("folder")
        if outside:
            self._check_owner(outside)
        return outside or self._inside

    @property
    def data(self) -> Path:
        """The server's data folder."""
        return self.folder / "data"

    @property
    def socket(self) -> Path:
        """The folder of the server's socket."""
        moved = self.home.read_cluster_folders().get("socket")
        # Checked by its name: the record of a copied home names the original's folder.
        return moved if moved and moved.name.startswith(self._prefix) else self.folder / "socket"

    def create_folders(self, user: ServerUser) -> None:
        """Create the folders where the server's user can access them."""
        if not self.data.exists() and not user.can_use(self.home.path.parent):
            self._use_outside_folder(user)
        if self.folder == self._inside:
            user.allow_entry(self.home.path)
        self.folder.mkdir(mode=0o700, exist_ok=True)
        user.allow_entry(self.folder)
        if not user.can_use(self.folder):
            raise Unavailable(
                "cluster.closed_folder",
                f"the server's user can't enter {self.folder}",
                remedy="Open the folders above it (chmod o+x), or set ANABRANCH_HOME to another folder.",
            )
        if self.folder != self._inside:
            (self.folder / "home").write_text(f"{self.home.path}\n{self.home.stack_id}")
        self._create_socket_folder(user)

    def remove_outside_socket(self) -> None:
        """Remove a socket folder outside the home; the next start creates another."""
        if self.socket.parent != self.folder:
            shutil.rmtree(self.socket, ignore_errors=True)

    def remove(self) -> None:
        """Remove the cluster with all its data."""
        self.remove_outside_socket()
        if self.folder.exists():
            shutil.rmtree(self.folder)
        self.home.write_cluster_folders({})

    def _use_outside_folder(self, user: ServerUser) -> None:
        self._state.mkdir(mode=0o711, parents=True, exist_ok=True)
        user.allow_entry(self._state)
        self._record("folder", self._state / self._hash)

    def _check_owner(self, outside: Path) -> None:
        """Refuse the cluster of another home that still exists: this home is a copy of it."""
        note = outside / "home"
        path, _, owner = note.read_text().partition("\n") if note.exists() else ("", "", "")
        if owner and owner != self.home.stack_id and Home(Path(path)).stack_id == owner:
            raise Conflict(
                "cluster.foreign",
                f"{self.home.path} is a copy of {path}, whose database lies in {outside}",
                remedy=f"Remove {self.home.path}/cluster.json to give the copy a new database.",
            )

    def _create_socket_folder(self, user: ServerUser) -> None:
        near = self.folder / "socket"
        if _fits(near):
            self._record("socket", None)
            near.mkdir(mode=0o700, exist_ok=True)
            user.hand_over(near)
        elif self.socket == near or not _is_private(self.socket, user):
            parent = "/run" if os.access("/run", os.W_OK) else "/tmp"  # noqa: S108  mkdtemp makes a fresh 0700 folder
            short = Path(tempfile.mkdtemp(prefix=self._prefix, dir=parent))
            user.hand_over(short)
            self._record("socket", short)

    def _record(self, name: str, folder: Path | None) -> None:
        folders = self.home.read_cluster_folders()
        if folders.get(name) != folder:
            folders.pop(name, None)
            self.home.write_cluster_folders({**folders, name: folder} if folder else folders)


def _fits(folder: Path) -> bool:
    # The server and its clients would read a path with a comma or a quote as a list.
    path = str(folder / f".s.PGSQL.{PORT}")
    return len(os.fsencode(path)) <= MAX_SOCKET_PATH_BYTES and not set(path) & set(",\"'\\")


def _is_private(folder: Path, user: ServerUser) -> bool:
    try:
        found = folder.lstat()
    except OSError:
        return False
    owner = os.geteuid() if user.uid is None else user.uid
    return stat.S_ISDIR(found.st_mode) and found.st_uid == owner and not found.st_mode & 0o077
