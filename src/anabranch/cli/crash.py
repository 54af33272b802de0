"""Saves the traceback of an internal error."""

import os
import sys
import traceback

from anabranch.embedded.locate import find_home
from anabranch.embedded.logfiles import open_log

__all__ = ["save_details"]


def save_details(error: Exception) -> str:
    """Save the traceback: to stderr when debugging, otherwise to a log in the home; returns where it is."""
    text = "".join(traceback.format_exception(error))
    if os.environ.get("ANABRANCH_LOG_LEVEL", "").lower() == "debug":
        sys.stderr.write(text)
        return "Internal error; see the traceback above."
    try:
        log = find_home().logs / "cli.log"
        with os.fdopen(open_log(log), "w") as file:
            file.write(f"{text}\n")
    except Exception:  # noqa: BLE001  there may be no home yet, or no room in it
        return "Internal error; run it again with ANABRANCH_LOG_LEVEL=debug to see the traceback."
    return f"Internal error; the traceback is in {log}."
