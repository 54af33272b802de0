"""What is kept of what an attempt printed."""

import os
from multiprocessing import Pipe

from anabranch.access import Credential
from anabranch.engine.worker.captured_output import Printed


def test_s5_a_secret_that_a_handler_prints_is_not_kept() -> None:
    read, written = Pipe(duplex=False)
    key = Credential.make()
    os.write(written.fileno(), f"I have {key.text}, and postgresql://me:hunter2@there/db\n".encode())
    kept = Printed(read).text() or ""
    assert kept == f"I have anb_{key.key_id}_***, and postgresql://me:***@there/db\n"
