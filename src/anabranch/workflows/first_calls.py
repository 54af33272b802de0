"""What the handlers that a job calls first say of its parameters, before the job exists (G9)."""

from collections.abc import Collection, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from anabranch.canonical import Json
from anabranch.errors import AnabranchError
from anabranch.redaction import hide_secrets
from anabranch.workflows.definition import Workflow
from anabranch.workflows.expressions import ExpressionError, Template, evaluate, read_template, references, walk
from anabranch.workflows.inputs import ParameterMistake
from anabranch.workflows.mistakes import list_errors
from anabranch.workflows.nodes import AnyNode, Kind, OnFailure, TaskNode
from anabranch.workflows.work import Handler

__all__ = ["FirstCall", "find_first_calls"]


@dataclass(frozen=True)
class FirstCall:
    """A handler's model, and the parameters that every job calls it with, as far as the job's inputs give them."""

    model: type[BaseModel]
    params: Mapping[str, Template]
    is_whole: bool

    def find_mistakes(self, given: Mapping[str, Json], wrong: AbstractSet[str]) -> Iterator[ParameterMistake]:
        """What the model refuses, by the inputs' names; nothing more of those that are known to be wrong."""
        known = {}
        for name, template in self.params.items():
            if wrong.isdisjoint(_inputs_of(template)):
                try:
                    known[name] = evaluate(template, lambda ref: walk(dict(given), ref.path, ref))
                except ExpressionError:  # what it lacks, the job says
                    continue
        is_whole = self.is_whole and len(known) == len(self.params)
        try:
            self.model.model_validate(known)
        except ValidationError as error:
            found, more = list_errors(error)
            placed = (self._place(one, known, is_whole=is_whole) for one in found)
            yield from filter(None, [*placed, ParameterMistake("", more) if more else None])
        except OSError:  # what a validator reads may be where the workers are
            return
        except Exception as error:  # noqa: BLE001  # a validator may raise anything
            if is_whole:  # else it may need what is not known yet
                yield ParameterMistake("", hide_secrets(_explain(error)))

    def _place(self, found: ErrorDetails, known: Collection[str], *, is_whole: bool) -> ParameterMistake | None:
        if not found["loc"]:  # of several parameters together
            return ParameterMistake.of_model(found) if is_whole else None
        name, *at = found["loc"]
        if name not in known:
            return None
        inputs = sorted(_inputs_of(self.params[str(name)]))
        return ParameterMistake.of_model(found, inputs[0] if len(inputs) == 1 else name, *at)


def find_first_calls(workflow: Workflow, handlers: Mapping[str, Handler]) -> tuple[FirstCall, ...]:
    """The calls that every job of the workflow makes before any other."""
    begins = {node.name for node in workflow.nodes if node.kind is Kind.START}
    return tuple(
        call
        for node in workflow.nodes
        if begins.issuperset(node.parents) and (call := _first_call(node, handlers)) is not None
    )


def _first_call(node: AnyNode, handlers: Mapping[str, Handler]) -> FirstCall | None:
    if type(node) is not TaskNode or node.when is not None or node.on_failure is OnFailure.CONTINUE:
        return None
    found = handlers.get(node.handler)
    if found is None or found.model is None or node.params is None:
        return None
    templates = {name: read_template(value) for name, value in node.params.items()}
    params = {
        name: template
        for name, template in templates.items()
        if all(reference.root == "inputs" for reference in references(template))
    }
    return FirstCall(found.model, params, is_whole=len(params) == len(templates)) if params else None


def _explain(error: Exception) -> str:
    """What a validator raised, in the words of a caller, who knows no models."""
    if isinstance(error, AnabranchError):
        return f"{error.message}. {error.remedy}" if error.remedy else error.message
    return f"the parameters can't be checked: {type(error).__name__}: {error}"


def _inputs_of(template: Template) -> set[str]:
    return {str(reference.path[0]) for reference in references(template) if reference.path}
