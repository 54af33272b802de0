"""The answer that a gate waits for: the check that every signal passes, and the command that sends one."""

import shlex
from collections.abc import Mapping

from anabranch.canonical import Json, JsonObject, encode
from anabranch.errors import InputError
from anabranch.workflows.inputs import Input, find_input_mistakes
from anabranch.workflows.nodes import GateNode

__all__ = ["check_answer", "spell_answer", "spell_command", "spell_decision"]

_EXAMPLES: dict[str, Json] = {"boolean": True, "string": "TEXT", "array": [], "object": {}}


def check_answer(gate: GateNode, given: Mapping[str, Json]) -> JsonObject:
    """A signal with defaults applied; one that the gate doesn't take is refused with all its mistakes."""
    if gate.answer is None:
        return dict(given)
    checked, mistakes = find_input_mistakes(gate.answer, given, "a field of the answer")
    if mistakes:
        takes = spell_answer(gate.answer) or "no fields"
        raise InputError(
            "gate.answer", f"{gate.name}: {'; '.join(map(str, mistakes))}", remedy=f"The gate takes {takes}."
        )
    return checked


def spell_answer(fields: Mapping[str, Input]) -> str:
    """The fields in words: `approved (boolean, required), why (string)`."""
    return ", ".join(f"{name} ({', '.join(_rules(wanted))})" for name, wanted in fields.items())


def spell_command(job: str, gate: GateNode) -> str:
    """The command that answers a gate, with an example for each field that must be given."""
    fields = (gate.answer or {}).items()
    needed = ((name, _example(wanted)) for name, wanted in fields if wanted.required and not wanted.has_default)
    given = (
        f"-p {shlex.quote(f'{name}={value if isinstance(value, str) else encode(value)}')}" for name, value in needed
    )
    return " ".join(("anabranch signal", job, gate.name, *given))


def spell_decision(release: str) -> str:
    """The command that answers the gate of a release, which takes no signal."""
    return f"anabranch approvals approve {shlex.quote(release)}"


def _rules(wanted: Input) -> list[str]:
    choices = " or ".join(value if isinstance(value, str) else encode(value) for value in wanted.choices)
    return [choices or wanted.type, *(["required"] if wanted.required and not wanted.has_default else [])]


def _example(wanted: Input) -> Json:
    if wanted.choices:
        return wanted.choices[0]
    number = wanted.minimum if wanted.minimum is not None else wanted.maximum
    return _EXAMPLES.get(wanted.type, int(number) if number is not None else 1)
