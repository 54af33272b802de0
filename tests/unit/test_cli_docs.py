"""The reference and the list of commands agree with the commands."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from anabranch.cli.main import build
from anabranch.settings import Settings

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"


def commands(command: Any, path: str = "anabranch") -> Iterator[tuple[str, Any]]:  # typer's own classes are private
    if children := getattr(command, "commands", None):
        for name, child in children.items():
            yield from commands(child, f"{path} {name}")
    else:
        yield path, command


def loaded() -> Iterator[tuple[str, Any]]:
    for path, command in commands(build()):
        yield from commands(command.load(), path)


@pytest.mark.parametrize(("path", "command"), list(commands(build())))
def test_the_list_of_commands_describes_each_as_its_own_help_does(path: str, command: Any) -> None:
    assert command.help == command.load().help


@pytest.mark.parametrize(("path", "command"), list(loaded()))
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
