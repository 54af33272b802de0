"""One list has every code that any part raises, and the page of codes is made from it (O6)."""

import ast
import importlib.util
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

from anabranch import access, codes, errors
from anabranch.api.answers import errors as api_errors
from anabranch.api.answers.errors import InvalidRequest, respond
from anabranch.cli import exit_codes
from anabranch.cli.exit_codes import JobFailed, exit_code
from anabranch.client import errors as client_errors
from anabranch.codes import Code, all_codes, find_code, status_of
from anabranch.engine import ports
from anabranch.engine.entry_points import CODE_GROUP, load_entry_points
from anabranch.engine.failure import describe_error, next_delay
from anabranch.errors import AnabranchError, Kind, TaskError
from anabranch.workflows.inputs import InvalidParameters
from anabranch.workflows.work import Retry

CODES = all_codes()
ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "anabranch"
SHAPE = re.compile(r"[a-z_][a-z0-9_]*(\.[a-z0-9_]+)*")
IN_SQL = re.compile(r"""['"]code['"]\s*[:,]\s*['"]([a-z_.]+)['"]""")
# Made from the kind of a handler's exception, from what the database refuses, and for an archive by its plugin.
MADE = {
    "catalog.not_empty", "publication.expired", "publication.forbidden", "publication.in_use", "publication.moved",
    "publication.name_taken", "publication.not_approved", "publication.owner", "publication.release",
    "publication.same", "publication.tables", "publication.unapproved", "raster.archive", "vector.archive",
    "handler.contract", "handler.error", "handler.exited", "handler.permanent", "handler.resource", "handler.throttled",
    "handler.transient",
}  # fmt: skip
CLASSES: Mapping[str, type[AnabranchError]] = {
    name: found
    for module in (errors, ports, exit_codes, client_errors, access, api_errors)
    for name, found in vars(module).items()
    if isinstance(found, type) and issubclass(found, AnabranchError)
}
# Classes that make their code by themselves.
OWN_CODE = (InvalidParameters, InvalidRequest, ports.SessionGone, ports.KeyTaken, exit_codes.RelayedError)
ALIKE = {
    "Failure",
    "Overdue",
    "_overdue",
    "refuse_set",
}  # not errors of ours by class; what they say becomes a task's error


@cache
def raised() -> dict[str, set[str]]:
    """Every code in the source, with the names of the classes it is raised by; those of tests' own parts left out."""
    found: dict[str, set[str]] = defaultdict(set)
    for file in SOURCE.rglob("*.py"):
        if file.name != "codes.py" and "testing" not in file.parts:
            for code, name in codes_of(ast.parse(file.read_text())):
                found[code].add(name)
    for file in SOURCE.rglob("*.sql"):
        for code in IN_SQL.findall(file.read_text()):
            found[code].add("SQL")
    return found


def codes_of(tree: ast.AST) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef(name=name, body=body):
                yield from ((code, name) for code in first_arguments(body, "__init__"))
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=args, keywords=keywords):
                if name in CLASSES or name in ALIKE:
                    yield from ((code, name) for code in texts(args[:1]))
                    yield from ((code, name) for word in keywords if word.arg == "code" for code in texts([word.value]))
            case ast.Dict(keys=keys, values=values):
                told = [value for key, value in zip(keys, values, strict=True) if texts([key]) == ["code"]]
                yield from ((code, "") for code in texts(told))
            case ast.Assign(targets=[ast.Tuple(elts=[ast.Name(id="code"), *_])], value=ast.IfExp() as chosen):
                either = (chosen.body, chosen.orelse)
                yield from ((code, "") for each in either for code in texts(getattr(each, "elts", [])[:1]))
            case ast.Return(value=ast.Tuple(elts=[first, *_])):
                yield from ((code, "") for code in texts([first]) if "." in code)
            case _:
                pass


def first_arguments(body: list[ast.stmt], method: str) -> list[str]:
    calls = [n for statement in body for n in ast.walk(statement) if isinstance(n, ast.Call)]
    own = [call for call in calls if isinstance(call.func, ast.Attribute) and call.func.attr == method]
    return [code for call in own for code in texts(call.args[:1])]


def texts(nodes: list[ast.expr] | list[ast.expr | None]) -> list[str]:
    parts = [part for node in nodes for part in (node.values if isinstance(node, ast.BoolOp) else [node])]
    return [
        part.value
        for part in parts
        if isinstance(part, ast.Constant) and isinstance(part.value, str) and SHAPE.fullmatch(part.value)
    ]


def test_o6_no_code_is_missing_from_the_list_and_none_in_it_is_stale() -> None:
    in_source = raised().keys() | MADE
    listed = {code.code for code in CODES}
    assert (sorted(in_source - listed), sorted(listed - in_source)) == ([], [])


