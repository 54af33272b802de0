"""Runs functions on untrusted files, each in a process without network, privileges or other files (decision 011)."""

from anabranch.sandbox.client import Sandbox
from anabranch.sandbox.confine import Limits
from anabranch.sandbox.protections import Protections

__all__ = ["Limits", "Protections", "Sandbox"]
