"""Local files of jobs, uploaded once each."""

from pathlib import Path

from anabranch.cli.terminal.progress import show_upload
from anabranch.client import Client
from anabranch.errors import InputError

__all__ = ["Uploads", "find_file"]


class Uploads:
    """Uploads files to the API; a file that several jobs name is sent once."""

    def __init__(self, client: Client, *, quiet: bool = False) -> None:
        self._client = client
        self._quiet = quiet
        self._addresses: dict[Path, str] = {}

    def send(self, file: Path) -> str:
        """The address of a file in the bronze tier."""
        if file not in self._addresses:
            with show_upload(str(file), self._quiet) as show:
                self._addresses[file] = self._client.upload(file, on_progress=show).address
        return self._addresses[file]


def find_file(name: str, path: str) -> Path:
    """The file that a parameter names after its @; InputError if there is none."""
    file = Path(path).expanduser()
    if not path or not file.exists() or file.is_dir():
        raise InputError(
            "parameters.unreadable",
            f"{name}: there is no file {path!r} to upload",
            remedy=f'Name an existing file; write text that begins with @ as -p \'{name}="@…"\', in a line as "@@…".',
        )
    return file