def test_o6_a_code_is_in_one_list_only() -> None:
    lists = [codes.CODES, *(brought for _, brought in load_entry_points(CODE_GROUP) if isinstance(brought, tuple))]
    times = Counter(code.code for each in lists for code in each)
    assert [code for code, count in times.items() if count > 1] == []


def test_o6_the_list_is_sorted_and_says_of_each_code_what_it_means_and_what_to_do() -> None:
    assert [code.code for code in CODES] == sorted({code.code for code in CODES})
    for code in CODES:
        assert re.fullmatch(r"[A-Z`].*\.", code.meaning), code
        assert re.fullmatch(r"[A-Z`].*\.", code.remedy), code


@pytest.mark.parametrize("code", CODES, ids=lambda code: code.code)
def test_o6_status_and_exit_code_are_those_that_the_list_says(code: Code) -> None:
    classes = [CLASSES[name] for name in raised().get(code.code, ()) if name in CLASSES]
    made = [error for kind in classes if (error := make(kind, code.code))]
    told = [client_errors.error_of(status_of(error), {"code": error.code}) for error in made]
    assert {exit_code(error) for error in (*made, *told)} <= {code.exit_code, JobFailed.kind.exit_code}
    assert code.status is None or {*map(status_of, made)} <= {code.status}


@pytest.mark.parametrize("kind", [errors.NotFound, errors.Conflict, errors.InputError, client_errors.NotAllowed])
def test_o6_a_code_that_is_not_listed_has_the_kind_of_its_class(kind: type[AnabranchError]) -> None:
    error = kind("acme.broken", "it is so")
    assert (status_of(error), exit_code(error)) == (kind.kind.status, kind.kind.exit_code)


# Raised by a class that is tried again, though the request that meets the same is not worth repeating.
TRIED_AGAIN = {"storage.changed", "task.lost"}


@pytest.mark.parametrize("code", CODES, ids=lambda code: code.code)
def test_e9_a_refusal_of_ours_is_never_retried_and_what_may_pass_is(code: Code) -> None:
    """Whatever retry is declared: only codes that say so are worth another attempt."""
    for name in raised().get(code.code, ()):
        kind = CLASSES.get(name)
        if kind is None or kind in OWN_CODE:
            continue
        error = kind("it is so", code=code.code) if issubclass(kind, TaskError) else kind(code.code, "it is so")
        again = next_delay(Retry(max_attempts=5), 0, describe_error(error)) is not None
        assert again <= (code.retryable or code.code in TRIED_AGAIN), name
        assert again >= (code.kind is Kind.TASK_AGAIN), name


def test_e9_our_plugins_refuse_by_errors_of_ours_only() -> None:
    """An ordinary exception is tried again as often as a retry says; a refusal must not be."""
    plugins = [file for file in (SOURCE / "plugins").rglob("*.py") if file.name not in VALIDATORS]
    found = {
        f"{file.name}: {name}"
        for file in plugins
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Raise) and (name := raised_name(node)) and name not in CLASSES
    }
    caught = {"validate.py: LookupError"}
    assert found == {"validate.py: RuntimeError", *caught}  # mistakes of ours, and those that we catch


# Pydantic makes `handler.parameters` of what models raise.
VALIDATORS = {"facts.py", "models.py", "names.py", "request.py"}


def raised_name(node: ast.Raise) -> str | None:
    match node.exc:
        case ast.Call(func=ast.Name(id=name)):
            return name if name[0].isupper() else None
        case _:
            return None


def make(kind: type[AnabranchError], code: str) -> AnabranchError | None:
    """An error of a class; None where the class makes its code by itself."""
    return None if kind in OWN_CODE or issubclass(kind, TaskError) else kind(code, "it is so")


@pytest.mark.parametrize(
    "error", [ValueError("x"), TimeoutError(), MemoryError(), errors.Throttled("x"), errors.ContractViolationError("x")]
)
def test_o6_what_a_handler_raises_has_a_code_of_the_list(error: Exception) -> None:
    assert find_code(str(describe_error(error).code))


def test_o6_a_problem_without_a_remedy_of_its_own_has_that_of_its_code() -> None:
    answer = respond(errors.NotFound("job.not_found", "there is no job 1"), path="/", correlation_id="c")
    assert b'"remedy": "List them with `anabranch jobs`."' in bytes(answer.body)
    assert b'"title": "There is no such job"' in bytes(answer.body)


def test_o6_the_page_of_codes_is_current() -> None:
    spec = importlib.util.spec_from_file_location("reference", ROOT / "scripts" / "reference.py")
    assert spec
    assert spec.loader
    reference = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(reference)
    for name, page in reference.PAGES.items():
        assert (ROOT / "docs" / "reference" / name).read_text() == page(), "run `make reference`"
