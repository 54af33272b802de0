"""Importing this ties the process to its parent. Only the fork server does, and first of all: it outlives a killed
worker otherwise, for its children hold the pipe by which it would notice, and they would go on as well.

It ends with its worker and not by SIGTERM, which reaches a whole stack at once: children whose server is gone look like
crashes.
"""

import gc
import signal

from anabranch.die_with_parent import die_with_parent

gc.disable()  # each child enables it again
die_with_parent()
signal.signal(signal.SIGTERM, signal.SIG_IGN)
