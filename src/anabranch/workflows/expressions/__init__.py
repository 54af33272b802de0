"""The small closed language of `{{ inputs.x }}` and of conditions: checked at load, evaluated on JSON (S2)."""

from anabranch.workflows.expressions.conditions import Condition, parse_condition
from anabranch.workflows.expressions.evaluation import Resolve, evaluate, walk
from anabranch.workflows.expressions.parser import parse
from anabranch.workflows.expressions.references import references, sole_reference
from anabranch.workflows.expressions.syntax import Expression, ExpressionError, Missing, Reference
from anabranch.workflows.expressions.templates import Template, find_mistakes, read_template
from anabranch.workflows.expressions.types import TypeName, check, check_all

__all__ = [
    "Condition",
    "Expression",
    "ExpressionError",
    "Missing",
    "Reference",
    "Resolve",
    "Template",
    "TypeName",
    "check",
    "check_all",
    "evaluate",
    "find_mistakes",
    "parse",
    "parse_condition",
    "read_template",
    "references",
    "sole_reference",
    "walk",
]
