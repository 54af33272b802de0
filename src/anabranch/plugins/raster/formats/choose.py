"""The variable and the time steps that a caller asked for, by comparison with what the file holds."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from anabranch.errors import Permanent
from anabranch.plugins.raster.formats.contents import Step, Variable
from anabranch.redaction import show_text

__all__ = ["ALL_TIMES", "choose_steps", "choose_variable"]

ALL_TIMES = "all"
MAX_LISTED = 20


def choose_variable(name: str, variables: Sequence[Variable], wanted: str | None) -> Variable:
    """The variable that is wanted, or the only one; else an error that lists them."""
    if wanted is None and len(variables) == 1:
        return variables[0]
    exact = [each for each in variables if each.name == wanted]
    if exact:
        return exact[0]
    inside = f"it has {_list([_describe(each) for each in variables])}"
    if wanted is None:
        raise _refuse(f"{name} holds {len(variables)} variables, and none was chosen: {inside}", variables)
    raise _refuse(f"{name} has no variable {show_text(wanted)!r}: {inside}", variables)


def choose_steps(name: str, variable: Variable, wanted: str | None) -> tuple[Step, ...]:
    """The time steps that are wanted, or the only one; else an error that lists them."""
    steps = variable.steps
    if wanted == ALL_TIMES or (wanted is None and len(steps) == 1):
        return steps
    if found := _match(steps, wanted):
        return found
    what = f"{show_text(variable.name)} of {name}"
    labels = [show_text(step.label) for step in steps if step.label]
    if not labels:
        raise Permanent(
            f"{what} has no time coordinate, so it has no time {show_text(wanted or '')!r}",
            code="raster.time",
            remedy="Omit `time`; set `datetime` to give the acquisition time.",
        )
    asked = f"has no time {show_text(wanted)!r}" if wanted else f"has {len(steps)} times, and none was chosen"
    raise Permanent(
        f"{what} {asked}: it has {_list(labels, last=True)}",
        code="raster.time",
        remedy=f"Set `time` to one of them, like `{labels[0]}`, or to `{ALL_TIMES}` for one item with a band for each.",
    )


def _match(steps: Sequence[Step], wanted: str | None) -> tuple[Step, ...]:
    if wanted is None:
        return ()
    if exact := tuple(step for step in steps if step.label == wanted and wanted):
        return exact
    moment = _parse(wanted)
    same = tuple(step for step in steps if moment is not None and step.moment == moment)
    return same if len(same) == 1 else ()


def _parse(text: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment


def _describe(variable: Variable) -> str:
    facts = [f"{variable.width} x {variable.height}", variable.dtype]
    if variable.unit:
        facts.append(show_text(variable.unit))
    if variable.title:
        facts.append(show_text(variable.title))
    labels = [step.label for step in variable.steps if step.label]
    if len(labels) > 1:
        facts.append(f"{len(labels)} times, {show_text(labels[0])} to {show_text(labels[-1])}")
    elif labels:
        facts.append(show_text(labels[0]))
    return f"{show_text(variable.name)} ({', '.join(facts)})"


def _list(texts: Sequence[str], *, last: bool = False) -> str:
    if len(texts) <= MAX_LISTED:
        return ", ".join(texts)
    end = f", the last is {texts[-1]}" if last else ""
    return f"{', '.join(texts[:MAX_LISTED])}, and {len(texts) - MAX_LISTED:,} more{end}"


def _refuse(message: str, variables: Iterable[Variable]) -> Permanent:
    first = show_text(next(iter(variables)).name)
    return Permanent(message, code="raster.variable", remedy=f"Set `variable` to one of them, like `{first}`.")
