"""Whether workflows are sound, and every mistake of those that are not."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from anabranch.cli.catalogue import read_file
from anabranch.engine.from_yaml import load_yaml
from anabranch.engine.handler import Handler
from anabranch.engine.plugin import Registry

__all__ = ["Found", "Verdict", "judge_files", "judge_registry"]


@dataclass(frozen=True)
class Found:
    """A mistake and where it is; in what is not YAML the line is not known."""

    file: str
    line: int | None
    column: int | None
    message: str
    hint: str = ""

    def __str__(self) -> str:
        """As compilers say it."""
        place = self.file if self.line is None else f"{self.file}:{self.line}:{self.column}"
        return f"{place}: {self.message}" + (f". {self.hint}" if self.hint else "")


@dataclass(frozen=True)
class Verdict:
    """Every mistake, and how many workflows have none."""

    mistakes: tuple[Found, ...]
    sound: int

    def __str__(self) -> str:
        """In one sentence."""
        sound = _count(self.sound, "workflow is sound", "workflows are sound")
        return f"{_count(len(self.mistakes), 'mistake')}; {sound}" if self.mistakes else sound


def judge_files(files: Sequence[Path], handlers: Mapping[str, Handler]) -> Verdict:
    """The verdict on files, which are read and never run."""
    texts = {str(file): read_file(file) for file in files}  # before anything is said
    judged = [tuple(_mistakes(file, text, handlers)) for file, text in texts.items()]
    return Verdict(tuple(mistake for found in judged for mistake in found), sum(not found for found in judged))


def judge_registry(registry: Registry) -> Verdict:
    """The verdict on all that the plugins bring."""
    refused = registry.refused.items()
    mistakes = tuple(mistake for name, reason in refused for mistake in _reasons(name, reason, registry.handlers))
    return Verdict(mistakes, len(registry.declarations))


def _reasons(name: str, reason: str, handlers: Mapping[str, Handler]) -> Iterator[Found]:
    """Why something was refused: for a file of workflows, every mistake with its place."""
    file = Path(name)
    found = list(_mistakes(name, read_file(file), handlers)) if file.suffix in (".yaml", ".yml") else []
    yield from found or [Found(name, None, None, reason)]


def _mistakes(file: str, text: bytes, handlers: Mapping[str, Handler]) -> Iterator[Found]:
    for mistake in load_yaml(text, file, handlers).mistakes:
        yield Found(file, mistake.line, mistake.column, mistake.message, mistake.hint)


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number} {one}" if number == 1 else f"{number} {many or one + 's'}"
