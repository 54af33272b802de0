"""The status of each part of the stack, from its vital signs: what is wrong, since when, and what to do."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from anabranch.adapters.postgres.schema.pgstac import Catalog
from anabranch.contract.stack import Status
from anabranch.durations import spell_duration
from anabranch.engine.read_models import ClockStep, Duty, OpenBreaker, StuckJobs, Trouble, Vitals
from anabranch.errors import AnabranchError

__all__ = [
    "Onsets",
    "Part",
    "diagnose",
    "diagnose_catalog",
    "diagnose_disk",
    "diagnose_issuer",
    "diagnose_jobs",
    "diagnose_loop",
    "diagnose_plugins",
    "worst",
]

WORST_FIRST: tuple[Status, ...] = ("down", "degraded", "ok")
LATE_TICK_SECONDS, OLDEST_TICK_SECONDS = 2.0, 10.0
WORKERS_DUTIES = frozenset({"clearing"})
DUTY_PURPOSES = {
    "clearing": "removes work files of ended jobs",
    "retention": "removes old jobs",
    "sweeper": "finds dead processes and due timers",
    "watcher": "looks at the folders that schedules watch",
}
SLOW_DATABASE_SECONDS = 0.5
LASTING_SECONDS = 300.0
MAX_DETAIL_CHARS = 500
RECENT_STEP_SECONDS = 3600.0
LONG_HORIZON_SECONDS = 3_600.0
LATE_RIGHT_SECONDS, LOST_RIGHT_SECONDS = 10.0, 60.0
START_REMEDY = "Start it with `anabranch up`, or one more with `anabranch {}`; its log says why it ended."


@dataclass(frozen=True)
class Part:
    """A part of the stack and its status; `since` is when the API first saw this status."""

    name: str
    status: Status
    detail: str
    remedy: str = ""
    since: datetime | None = None


class Onsets:
    """Remembers since when each part has had its status."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[Status, datetime]] = {}

    def date(self, parts: Iterator[Part]) -> list[Part]:
        """The parts, each with the time since which it has had its status; one that is gone is forgotten."""
        now = datetime.now(UTC)
        dated = [replace(part, since=self._since(part, now)) for part in parts]
        self._seen = {part.name: (part.status, part.since or now) for part in dated}
        return dated

    def _since(self, part: Part, now: datetime) -> datetime:
        status, since = self._seen.get(part.name, (None, now))
        return since if status == part.status else now


def worst(parts: list[Part]) -> Status:
    """The worst status of all parts."""
    return next(status for status in WORST_FIRST if any(part.status == status for part in parts))


def diagnose_loop(tick_age: float, *, has_session: bool) -> Part:
    """The API itself: its event loop, and the session that it submits under."""
    detail = f"the event loop ticked {tick_age:.1f} s ago"
    if tick_age > OLDEST_TICK_SECONDS:
        return Part("api", "down", detail, "Restart the API.")
    if not has_session:
        return Part("api", "down", "it has no session with the database", "It begins one when the database answers.")
    if tick_age > LATE_TICK_SECONDS:
        return Part("api", "degraded", detail, "It is overloaded: run a second API process, or send fewer requests.")
    return Part("api", "ok", detail)


def diagnose(vitals: Vitals | AnabranchError, took: float) -> Iterator[Part]:
    """The parts that the database knows of; `took` is how many seconds its answer took."""
    if isinstance(vitals, AnabranchError):
        yield Part("database", "down", vitals.code, vitals.remedy)
        for name in ("orchestrators", "workers", "sweeper"):
            yield Part(name, "down", "unknown: the database doesn't answer", "See the part database.")
        return
    slow = took > SLOW_DATABASE_SECONDS
    remedy = "Look for long transactions, a full disk or a lack of memory on its machine." if slow else ""
    yield Part("database", "degraded" if slow else "ok", f"it answered in {took * 1000:.0f} ms", remedy)
    yield _count("orchestrators", vitals.orchestrators, "down", START_REMEDY.format("orchestrator"))
    yield _count("workers", vitals.workers, "degraded", START_REMEDY.format("worker"))
    for name in sorted({"sweeper", *vitals.duties}):
        yield _diagnose_duty(name, vitals.duties.get(name))
    if vitals.clock_step and vitals.clock_step.age_seconds < RECENT_STEP_SECONDS:
        yield _diagnose_clock(vitals.clock_step)
    yield _diagnose_rights(vitals)
    yield _diagnose_connections(vitals)
    yield _diagnose_schema(vitals)
    yield _diagnose_vacuum(vitals)
    yield from _diagnose_queues(vitals)
    if vitals.breakers:
        yield _diagnose_breakers(vitals.breakers)
    if vitals.missing_handlers:
        yield _diagnose_handlers(vitals.missing_handlers)
    if lasting := [trouble for trouble in vitals.troubles if trouble.age_seconds > LASTING_SECONDS]:
        yield _diagnose_troubles(lasting)


