"""How the nodes of a file are connected: what comes next, what a node waits for, and the branches of a conditional."""

from functools import cached_property
from typing import Annotated, Any, ClassVar

from pydantic import Field, StrictBool, ValidationInfo, model_validator
from pydantic.dataclasses import dataclass

from anabranch.canonical import Json
from anabranch.workflows import values
from anabranch.workflows.expressions import Condition, parse_condition
from anabranch.workflows.mistakes import refuse
from anabranch.workflows.rules import DECLARED, Check, Model, declared, declared_keys

__all__ = ["Branch", "DependsOn", "Edges"]

Names = Annotated[tuple[str, ...], Check(values.read_names, values.NAMES_SCHEMA)]


@dataclass(frozen=True)
class Branch(Model):
    """A branch of a conditional: the first whose condition holds is taken; the default has none."""

    nullable: ClassVar[tuple[str, ...]] = ("condition",)

    next: Names = Field(description="What comes after it: a node, or a list.")
    condition: Annotated[Json, Check(values.read_any, values.CONDITION_SCHEMA)] = declared(
        None, "When the branch is taken: '< 100', a value, or a whole condition."
    )
    is_default: StrictBool = declared(False, "Whether it is the last branch, taken where no other is.", "default")

    @model_validator(mode="before")
    @classmethod
    def _choose(cls, given: Any, info: ValidationInfo) -> Any:  # whatever is validated
        if info.context is DECLARED and isinstance(given, dict) and given.keys() <= declared_keys(cls).keys():
            default = given.get("default")
            if isinstance(default, bool | None) and bool(default) == ("condition" in given):
                hint = "Keep one." if default else "Add one."
                raise refuse("a branch has either a condition or default: true", hint, of_value=False)
        return given

    @cached_property
    def test(self) -> Condition:
        """The condition, parsed."""
        return parse_condition(self.condition, has_subject=True)


@dataclass(frozen=True)
class DependsOn(Model):
    """The nodes that a node waits for."""

    all_of: Names = declared((), "It waits for all of these.")
    any_of: Names = declared((), "It waits for the first of these.")

    @model_validator(mode="after")
    def _check_twice(self) -> "DependsOn":
        for twice in self.any_of:
            if twice in self.all_of:
                raise refuse(f"{twice!r} is in all_of already", "Keep one of them.", "any_of")
        return self


@dataclass(frozen=True)
class Edges(Model):
    """The order of nodes in a file; the reader turns it into `after` and `after_any`."""

    next: Names = declared((), "What comes after it: a node, or a list.")
    depends_on: Annotated[DependsOn, Check(values.read_dependencies, {})] = declared(
        DependsOn(), "What it waits for: a node or a list, of which all must be done; or all_of and any_of."
    )
