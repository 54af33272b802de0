"""Commands whose modules are imported when they are called, so that every command starts fast."""

import gc
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

__all__ = ["LazyGroup", "add_commands"]


class LazyCommand(TyperCommand):
    """The name and the help of a command, and where its function is."""

    def __init__(self, name: str, target: str, help: str) -> None:
        super().__init__(name, help=help, rich_markup_mode=None)
        self._target = target

    def load(self) -> Any:  # typer's own classes are private
        """The command itself."""
        module, _, name = self._target.partition(":")
        found = getattr(import_module(f"anabranch.cli.{module}"), name)
        if not gc.isenabled():  # `main` starts like this: no collection of garbage ever looks at what was imported
            gc.freeze()
            gc.enable()
        if isinstance(found, typer.Typer):
            return typer.main.get_command(found)
        single = typer.Typer(add_completion=False, rich_markup_mode=None)
        single.command(self.name)(found)
        return typer.main.get_command(single)


class LazyGroup(TyperGroup):
    """A group that lists and completes its commands without their modules."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:  # as in `load`
        """The command that the arguments name, with its module imported."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, command.load() if isinstance(command, LazyCommand) else command, rest


def add_commands(root: TyperGroup, commands: Mapping[str, str | tuple[str, str]]) -> None:
    """Add commands to a group: by its words, each has `module:function` and its help; a subgroup has only its help."""
    groups: dict[str, TyperGroup] = {"": root}
    for words, entry in commands.items():
        path, _, name = words.rpartition(" ")
        if isinstance(entry, str):
            groups[words] = LazyGroup(name=name, help=entry, rich_markup_mode=None)
            groups[path].add_command(groups[words])
        else:
            groups[path].add_command(LazyCommand(name, *entry))