def diagnose_jobs(stuck: StuckJobs | AnabranchError) -> Part:
    """Whether any job is stuck; there should never be one (E1)."""
    if isinstance(stuck, AnabranchError):
        return Part("jobs", "degraded", "unknown: the stuck jobs can't be read", "See the part database.")
    if stuck.job_ids:
        some = ", ".join(job_id[:12] for job_id in stuck.job_ids)
        remedy = "It is a bug in Anabranch: report it with `anabranch events`; cancel the job and submit it again."
        return Part("jobs", "degraded", f"nothing will advance these jobs: {some}", remedy)
    return Part("jobs", "ok", "none is stuck")


def diagnose_issuer(problem: AnabranchError) -> Part:
    """The issuer of tokens, whose keys could not be fetched; those that are known are still used."""
    return Part("issuer", "degraded", problem.message[:MAX_DETAIL_CHARS], problem.remedy)


def diagnose_plugins(refused: Mapping[str, str]) -> Part:
    """Whether everything that plugins bring can be used; `refused` says what can't, and why."""
    if not refused:
        return Part("plugins", "ok", "none was refused")
    detail = "; ".join(f"{name} was refused: {reason}" for name, reason in refused.items())
    remedy = "Fix the file, or ANABRANCH_PLUGINS; then restart the stack, unless it runs with `up --reload`."
    return Part("plugins", "degraded", detail[:MAX_DETAIL_CHARS], remedy)


def diagnose_catalog(catalog: Catalog | AnabranchError) -> Part:
    """Whether the catalog works; a missing catalog is fine, a broken one is not."""
    if isinstance(catalog, AnabranchError):
        return Part("catalog", "degraded", "unknown: the catalog can't be read", "See the part database.")
    if catalog.current:
        return Part("catalog", "ok", str(catalog))
    detail = f"nothing can be published: {catalog.problem}"
    return Part("catalog", "degraded" if catalog.pgstac else "ok", detail, catalog.remedy)


def diagnose_disk(name: str, free: int | None, low: int) -> Part:
    """The free space of a folder, in bytes."""
    if free is None:
        return Part(name, "down", "its free space can't be read", "Check that the disk works and the folder exists.")
    detail = f"{free / 1e9:.1f} GB free" if free >= 1e9 else f"{free / 1e6:.0f} MB free"
    if free >= low:
        return Part(name, "ok", detail)
    return Part(name, "down" if free < low / 10 else "degraded", detail, "Make room, or enlarge the disk.")


def _count(name: str, alive: int, none: Status, remedy: str) -> Part:
    return Part(name, "ok", f"{alive} alive") if alive else Part(name, none, "none is alive", remedy)


def _diagnose_duty(name: str, duty: Duty | None) -> Part:
    by = "worker" if name in WORKERS_DUTIES else "orchestrator"
    worst: Status = "degraded" if name in WORKERS_DUTIES else "down"
    remedy = f"The {by}s do it; see the part {by}s and their logs."
    purpose = f"{DUTY_PURPOSES[name]}; " if name in DUTY_PURPOSES else ""
    if duty is None:
        return Part(name, worst, f"{purpose}it has never ticked", remedy)
    age, every = spell_duration(round(duty.age_seconds)), spell_duration(duty.every_seconds)
    detail = f"{purpose}last tick {age} ago, due every {every}"
    served = duty.age_seconds if duty.served_seconds is None else duty.served_seconds
    if served > 3 * duty.every_seconds + 5:
        return Part(name, worst, detail, remedy)
    if duty.trouble:
        fails = "; ".join(f"{act} fails: {reason}" for act, reason in sorted(duty.trouble.items()))
        return Part(name, "degraded", f"{fails[:MAX_DETAIL_CHARS]}; {detail}", f"See the logs of the {by}s.")
    return Part(name, "ok", detail)


