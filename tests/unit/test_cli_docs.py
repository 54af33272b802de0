"""The reference names every command, option and setting."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from anabranch.cli.main import cli
from anabranch.settings import Settings

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"


def commands(command: Any, path: str = "anabranch") -> Iterator[tuple[str, Any]]:  # typer's own classes are private
    if children := getattr(command, "commands", None):
        for name, child in children.items():
            yield from commands(child, f"{path} {name}")
    else:
        yield path, command


@pytest.mark.parametrize(("path", "command"), list(commands(typer.main.get_command(cli))))
def test_every_command_is_in_the_reference_with_its_options(path: str, command: Any) -> None:
    text = (REFERENCE / "cli.md").read_text()
    assert f"`{path}" in text
    options = [
        name for parameter in command.params if not getattr(parameter, "hidden", False) for name in parameter.opts
    ]
    assert [name for name in options if name.startswith("-") and name not in text] == []


@pytest.mark.parametrize(("name", "field"), list(Settings.model_fields.items()))
def test_every_setting_is_in_the_reference_with_its_default(name: str, field: Any) -> None:
    default = f"`{field.default}` |" if isinstance(field.default, int | float | str) else ""
    assert f"| `{name}` | {default}" in (REFERENCE / "configuration.md").read_text()
    assert field.description
