"""Prepares orders of partners: checks what they say, and says which job they would become."""

from collections.abc import Awaitable, Callable, Container, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass

from anabranch.canonical import JsonObject, canonical, sha256
from anabranch.contract.platform import Platform
from anabranch.engine.submitting.submission import Submission
from anabranch.errors import Conflict, InputError, NotFound
from anabranch.outbound.url import Target, read_url
from anabranch.platform.action_by import ActionBy
from anabranch.platform.identity import Identity, identify
from anabranch.platform.notifications.webhooks import Callback, Webhooks
from anabranch.platform.orders import InvalidOrder, PlatformOrder
from anabranch.plugins.storage.kinds import kind_of_name
from anabranch.storage.addresses import Address, parse_address
from anabranch.storage.locations import require_tier
from anabranch.storage.read_access import ReadRights, require_readable
from anabranch.workflows.stages import Declaration

__all__ = ["DECIDED_INPUTS", "OrderPreparation", "Prepared"]

# What an order says itself, or what would publish something else than its release.
DECIDED_INPUTS = {"approval", "dry_run", "expected", "item_id", "source", "table", "tile_items", "title"}
RELEASE_EVENTS = ("release.*",)
FindNewRights = Callable[[str, Address], Awaitable[ReadRights]]
ORDER_INPUTS = ("source", "collection", "item_id")


@dataclass(frozen=True)
class Prepared:
    """An order that was checked: what it names, and the job that it would become."""

    platform: Platform
    identity: Identity
    workflow: str
    parameters: JsonObject
    submission: Submission
    order: JsonObject
    made_secret: str | None


@dataclass(frozen=True)
class _Checked:
    """What an order names, the inputs of its workflow as given and as checked, and where its callback leads."""

    identity: Identity
    data_type: str
    workflow: str
    given: JsonObject
    inputs: JsonObject
    target: Target | None


class OrderPreparation:
    """Checks orders against their platform, the workflows and where their callbacks lead."""

    def __init__(self, webhooks: Webhooks, find: Callable[[str], Declaration], rights: FindNewRights) -> None:
        """`find` gives the declaration of a workflow, and `rights` what a new job of a platform may read."""
        self._webhooks = webhooks
        self._find = find
        self._find_rights = rights

    async def prepare(self, order: PlatformOrder, platform: Platform, by: ActionBy, *, again: bool) -> Prepared:
        """The job that an order of a platform would become; InvalidOrder with all mistakes where there are several."""
        if platform.retired:
            raise Conflict("platform.retired", f"platform {platform.id} takes no more orders")
        checked = await self._check(order, platform)
        identity, workflow, parameters = checked.identity, checked.workflow, checked.given
        declared = self._find(workflow)
        callbacks, made_secret = self._seal_callback(order, checked.target)
        submission = Submission(
            declared.workflow, checked.inputs, platform.id, declared.workflow.priority, True,
            by.correlation_id, None, begins=True, parts=declared.parts, by=by.actor, callbacks=callbacks,
            labels={"platform": platform.id, "release": identity.release_id}, by_scope=by.scope,
        ).sound().require_own_uploads()  # fmt: skip
        row: JsonObject = {
            **asdict(identity),
            "data_type": checked.data_type,
            "collection": str(parameters["collection"]),
            "item_id": identity.item_id,
            "title": order.title,
            "description": order.description,
            "tags": list(order.tags),
            "clearance": order.clearance,
            "approval_required": _needs_approval(order, platform),
            "order_hash": _hash(workflow, parameters, order),
            "settings_at": platform.changed_at.isoformat(),
            "overwrite": order.overwrite,
            "reprocess": order.reprocess,
            "again": again,
            "body": order.body,
            "actor": by.actor,
            "correlation_id": by.correlation_id,
        }
        return Prepared(platform, identity, workflow, parameters, submission, row, made_secret)

    async def _check(self, order: PlatformOrder, platform: Platform) -> _Checked:
        wrong: list[InputError] = []
        identity = identify(platform.id, (), (), None, {})  # the rest is checked with this one if that is refused
        with _collect(wrong):
            identity = identify(
                platform.id, platform.required_refs, platform.optional_refs, platform.version_ref, order.refs
            )
        with _collect(wrong):
            _refuse_decided(order.options)
        data_type, workflow, given, inputs = "", "", JsonObject(), JsonObject()
        with _collect(wrong):
            data_type, workflow = _choose_workflow(order, platform)
            declared, needs_approval = self._find(workflow), _needs_approval(order, platform)
            known = declared.workflow.inputs or {}
            with _collect(wrong):
                _require_gate(workflow, known, needs_approval=needs_approval)
            with _collect(wrong):
                if "source" in known and known["source"].format == "address":
                    await self._require_readable(order.source, platform.id)
            given = _give(order, data_type, identity, known, needs_approval=needs_approval)
            inputs = declared.check(given)
        target = None
        with _collect(wrong):
            target = await self._find_target(order)
        if wrong:
            raise wrong[0] if len(wrong) == 1 else InvalidOrder(wrong)
        return _Checked(identity, data_type, workflow, given, inputs, target)

    async def _require_readable(self, source: str, platform: str) -> None:
        """Refuse a source that no job of the platform may read, whether it exists or not; InvalidOrder for one that is
        in no tier."""
        try:
            require_tier(source)
        except InputError as error:
            raise InvalidOrder([error]) from error
        try:
            at = parse_address(source)
        except InputError:  # a mistake in the inputs of the workflow
            return
        require_readable(platform, at, await self._find_rights(platform, at))

    async def _find_target(self, order: PlatformOrder) -> Target | None:
        """Where the callback leads; InvalidOrder if it may not be called."""
        if order.callback_url is None:
            return None
        hosts = await self._webhooks.exempt_hosts(order.platform)
        try:
            return read_url(order.callback_url, hosts)
        except InputError as error:
            raise InvalidOrder([error]) from error

    def _seal_callback(self, order: PlatformOrder, target: Target | None) -> tuple[tuple[JsonObject, ...], str | None]:
        """The callback as it is stored, and its secret if the order gave none."""
        if target is None or order.callback_url is None:
            return (), None
        given = order.callback_secret.get_secret_value() if order.callback_secret else None
        secret = given or self._webhooks.derive_secret(order.platform, order.callback_url)
        callback = Callback(
            order.callback_url, secret, RELEASE_EVENTS,
            timeout_seconds=order.callback_timeout_seconds, retries=order.callback_retries,
        )  # fmt: skip
        return (self._webhooks.seal(order.platform, callback, target),), None if given else secret

    def check_workflows(self, workflows: Iterable[str], *, needs_approval: bool) -> None:
        """Check that each workflow takes what orders give it; InputError names the first that does not."""
        for workflow in workflows:
            try:
                inputs = self._find(workflow).workflow.inputs or {}
            except NotFound as error:
                raise InputError("platform.workflow", error.message) from error
            if missing := [name for name in ORDER_INPUTS if name not in inputs]:
                said = f"workflow {workflow} has no input {', '.join(missing)}, which orders give"
                raise InputError("platform.workflow", said)
            _require_gate(workflow, inputs, needs_approval=needs_approval)