def _diagnose_clock(step: ClockStep) -> Part:
    detail = f"the database server's clock stepped by {step.step_seconds:+.0f} s; timers were moved with it"
    return Part("clock", "degraded", detail, "Let the server's clock follow NTP, by slewing and not by steps.")


def _diagnose_rights(vitals: Vitals) -> Part:
    age = vitals.oldest_right_seconds
    if age is None or age < LATE_RIGHT_SECONDS:
        return Part("advances", "ok", "jobs move on when their tasks end")
    detail = f"{vitals.untaken_rights} steps of jobs wait to be taken, the oldest for {spell_duration(round(age))}"
    status: Status = "down" if age > LOST_RIGHT_SECONDS else "degraded"
    return Part("advances", status, detail, "Start one more orchestrator, or see the logs of those that run.")


def _diagnose_connections(vitals: Vitals) -> Part:
    budget, most = vitals.max_connections // 2, vitals.max_connections
    detail = f"{vitals.connections} here and {vitals.all_connections} in all, of {most} that the server allows"
    if vitals.connections <= budget and vitals.all_connections <= 0.9 * most:
        return Part("connections", "ok", detail)
    remedy = f"Run fewer processes, or raise the server's max_connections to {2 * vitals.all_connections} or more."
    return Part("connections", "degraded", f"{detail}; ours should be at most {budget}", remedy)


def _diagnose_schema(vitals: Vitals) -> Part:
    detail = f"release {vitals.release or 'none'} is deployed, this is {vitals.our_release}"
    if vitals.release == vitals.our_release:
        return Part("schema", "ok", detail)
    if vitals.release and vitals.release > vitals.our_release:
        return Part("schema", "degraded", detail, "Upgrade the processes that are still of the earlier release.")
    return Part("schema", "degraded", detail, "Run `anabranch db migrate`.")


def _diagnose_vacuum(vitals: Vitals) -> Part:
    held = vitals.horizon
    if held is None or held.seconds < LONG_HORIZON_SECONDS:
        return Part("vacuum", "ok", "no transaction or replication slot has kept dead rows for an hour")
    detail = f"{held.holder} has kept dead rows from being removed for {held.seconds / 3600:.1f} h"
    return Part("vacuum", "degraded", detail, "End that transaction, or drop the slot: tasks cost more until then.")


def _diagnose_queues(vitals: Vitals) -> Iterator[Part]:
    for queue, ready in sorted(vitals.queues.items()):
        workers = vitals.served.get(queue, 0)
        detail = f"{ready} tasks are ready, {workers} workers serve it"
        if workers:
            yield Part(f"queue {queue}", "ok", detail)
        else:
            remedy = f"Start a worker whose plugins have a handler of queue {queue}: `anabranch worker`."
            yield Part(f"queue {queue}", "degraded", detail, remedy)


def _diagnose_breakers(opened: Sequence[OpenBreaker]) -> Part:
    some = "; ".join(
        f"the breaker of {one.kind} {one.name} is open for {one.open_seconds:.0f} s: {one.message}" for one in opened
    )
    remedy = "Fix what is outside; then one task closes it, and waiting tasks continue by themselves."
    return Part("breakers", "degraded", some[:MAX_DETAIL_CHARS], remedy)


def _diagnose_handlers(missing: Mapping[str, int]) -> Part:
    some = ", ".join(f"{handler} ({tasks} tasks)" for handler, tasks in sorted(missing.items()))
    remedy = (
        "Install the plugin that brings it where the workers run, or name it in ANABRANCH_PLUGINS; then restart them."
    )
    return Part("handlers", "degraded", f"workers lack {some}", remedy)


def _diagnose_troubles(lasting: Sequence[Trouble]) -> Part:
    first = lasting[0]
    more = f", and {len(lasting) - 1} more" if len(lasting) > 1 else ""
    detail = f"{first.who} could not go on for {first.age_seconds / 60:.0f} minutes: {first.trouble}{more}"
    return Part("troubles", "degraded", detail, "Fix the cause; waiting work then continues by itself.")
