"""Jobs as bodies ask for them: all mistakes at once, those in the parameters beside those in the rest."""

from collections.abc import Iterator, Mapping

from pydantic import ValidationError

from anabranch.api.answers.errors import InvalidRequest, Mistake, list_mistakes
from anabranch.api.requests import JobRequest
from anabranch.canonical import Json
from anabranch.contract.jobs import CheckedJob
from anabranch.errors import AnabranchError, InputError
from anabranch.gateway import Gateway

__all__ = ["check_job", "read_job"]


def read_job(given: Mapping[str, Json], gateway: Gateway) -> JobRequest:
    """The job that a body asks for; if that can't be read, the workflow's mistakes are reported too."""
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


def _find_mistakes(given: Mapping[str, Json], gateway: Gateway) -> Iterator[Mistake]:
    workflow, parameters = given.get("workflow"), given.get("parameters", {})
    if not isinstance(workflow, str) or not isinstance(parameters, dict):
        return
    try:
        gateway.declaration(workflow).check(parameters)
    except AnabranchError as error:
        where = "parameters" if isinstance(error, InputError) else "workflow"
        yield from list_mistakes(error) or [Mistake(where=where, detail=error.message)]