def _hash(workflow: str, parameters: JsonObject, order: PlatformOrder) -> str:
    """The same for orders that ask for the same."""
    said: JsonObject = {"description": order.description, "tags": list(order.tags), "clearance": order.clearance}
    more = {name: value for name, value in said.items() if value}
    return sha256(canonical({"workflow": workflow, "parameters": parameters, **more}))


def _needs_approval(order: PlatformOrder, platform: Platform) -> bool:
    return bool(order.approval) or platform.approval != "none"


@contextmanager
def _collect(wrong: list[InputError]) -> Iterator[None]:
    try:
        yield
    except InputError as error:
        wrong.append(error)


def _choose_workflow(order: PlatformOrder, platform: Platform) -> tuple[str, str]:
    """The type of the order's data, and the workflow that the platform has for it."""
    data_type = order.data_type or _data_type(order.source)
    workflow = platform.workflows.get(data_type or "")
    if data_type is None or workflow is None:
        known = ", ".join(platform.workflows)
        said = f"platform {platform.id} takes {known}, and {order.source} is {data_type or 'of no known type'}"
        raise InputError("platform.data_type", said)
    return data_type, workflow


def _refuse_decided(options: Iterable[str]) -> None:
    if taken := sorted(DECIDED_INPUTS.intersection(options)):
        raise InputError("platform.options", f"the options of an order can't have {', '.join(taken)}")


def _give(
    order: PlatformOrder, data_type: str, identity: Identity, inputs: Container[str], *, needs_approval: bool
) -> JsonObject:
    """The inputs of the workflow: the order's options, and what the release decides."""
    decided: JsonObject = {
        "source": order.source,
        "item_id": identity.item_id,
        "table": identity.table,
        "title": order.title,
        "approval": needs_approval,
    }
    mine = {name: value for name, value in decided.items() if name in inputs and value is not None}
    options = {name: value for name, value in order.options.items() if name not in DECIDED_INPUTS}
    return {"collection": f"{order.platform}-{data_type}", **options, **mine}


def _require_gate(workflow: str, inputs: Container[str], *, needs_approval: bool) -> None:
    if needs_approval and "approval" not in inputs:
        said = f"an approval is asked for, and workflow {workflow} has no input `approval`"
        raise InputError("platform.no_gate", said)


def _data_type(source: str) -> str | None:
    """A type of data by the extension of its file; an archive holds vectors more often than not."""
    kind = kind_of_name(source)
    return {"raster": "raster", "vector": "vector", "archive": "vector"}.get(kind or "")
