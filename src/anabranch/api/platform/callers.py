"""Who calls, as the platform knows them."""

from anabranch.api.deps import Caller
from anabranch.platform.action_by import ALL_PLATFORMS, ActionBy

__all__ = ["act_as", "platform_filter"]


def platform_filter(caller: Caller) -> str:
    """What a caller sees of platforms: their own; an admin all of them (S1)."""
    return ALL_PLATFORMS if caller.visible_platform is None else caller.platform


def act_as(caller: Caller, reason: str | None = None) -> ActionBy:
    """Who acts: the authenticated principal, whatever the body says (P7)."""
    return ActionBy(platform_filter(caller), caller.name, reason, caller.correlation_id, caller.scope)
