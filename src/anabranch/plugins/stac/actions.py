"""Handlers that take back what was published: thin wrappers of plain functions, each one transaction."""

from pydantic import Field

from anabranch import Context, handler
from anabranch.canonical import JsonObject
from anabranch.contract.catalog import ItemAct
from anabranch.errors import InputError
from anabranch.strict_model import StrictModel

__all__ = ["restore_item", "rollback_item", "unpublish_item"]


class ActionParams(StrictModel):
    """An item, why it is changed, and the number of the publication that the caller saw last."""

    collection: str
    item: str
    reason: str = Field(min_length=1, max_length=1000)
    expected: int | None = Field(None, ge=1)
    dry_run: bool = True


class UnpublishParams(ActionParams):
    """The same, and a confirmation of what is no dry run."""

    confirm: bool = False


class RollbackParams(ActionParams):
    """The same, and the number to roll back to; without one, what was shown before."""

    number: int | None = Field(None, ge=1)


class ActionResult(StrictModel):
    """The action, and the number that it has, or would have."""

    collection: str
    item: str
    action: str
    number: int
    dry_run: bool
    objects: int
    bytes: int
    files: list[JsonObject]


@handler("stac.unpublish_item", timeout_seconds=120)
def unpublish_item(params: UnpublishParams, ctx: Context) -> ActionResult:
    """Withdraw an item: readers no longer see it; it can be restored for a while. A dry run changes nothing."""
    if not (params.dry_run or params.confirm):
        what = f"this takes {params.collection}/{params.item} away from its readers"
        raise InputError("request.unconfirmed", what, remedy="Look at a dry run first; then set `confirm` to true.")
    return _act("withdraw", params, ctx)


@handler("stac.restore_item", timeout_seconds=120)
def restore_item(params: ActionParams, ctx: Context) -> ActionResult:
    """Show an item again as it was before it was withdrawn."""
    return _act("restore", params, ctx)


@handler("stac.rollback_item", timeout_seconds=120)
def rollback_item(params: RollbackParams, ctx: Context) -> ActionResult:
    """Show what a former publication of an item showed."""
    return _act("rollback", params, ctx, params.number)


def _act(action: ItemAct, params: ActionParams, ctx: Context, number: int | None = None) -> ActionResult:
    from anabranch.plugins.stac.catalog import By, act, run  # late: only this needs a database

    with ctx.catalog() as connection:
        done = act(
            connection, action, params.collection, params.item, By(job_id=ctx.job_id, reason=params.reason),
            number=number, expected=params.expected, dry_run=params.dry_run,
            attempt=(ctx.node_id, ctx.fence) if ctx.fence else None,
        )  # fmt: skip
        ((files,),) = run(connection, "list_files", publication=done.source)
    return ActionResult(
        collection=done.collection, item=done.item, action=done.action, number=done.number, dry_run=params.dry_run,
        objects=len(files), bytes=sum(file["size"] for file in files), files=files,
    )  # fmt: skip
