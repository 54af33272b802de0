"""Imported first in the fork server: ends it when its worker dies.

Its children hold the pipe by which it would notice that, so without this it would outlive a killed worker, and so would
they. It ignores SIGTERM, which reaches a whole stack at once: children whose server is gone look like crashes.
"""

import gc
import signal

from anabranch.die_with_parent import die_with_parent

gc.disable()  # each child enables it again
die_with_parent()
signal.signal(signal.SIGTERM, signal.SIG_IGN)
