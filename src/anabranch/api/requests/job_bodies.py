"""Jobs as requests ask for them: all mistakes at once, in parameters, the rest of the body, query and headers."""

from collections.abc import Callable, Mapping, Sequence

from fastapi import Request
from pydantic import ValidationError

from anabranch.api.answers.errors import InvalidRequest, Mistake, list_mistakes
from anabranch.api.callbacks import move_callbacks
from anabranch.api.requests.models import JobRequest, SubmitQuery
from anabranch.canonical import Json
from anabranch.contract.jobs import CheckedJob
from anabranch.errors import AnabranchError
from anabranch.gateway import Gateway

__all__ = ["check_job", "find_all_mistakes", "read_job", "read_submit_query"]

PLACES = {"idempotency.key": "header.Idempotency-Key", "workflow.not_found": "workflow"}


def read_job(given: Mapping[str, Json], gateway: Gateway) -> JobRequest:
    """The job that a body asks for; if that can't be read, the workflow's mistakes are reported too."""
    given = move_callbacks(given)
    try:
        return JobRequest.model_validate(given)
    except ValidationError as error:
        raise InvalidRequest([*InvalidRequest.of(error, "body").mistakes, *_find_mistakes(given, gateway)]) from error


def check_job(given: Mapping[str, Json], gateway: Gateway) -> CheckedJob:
    """The job that a submission of this body would create, as far as it is known; every mistake otherwise."""
    wanted = read_job(given, gateway)
    declared = gateway.declaration(wanted.workflow)
    parameters = declared.check(wanted.parameters)
    return CheckedJob(wanted.workflow, parameters, wanted.priority or declared.workflow.priority)


def read_submit_query(request: Request) -> SubmitQuery:
    """The query of a submission; read by its route, so that its mistakes are reported with those in the body."""
    given = request.query_params
    try:
        return SubmitQuery.model_validate(
            {name: given.getlist(name) if name == "label" else given[name] for name in given}
        )
    except ValidationError as error:
        raise InvalidRequest.of(error, "query") from error


def find_all_mistakes(*checks: Callable[[], object]) -> AnabranchError:
    """What these checks of a request refuse: the error of the only one that does, or every mistake in one."""
    errors = []
    for check in checks:
        try:
            check()
        except AnabranchError as error:
            errors.append(error)
    return errors[0] if len(errors) == 1 else InvalidRequest([one for error in errors for one in _list(error)])


def _find_mistakes(given: Mapping[str, Json], gateway: Gateway) -> Sequence[Mistake]:
    workflow, parameters = given.get("workflow"), given.get("parameters", {})
    if not isinstance(workflow, str) or not isinstance(parameters, dict):
        return ()
    try:
        gateway.declaration(workflow).check(parameters)
    except AnabranchError as error:
        return _list(error)
    return ()


def _list(error: AnabranchError) -> Sequence[Mistake]:
    where = PLACES.get(error.code, "parameters")
    return list_mistakes(error) or [Mistake(where=where, detail=error.message)]
