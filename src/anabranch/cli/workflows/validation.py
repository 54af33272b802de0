"""Validates workflows and reports every mistake."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from anabranch.cli.workflows.registry import read_file
from anabranch.engine.registry import Registry
from anabranch.errors import InputError
from anabranch.workflows.mistakes import Mistake
from anabranch.workflows.stages import Declaration
from anabranch.workflows.yaml.load import Loaded, load_yaml

__all__ = ["Problem", "ValidationReport", "validate_files", "validate_registry"]


@dataclass(frozen=True)
class Problem:
    """A mistake and its location; the line is known only in YAML."""

    file: str
    line: int | None
    column: int | None
    message: str
    hint: str = ""

    def __str__(self) -> str:
        """In the format of compilers: file:line:column: message."""
        place = self.file if self.line is None else f"{self.file}:{self.line}:{self.column}"
        return f"{place}: {self.message}" + (f". {self.hint}" if self.hint else "")


@dataclass(frozen=True)
class ValidationReport:
    """Every mistake, and the number of valid workflows."""

    mistakes: tuple[Problem, ...]
    valid: int

    def __str__(self) -> str:
        """In one sentence."""
        valid = _count(self.valid, "workflow is valid", "workflows are valid")
        return f"{_count(len(self.mistakes), 'mistake')}; {valid}" if self.mistakes else valid


def validate_files(files: Sequence[Path], registry: Registry) -> ValidationReport:
    """Validate files, without running them, together with each other and all registered workflows."""
    texts, unread = _read([str(file) for file in files])
    checked = {**unread, **_validate(texts, registry)}
    problems = [checked[str(file)] for file in dict.fromkeys(files)]
    return ValidationReport(
        tuple(mistake for found in problems for mistake in found), sum(not found for found in problems)
    )


def validate_registry(registry: Registry) -> ValidationReport:
    """Validate everything that the plugins provide; mistakes in workflow files have their location."""
    names = [name for name in registry.refused if Path(name).suffix in (".yaml", ".yml")]
    texts, _ = _read(names)  # an unreadable file was refused for that reason
    checked = _validate(texts, registry)
    refused = registry.refused.items()
    found = (checked.get(name) or (Problem(name, None, None, reason),) for name, reason in refused)
    return ValidationReport(tuple(mistake for mistakes in found for mistake in mistakes), len(registry.declarations))


def _read(files: Iterable[str]) -> tuple[dict[str, bytes], dict[str, tuple[Problem, ...]]]:
    """The content of each file, or why it can't be read."""
    texts: dict[str, bytes] = {}
    unread: dict[str, tuple[Problem, ...]] = {}
    for file in files:
        try:
            texts[file] = read_file(Path(file))
        except InputError as error:
            unread[file] = (Problem(file, None, None, error.message.removeprefix(f"{file} "), error.remedy or ""),)
    return texts, unread


def _validate(texts: Mapping[str, bytes], registry: Registry) -> dict[str, tuple[Problem, ...]]:
    """The mistakes of each file; a file may use workflows of the others, in any order."""
    loaded = {file: load_yaml(text, file, registry.handlers) for file, text in texts.items()}
    drafts = {one.draft.id: Declaration(one.draft, origin=file) for file, one in loaded.items() if one.draft}
    broken = {one.draft.id: file for file, one in loaded.items() if one.draft and one.mistakes}
    known = {name: file for name, file in registry.broken.items() if name not in drafts}
    among = {**registry.declarations, **drafts}
    duplicates = _find_duplicates(loaded)
    return {
        file: tuple(_mistakes(one.among(among, {**known, **broken}).with_mistakes(duplicates.get(file, ()))))
        for file, one in loaded.items()
    }


def _find_duplicates(loaded: Mapping[str, Loaded]) -> dict[str, list[Mistake]]:
    """A mistake for each file whose workflow_id is in an earlier file; the same file under two names is no mistake."""
    first: dict[str, str] = {}
    duplicates: dict[str, list[Mistake]] = {}
    for file, one in loaded.items():
        if one.draft is None:
            continue
        other = first.setdefault(one.draft.id, file)
        if Path(other).resolve() != Path(file).resolve():
            said = f"the workflow_id {one.draft.id!r} is that of {other}, too"
            duplicates[file] = [Mistake(("workflow_id",), said, of_value=True)]
    return duplicates


def _mistakes(loaded: Loaded) -> Iterator[Problem]:
    for mistake in loaded.mistakes:
        yield Problem(mistake.file, mistake.line, mistake.column, mistake.message, mistake.hint)


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number} {one}" if number == 1 else f"{number} {many or one + 's'}"
