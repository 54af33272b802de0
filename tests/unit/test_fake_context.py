"""What a plugin's author tests handlers with."""

from pathlib import Path

import pytest
from pydantic import BaseModel

from anabranch.errors import ContractViolationError, Interrupted
from anabranch.plugins.demo.phases import work_in_phases
from anabranch.testing import FakeContext


class Depth(BaseModel):
    """The settings of a plugin."""

    wells_depth: int = 1


def test_w5_the_next_attempt_goes_on_from_the_checkpoint_with_the_same_files(tmp_path: Path) -> None:
    ctx, whole = FakeContext(tmp_path), FakeContext(tmp_path / "other")

    def stop(moment: str, phase: int) -> None:
        if (moment, phase) == ("saved", 2):
            ctx.stop()

    with pytest.raises(Interrupted):
        work_in_phases(3, 0, ctx, stop)
    following = ctx.next_attempt()
    assert (following.attempt, following.stopping) == (2, False)
    assert work_in_phases(3, 0, following) == work_in_phases(3, 0, whole)
    assert [report["message"] for report in following.reports] == ["phase 3"]


def test_settings_are_found_by_their_model(tmp_path: Path) -> None:
    assert FakeContext(tmp_path, settings=[Depth(wells_depth=7)]).settings(Depth).wells_depth == 7
    with pytest.raises(ContractViolationError, match="no installed plugin brings the settings Depth"):
        FakeContext(tmp_path).settings(Depth)


def test_there_is_no_database(tmp_path: Path) -> None:
    with pytest.raises(ContractViolationError, match=r"ctx\.database"):
        FakeContext(tmp_path).database()
