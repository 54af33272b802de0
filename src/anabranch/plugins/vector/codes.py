"""The error codes of vectors."""

from anabranch.codes import Code

__all__ = ["CODES"]

CODES: tuple[Code, ...] = ()
