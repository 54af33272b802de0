"""Shorthands for the tests of vectors."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from anabranch.errors import Permanent
from anabranch.plugins.vector.models import Notes, ReadOptions, SourceLayer
from anabranch.plugins.vector.reading.open_layers import open_layers
from anabranch.plugins.vector.settings import VectorSettings

Open = Callable[..., tuple[SourceLayer, ...]]
Refuse = Callable[..., Permanent]


@pytest.fixture
def layers(tmp_path: Path) -> Open:
    """Open the layers of a file."""

    def call(path: Path, settings: VectorSettings | None = None, **options: Any) -> tuple[SourceLayer, ...]:
        return open_layers(path, tmp_path / "unpacked", ReadOptions(**options), settings or VectorSettings())

    return call


def read_layers(found: tuple[SourceLayer, ...]) -> None:
    """Read all rows of all layers."""
    for layer in found:
        list(layer.read(1000, Notes()))


@pytest.fixture
def refuse(layers: Open) -> Refuse:
    """The error of opening a file and reading all of it."""

    def call(path: Path, settings: VectorSettings | None = None, **options: Any) -> Permanent:
        with pytest.raises(Permanent) as caught:
            read_layers(layers(path, settings, **options))
        assert caught.value.remedy
        assert caught.value.message.count(str(path.parent)) == 0, "a message has no path of the machine"
        return caught.value

    return call
