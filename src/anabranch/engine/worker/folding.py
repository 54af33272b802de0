"""Folds the results of the nodes before a fan-in into its output."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from anabranch.canonical import Json, JsonObject
from anabranch.errors import Permanent
from anabranch.workflows.nodes import Folding
from anabranch.workflows.values import Fold

__all__ = ["fold_results"]


def fold_results(results: Iterable[Json], folding: Sequence[Folding], skipped: Sequence[str] = ()) -> JsonObject:
    """The output of a fan-in: how many tasks completed, how many failed if any did, and each folding by its name.

    Nodes that were skipped are named, if any were.
    """
    count, failed = 0, 0
    begun: JsonObject = {part.name: None for part in folding}
    for ended in results:
        if not isinstance(ended, Mapping) or ended["status"] != "completed":
            failed += 1
            continue
        count += 1
        for part in folding:
            begun[part.name] = _FOLD_STEPS[part.fold](begun[part.name], _pick(ended["result"], part), count == 1, part)
    empty: dict[Fold, Json] = {Fold.COLLECT: [], Fold.CONCAT: [], Fold.SUM: 0}
    folded = {part.name: begun[part.name] if count else empty.get(part.fold) for part in folding}
    more: JsonObject = {**({"failed": failed} if failed else {}), **({"skipped": list(skipped)} if skipped else {})}
    return {**folded, "count": count, **more}


def _pick(result: Json, part: Folding) -> Json:
    for key in part.field.split(".") if part.field else ():
        if not isinstance(result, Mapping) or key not in result:
            raise Permanent(f"a result has no {part.field!r} to {part.fold}", code="fan_in.missing")
        result = result[key]
    return result


def _collect(sofar: Json, value: Json, is_first: bool, _part: Folding) -> Json:
    kept: list[Json] = sofar if isinstance(sofar, list) and not is_first else []
    kept.append(value)
    return kept


def _concat(sofar: Json, value: Json, is_first: bool, part: Folding) -> Json:
    if not isinstance(value, list):
        raise Permanent(f"a result to concat into {part.name!r} is not an array", code="fan_in.type")
    kept: list[Json] = sofar if isinstance(sofar, list) and not is_first else []
    kept.extend(value)
    return kept


def _sum(sofar: Json, value: Json, is_first: bool, part: Folding) -> Json:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Permanent(f"a result to sum into {part.name!r} is not a number", code="fan_in.type")
    return value if is_first or not isinstance(sofar, int | float) else sofar + value


_FOLD_STEPS: dict[Fold, Callable[[Json, Json, bool, Folding], Json]] = {
    Fold.COLLECT: _collect,
    Fold.CONCAT: _concat,
    Fold.SUM: _sum,
    Fold.FIRST: lambda sofar, value, is_first, _: value if is_first else sofar,
    Fold.LAST: lambda _sofar, value, _is_first, _part: value,
}
