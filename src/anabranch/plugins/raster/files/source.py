"""What a raster is read from: a local file, or ranges that the caller of the sandbox serves."""

from pathlib import Path
from typing import BinaryIO, Literal, Protocol

from anabranch.sandbox.ranged import RangedFile

__all__ = ["Openable", "Source"]

Source = Path | RangedFile


class Openable(Protocol):
    """Anything whose bytes can be read."""

    def open(self, mode: Literal["rb"], /) -> BinaryIO:
        """Open it at its start."""
