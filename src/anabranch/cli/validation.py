"""Whether workflows are sound, and every mistake of those that are not."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from anabranch.cli.registry import read_file
from anabranch.engine.plugin import Registry
from anabranch.errors import InputError
from anabranch.workflows.mistakes import Mistake
from anabranch.workflows.stages import Declaration
from anabranch.workflows.yaml import Loaded, load_yaml

__all__ = ["Problem", "ValidationReport", "validate_files", "validate_registry"]


@dataclass(frozen=True)
class Problem:
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
class ValidationReport:
    """Every mistake, and how many workflows have none."""

    mistakes: tuple[Problem, ...]
    sound: int

    def __str__(self) -> str:
        """In one sentence."""
        sound = _count(self.sound, "workflow is sound", "workflows are sound")
        return f"{_count(len(self.mistakes), 'mistake')}; {sound}" if self.mistakes else sound


def validate_files(files: Sequence[Path], registry: Registry) -> ValidationReport:
    """The report on files, which are read and never run, beside each other and all that is registered."""
    texts, unread = _read([str(file) for file in files])
    judged = {**unread, **_judge(texts, registry)}
    told = [judged[str(file)] for file in dict.fromkeys(files)]
    return ValidationReport(tuple(mistake for found in told for mistake in found), sum(not found for found in told))


def validate_registry(registry: Registry) -> ValidationReport:
    """The report on all that the plugins bring; of a file of workflows, every mistake with its place."""
    names = [name for name in registry.refused if Path(name).suffix in (".yaml", ".yml")]
    texts, _ = _read(names)  # what can't be read was refused for that
    told = _judge(texts, registry)
    refused = registry.refused.items()
    found = (told.get(name) or (Problem(name, None, None, reason),) for name, reason in refused)
    return ValidationReport(tuple(mistake for mistakes in found for mistake in mistakes), len(registry.declarations))


def _read(files: Iterable[str]) -> tuple[dict[str, bytes], dict[str, tuple[Problem, ...]]]:
    """What each file holds, or why it can't be read."""
    texts: dict[str, bytes] = {}
    unread: dict[str, tuple[Problem, ...]] = {}
    for file in files:
        try:
            texts[file] = read_file(Path(file))
        except InputError as error:
            unread[file] = (Problem(file, None, None, error.message.removeprefix(f"{file} "), error.remedy or ""),)
    return texts, unread


def _judge(texts: Mapping[str, bytes], registry: Registry) -> dict[str, tuple[Problem, ...]]:
    """The mistakes of each file; each may run what the others hold, in whatever order they are named."""
    loaded = {file: load_yaml(text, file, registry.handlers) for file, text in texts.items()}
    drafts = {one.draft.id: Declaration(one.draft, origin=file) for file, one in loaded.items() if one.draft}
    broken = {one.draft.id: file for file, one in loaded.items() if one.draft and one.mistakes}
    known = {name: file for name, file in registry.broken.items() if name not in drafts}
    among = {**registry.declarations, **drafts}
    doubles = _find_doubles(loaded)
    return {
        file: tuple(_mistakes(one.among(among, {**known, **broken}).with_mistakes(doubles.get(file, ()))))
        for file, one in loaded.items()
    }


def _find_doubles(loaded: Mapping[str, Loaded]) -> dict[str, list[Mistake]]:
    """The mistake of each file that has the workflow_id of one before it; a file may be named in several ways."""
    first: dict[str, str] = {}
    doubles: dict[str, list[Mistake]] = {}
    for file, one in loaded.items():
        if one.draft is None:
            continue
        other = first.setdefault(one.draft.id, file)
        if Path(other).resolve() != Path(file).resolve():
            said = f"the workflow_id {one.draft.id!r} is that of {other}, too"
            doubles[file] = [Mistake(("workflow_id",), said, of_value=True)]
    return doubles


def _mistakes(loaded: Loaded) -> Iterator[Problem]:
    for mistake in loaded.mistakes:
        yield Problem(mistake.file, mistake.line, mistake.column, mistake.message, mistake.hint)


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number} {one}" if number == 1 else f"{number} {many or one + 's'}"
