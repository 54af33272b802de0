"""The operating system user that the PostgreSQL server runs as, if we are root."""

import os
import pwd
import subprocess
from dataclasses import dataclass
from pathlib import Path

from anabranch.errors import Unavailable

__all__ = ["ServerUser", "choose_server_user"]


@dataclass(frozen=True)
class ServerUser:
    """The user that the server runs as; all None: the current user."""

    uid: int | None = None
    gid: int | None = None
    groups: tuple[int, ...] | None = None

    def hand_over(self, folder: Path) -> None:
        """Make this user the owner of a folder, closed to others."""
        if self.uid is not None and self.gid is not None:
            os.chown(folder, self.uid, self.gid, follow_symlinks=False)
        folder.chmod(0o700)

    def can_use(self, path: Path) -> bool:
        """Whether the user may enter the folder, or run the program."""
        if self.uid is None:
            return os.access(path, os.X_OK)
        # The kernel answers as that user: it also considers access lists and mounts.
        asked = subprocess.run(
            ["/usr/bin/test", "-x", path], user=self.uid, group=self.gid, extra_groups=self.groups, cwd="/", check=False
        )
        return asked.returncode == 0

    def allow_entry(self, folder: Path) -> None:
        """Let the user pass through one of our folders."""
        if self.gid is None or self.can_use(folder):
            return
        mode = folder.stat().st_mode
        if mode & 0o077:
            folder.chmod(mode | 0o001)
        else:
            # Nobody else has access, so its group can become the user's: others stay out.
            os.chown(folder, -1, self.gid)
            folder.chmod(mode | 0o010)


def choose_server_user(data: Path) -> ServerUser:
    """The current user; as root, the owner of the data folder, or for a new one postgres or nobody."""
    if os.geteuid() != 0:
        return ServerUser()
    if data.exists() and (owner := data.stat()).st_uid != 0:
        return ServerUser(owner.st_uid, owner.st_gid, ())
    for name in ("postgres", "nobody"):
        try:
            user = pwd.getpwnam(name)
        except KeyError:
            continue
        return ServerUser(user.pw_uid, user.pw_gid, ())
    raise Unavailable(
        "cluster.no_user",
        "PostgreSQL refuses to run as root, and there is neither a user postgres nor nobody",
        remedy="useradd --system --no-create-home postgres",
    )
