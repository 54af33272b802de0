"""The jobs of a campaign, drawn by its seed, with the exact result that each must have."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from random import Random

from anabranch.canonical import Json

__all__ = ["PlannedJob", "draw_job"]

PRIME = 1_000_003
LINKS = 6
KINDS = ("fan", "fan", "chain", "flaky", "steps", "bulk", "broken", "idle", "gate", "whole", "cleaned")


@dataclass(frozen=True)
class PlannedJob:
    """A job to submit, what is done to it (signal, cancel, fix) after some seconds, its result and its tasks."""

    workflow: str
    parameters: dict[str, Json]
    expected: Json
    tasks: int
    act: str = ""
    after: float = 0
    answer: int = 0


def draw_job(random: Random, number: int, folder: Path, kinds: tuple[str, ...] = KINDS) -> PlannedJob:
    """A job of a random kind; the number makes it one of its own."""
    numbers = [random.randrange(PRIME) for _ in range(random.choice((1, 3, 8, 8, 20)))]
    few = [number, *numbers[:5]]
    pause = random.choice((0, 0.01, 0.05, 0.3))
    kind = random.choice(kinds)
    workflow = f"campaign_{kind}"
    same: dict[str, Json] = {"number": number, "numbers": list[Json](numbers), "pause": pause}
    added: Json = {"add": {"value": sum(map(scramble, numbers)), "count": len(numbers)}}
    match kind:
        case "chain":
            links: list[Json] = [{"value": scramble(number + index)} for index in (0, 1)]
            return PlannedJob(workflow, same, {f"link{LINKS}": _all(links)}, 2 * LINKS)
        case "steps":
            values: list[Json] = [{"value": _walk(n)} for n in few]
            return PlannedJob(workflow, {**same, "numbers": list[Json](few)}, {"work": _all(values)}, len(few))
        case "bulk":
            digests: list[Json] = [_digest(number, index) for index in (0, 1)]
            return PlannedJob(workflow, same, {"read": {"value": digests}}, 3)
        case "broken":
            given = {**same, "file": str(folder / f"fixed-{number}")}
            return PlannedJob(workflow, given, added, len(numbers) + 1, act="fix")
        case "idle":
            given = {**same, "kind": random.choice(("plain", "heavy", "async"))}
            return PlannedJob(workflow, given, None, 0, act="cancel", after=random.uniform(0, 3))
        case "gate":
            output: Json = {"before": scramble(number), "after": scramble(numbers[0])}
            after = random.choice((0.0, 2.0))
            return PlannedJob(workflow, {"number": number}, output, 2, act="signal", after=after, answer=numbers[0])
        case "cleaned":
            ends = random.choice(("completed", "failed", "cancelled"))
            given = {"number": number, "ends": ends, "file": str(folder / f"fixed-{number}")}
            act = {"failed": "fix", "cancelled": "cancel"}.get(ends, "")
            value: Json = {"value": scramble(number)}
            tasks = 1 if act == "cancel" else 2
            return PlannedJob(workflow, given, value, tasks, act=act, after=random.uniform(0, 3))
        case "whole":
            total: Json = {"total": sum(map(scramble, few)), "count": len(few)}
            return PlannedJob(workflow, {"numbers": list[Json](few)}, total, len(few))
        case _:
            return PlannedJob(workflow, same, added, len(numbers) + 1)


def scramble(number: int) -> int:
    """As the handlers do it."""
    return (number * number + 7) % PRIME


def _all(items: list[Json]) -> Json:
    return {"items": items, "count": len(items), "failed": 0}


def _walk(value: int) -> int:
    for done in range(4):
        value = scramble(value + done)
    return value


def _digest(number: int, index: int) -> str:
    bulk = hashlib.shake_256(f"{number} {index}".encode()).hexdigest(600_000)
    return hashlib.sha256(bulk.encode()).hexdigest()
