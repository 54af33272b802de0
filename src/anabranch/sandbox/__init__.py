"""Functions on files of strangers, each call in a process of its own that has nothing: see decision 011."""

from anabranch.sandbox.confine import Limits
from anabranch.sandbox.locks import Locks
from anabranch.sandbox.sandbox import Sandbox

__all__ = ["Limits", "Locks", "Sandbox"]
