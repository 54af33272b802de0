"""What a plugin's author tests handlers with."""

import sys
from pathlib import Path

import pytest
from pydantic import BaseModel

from anabranch.errors import ContractViolationError, Interrupted, Permanent
from anabranch.plugins.demo.phases import work_in_phases
from anabranch.plugins.vector.user_tables.open import open_geo_library
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
    with pytest.raises(ContractViolationError, match=r"ctx\.geo: .* no database"):
        FakeContext(tmp_path).geo.scratch_table("parks")


def test_tables_are_published_only_where_the_packages_for_it_are_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "anabranch.plugins.vector.user_tables.library", None)
    with pytest.raises(Permanent) as refused:
        open_geo_library(FakeContext(tmp_path))
    assert "anabranch[postgres,stac,vector]" in refused.value.remedy


def test_files_of_a_folder_stay_beside_each_other(tmp_path: Path) -> None:
    ctx, folder = FakeContext(tmp_path), tmp_path / "pages"
    for name in ("index.json", "parts/1.json", "parts/2.bin"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    first, second = (
        ctx.storage.put_folder(folder, tier="gold", media_type=lambda name: name.rpartition(".")[2]) for _ in range(2)
    )
    (root,) = {output.address.removesuffix(name) for name, output in first.items()}
    assert all(ctx.storage.read(root + name).decode() == name for name in first)
    assert [output.media_type for output in first.values()] == ["json", "json", "bin"]
    assert {output.address for output in first.values()}.isdisjoint(output.address for output in second.values())
