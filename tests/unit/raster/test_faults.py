"""Errors of a file are reported with it; those of the machine and the store fail the task."""

from pathlib import Path

import pytest

from anabranch.errors import AnabranchError, Full, InputError, Resource, TaskError, Transient
from anabranch.sandbox.faults import is_fault_of_file
from anabranch.testing import FakeContext


@pytest.mark.parametrize(
    ("error", "attempt", "is_fault"),
    [
        (InputError("raster.unreadable", "x"), 1, True),
        (Resource("x", code="resource.memory"), 1, True),
        (Resource("x", code="resource.disk"), 2, False),
        (Full("storage.full", "x"), 1, False),
        (Transient("x"), 1, False),
        (TaskError("x", code="handler.crashed"), 1, False),
        (TaskError("x", code="handler.crashed"), 2, True),
    ],
)
def test_e9_a_full_disk_is_no_fault_of_a_file(
    tmp_path: Path, error: AnabranchError, attempt: int, is_fault: bool
) -> None:
    assert is_fault_of_file(error, FakeContext(tmp_path, attempt=attempt)) is is_fault
