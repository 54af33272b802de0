"""Many jobs of one workflow, from a file with one job's parameters in each line."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO

from anabranch.canonical import encode
from anabranch.cli.jobs.parameters import any_upload, parse_object
from anabranch.cli.jobs.uploads import Uploads, find_file
from anabranch.cli.terminal.output import escape, note, print_json, print_line
from anabranch.client import Client
from anabranch.errors import AnabranchError, InputError, NotFound, Unavailable

__all__ = ["submit_lines"]

Body = dict[str, Any]  # JSON, as the API takes it


@dataclass
class _File:
    """The lines of a file as request bodies; invalid lines are collected in `wrong`.

    `numbers` has the line of each body that has no answer yet.
    """

    stream: BinaryIO
    body: Body
    client: Client
    uploads: Uploads
    numbers: dict[int, int] = field(default_factory=dict)
    wrong: dict[int, InputError] = field(default_factory=dict)

    def bodies(self) -> Iterator[Body]:
        places = count(1)
        for number, line in enumerate(self.stream, 1):
            if not line.strip():
                continue
            try:
                parameters = parse_object(line.decode(), "it")
                encode(parameters)  # a value that JSON can't hold would abort the whole request
                parameters = self._send_files(parameters)
            except InputError as error:
                self.wrong[number] = error
            except NotFound as error:
                self.wrong[number] = InputError(error.code, error.message, remedy=error.remedy)
            except ValueError as error:
                self.wrong[number] = InputError("parameters.invalid", f"it can't be used: {error}")
            else:
                self.numbers[next(places)] = number
                yield {**self.body, "parameters": parameters}

    def _send_files(self, parameters: Body) -> Body:
        """The parameters with the addresses of files, which are sent once nothing else is wrong with the line.

        A value names a file after its @; @@ is text that begins with @.
        """
        named = {name: value[1:] for name, value in parameters.items() if isinstance(value, str) and value[:1] == "@"}
        parameters = {**parameters, **named}
        files = {name: find_file(name, text) for name, text in named.items() if not text.startswith("@")}
        if not files:
            return parameters
        checked = {**parameters, **{name: any_upload(file) for name, file in files.items()}}
        self.client.validate(
            self.body["workflow"], checked, priority=self.body.get("priority"), labels=self.body.get("labels")
        )
        return {**parameters, **{name: self.uploads.send(file) for name, file in files.items()}}

    def wrong_before(self, number: float) -> Iterator[tuple[int, InputError]]:
        """The invalid lines before a line, each of them once."""
        for one in sorted(self.wrong):
            if one < number:
                yield one, self.wrong.pop(one)


def submit_lines(client: Client, file: Path, body: Body, *, json: bool) -> None:
    """Submit a job for each line and print its id, or the API's answer; InputError at the end if a line was refused."""
    made, existing, refused = 0, 0, 0
    with _open(file) as stream:
        lines = _File(stream, body, client, Uploads(client, quiet=json))
        try:
            for answer in client.submit_many(lines.bodies()):
                number = lines.numbers.pop(answer.line)
                refused += sum(_report_refused(*wrong, json=json) for wrong in lines.wrong_before(number))
                if answer.error:
                    refused += _report_refused(number, answer.error, json=json, raw=answer.raw)
                    continue
                made += 1
                existing += not answer.created
                if json:
                    print_json({**answer.raw, "line": number}, indent=None)
                else:
                    print_line(str(answer.job_id))
        except Unavailable:
            _report_unanswered(list(lines.numbers.values()))
            raise
        finally:
            refused += sum(_report_refused(*wrong, json=json) for wrong in lines.wrong_before(float("inf")))
    if refused:
        remedy = "Fix the refused lines and submit the file again; the same lines return the same jobs."
        raise InputError("bulk.refused", f"{refused} of {made + refused} lines were refused", remedy=remedy)
    note(f"{made - existing} jobs were submitted" + (f", and {existing} existed already" if existing else ""))


def _report_refused(number: int, error: AnabranchError, *, json: bool, raw: Body | None = None) -> int:
    """Report a line that was refused; returns 1, to be counted."""
    if json:
        known = {"status": 422, "code": error.code, "detail": error.message, "remedy": error.remedy}
        print_json({**(raw or known), "line": number}, indent=None)
    else:
        later = f". {error.remedy}" if isinstance(error, Unavailable) else ""
        note(f"line {number}: {escape(error.message + later)}")
    return 1


def _report_unanswered(numbers: Sequence[int]) -> None:
    if numbers:
        note(f"{len(numbers)} lines from line {numbers[0]} on have no answer, and no later ones were sent")


@contextmanager
def _open(file: Path) -> Iterator[BinaryIO]:
    if str(file) == "-":
        yield sys.stdin.buffer
        return
    try:
        with file.open("rb") as stream:
            yield stream
    except OSError as error:
        raise InputError("parameters.unreadable", f"{file} can't be read: {error.strerror}") from error
