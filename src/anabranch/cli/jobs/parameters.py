"""Job parameters from the command line."""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from anabranch.cli.exit_codes import UsageError
from anabranch.cli.jobs.uploads import Uploads, find_file
from anabranch.errors import AnabranchError, InputError

__all__ = ["Parameters", "any_upload", "parse_object", "raise_together", "read_labels", "read_parameters"]

JsonValue = Any  # JSON of any shape; the server checks it against the workflow's inputs


class HugeInteger(ValueError):
    """An integer that has too many digits."""


class Parameters:
    """Values by name, the original text of those given as text, the files to upload, and what can't be read.

    Until a file is sent, its value is an address like that of its upload, so that all can be checked before.
    """

    def __init__(
        self,
        values: dict[str, JsonValue],
        texts: dict[str, str],
        files: Mapping[str, Path] | None = None,
        mistakes: Sequence[InputError] = (),
        lists: Mapping[str, Sequence[Path]] | None = None,
    ) -> None:
        self.files = files or {}
        self._lists = lists or {}
        self.values = {
            **values,
            **{name: any_upload(file) for name, file in self.files.items()},
            **{name: [any_upload(file) for file in several] for name, several in self._lists.items()},
        }
        self.mistakes = mistakes
        self._texts = texts

    def require_readable(self) -> None:
        """Raise what can't be read, all at once."""
        raise_together(self.mistakes)

    def with_file(self, name: str, file: Path) -> "Parameters":
        """The parameters with one more file to upload."""
        return Parameters(self.values, self._texts, {**self.files, name: file}, self.mistakes)

    def with_files(self, name: str, files: Sequence[Path]) -> "Parameters":
        """The parameters with a list of files to upload."""
        return Parameters(self.values, self._texts, self.files, self.mistakes, {**self._lists, name: files})

    def send_files(self, uploads: Uploads) -> "Parameters":
        """Upload the files; the parameters with their addresses."""
        addresses = {name: uploads.send(file) for name, file in self.files.items()}
        several = {name: [uploads.send(file) for file in files] for name, files in self._lists.items()}
        return Parameters({**self.values, **addresses, **several}, self._texts)

    def as_declared(self, schema: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
        """The values, with the original text of those that are strings by their schema."""
        declared = schema.get("properties", {})
        texts = {name: text for name, text in self._texts.items() if _takes_text(declared.get(name, {}))}
        return {**self.values, **texts}


def raise_together(errors: Sequence[AnabranchError]) -> None:
    """Raise one error as it is, several as one that says them all; do nothing without any."""
    if not errors:
        return
    if len(errors) == 1:
        raise errors[0]
    remedies = dict.fromkeys(error.remedy for error in errors if error.remedy)
    raise InputError("parameters.invalid", "; ".join(error.message for error in errors), remedy=" ".join(remedies))


def any_upload(file: Path) -> str:
    """An address like that of a file's upload; which one it is, its bytes decide."""
    return f"bronze://uploads/{'0' * 64}/{file.name}"


def _takes_text(declared: Mapping[str, JsonValue]) -> bool:
    return any(each.get("type") == "string" for each in (declared, *declared.get("anyOf", ())))


def read_parameters(given: Sequence[str], file: Path | None) -> Parameters:
    """The parameters of a file, overridden by those given as KEY=VALUE."""
    values = _read_file(file) if file else {}
    texts: dict[str, str] = {}
    files: dict[str, Path] = {}
    mistakes: list[InputError] = []
    for pair in given:
        name, equals, text = pair.partition("=")
        try:
            if not equals or not name:
                raise InputError("parameters.invalid", f"{pair!r} is not KEY=VALUE", remedy="Write `-p n=5`.")
            if name in texts or name in files:
                raise InputError("parameters.invalid", f"duplicate parameter {name}", remedy="Give it once.")
            if text.startswith("@"):
                files[name] = Path(text.removeprefix("@"))  # known also if it is not there
                files[name] = find_file(name, text.removeprefix("@"))
            else:
                texts[name] = text
                values[name] = _read_value(name, text)
        except InputError as error:
            mistakes.append(error)
    return Parameters(values, {name: text for name, text in texts.items() if name in values}, files, mistakes)


def read_labels(given: Sequence[str] | None) -> dict[str, str]:
    """The labels that are given as NAME=VALUE."""
    labels: dict[str, str] = {}
    for pair in given or ():
        name, equals, value = pair.partition("=")
        if not equals:
            raise UsageError("usage", f"{pair!r} is not a label. Write `--label NAME=VALUE`")
        if name in labels:
            raise UsageError("usage", f"duplicate label {name}")
        labels[name] = value
    return labels


def _read_value(name: str, text: str) -> JsonValue:
    try:
        return json.loads(text, parse_constant=_refuse, parse_int=_read_integer)
    except HugeInteger as error:
        raise InputError("parameters.invalid", f"{name}: {error}", remedy="Quote it if it is text.") from error
    except (ValueError, RecursionError):
        return text


def _read_file(file: Path) -> dict[str, JsonValue]:
    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text()
    except OSError as error:
        raise InputError("parameters.unreadable", f"{file} can't be read: {error.strerror}") from error
    except ValueError as error:
        raise InputError("parameters.invalid", f"{file} can't be used: {error}", remedy="Write it as JSON.") from error
    is_yaml = file.suffix.lower() in (".yaml", ".yml")
    return _parse_yaml(text, str(file)) if is_yaml else parse_object(text, str(file))


def _parse_yaml(text: str, where: str) -> dict[str, JsonValue]:
    from anabranch.workflows.yaml.tree import TreeError, read_tree  # only for files in YAML

    try:
        values = read_tree(text, where).value
    except TreeError as error:
        raise InputError("parameters.invalid", str(error), remedy="Fix the file.") from error
    if not isinstance(values, dict):
        raise InputError("parameters.invalid", f"{where} does not hold a mapping", remedy="Write `n: 5`.")
    return values


def parse_object(text: str, where: str) -> dict[str, JsonValue]:
    """The JSON object in a text; an InputError names `where` it comes from."""
    try:
        values = json.loads(text, parse_constant=_refuse, parse_int=_read_integer, object_pairs_hook=_unique)
    except json.JSONDecodeError as error:
        said = f"{where} is not JSON: {error.msg} (line {error.lineno}, column {error.colno})"
        raise InputError("parameters.invalid", said, remedy="Fix it there.") from error
    except (ValueError, RecursionError) as error:
        raise InputError("parameters.invalid", f"{where} can't be used: {error}", remedy="Write it as JSON.") from error
    if not isinstance(values, dict):
        raise InputError("parameters.invalid", f"{where} does not hold a JSON object", remedy='Write {"n": 5}.')
    return values


def _unique(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    names = [name for name, _ in pairs]
    if twins := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"duplicate key {twins[0]!r}")
    return dict(pairs)


def _read_integer(digits: str) -> int:
    try:
        return int(digits)
    except ValueError:
        raise HugeInteger(f"an integer of {len(digits.lstrip('-'))} digits is too large") from None


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")
