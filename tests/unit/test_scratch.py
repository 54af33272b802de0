"""Scratch folders belong to a process that lives, wherever it does (W6, X34)."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from anabranch.engine.worker.scratch import clear_scratch, make_scratch

HOLD = """
import sys, time
from pathlib import Path
from anabranch.engine.worker.scratch import make_scratch
folder = make_scratch(Path(sys.argv[1]))
(folder / "half-written.tif").write_text("x")
print(folder, flush=True)
time.sleep(600)
"""


def test_a6_w6_a_scratch_folder_stays_while_its_process_lives_and_goes_with_it(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        theirs = Path(process.stdout.readline().strip())
        ours = make_scratch(tmp_path)
        assert ours != theirs
        clear_scratch(tmp_path)
        assert (theirs / "half-written.tif").exists(), "its process is alive, whatever its number is here"
        assert ours.exists()
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()
    clear_scratch(tmp_path)
    assert not theirs.exists()
    assert ours.exists()


def test_a6_w6_a_folder_of_an_earlier_release_without_a_lock_goes_only_when_it_is_old(tmp_path: Path) -> None:
    for name in ("4194305", str(os.getpid())):
        (tmp_path / name).mkdir()
    clear_scratch(tmp_path)
    assert len(list(tmp_path.iterdir())) == 2
    os.utime(tmp_path / "4194305", (time.time() - 90_000,) * 2)
    clear_scratch(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [str(os.getpid())]


def test_w6_there_need_not_be_a_root(tmp_path: Path) -> None:
    clear_scratch(tmp_path / "none")
    assert make_scratch(tmp_path / "none").is_dir()
