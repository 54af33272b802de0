"""The details of a mistake of ours, kept where they help."""

import os
import sys
import traceback

from anabranch.cli.connection import find_home
from anabranch.embedded.logfiles import open_log

__all__ = ["save_details"]


def save_details(error: Exception) -> str:
    """Where the details are: on stderr when debugging, else in a log of the home."""
    text = "".join(traceback.format_exception(error))
    if os.environ.get("ANABRANCH_LOG_LEVEL", "").lower() == "debug":
        sys.stderr.write(text)
        return "This is a mistake of ours; the lines above say where."
    try:
        log = find_home().logs / "cli.log"
        with os.fdopen(open_log(log), "w") as file:
            file.write(f"{text}\n")
    except Exception:  # noqa: BLE001  there may be no home yet, or no room in it
        return "This is a mistake of ours; run it again with ANABRANCH_LOG_LEVEL=debug to see where."
    return f"This is a mistake of ours; the details are in {log}."
