"""Dependencies of routes, requested by type."""

import re
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Request, Security
from fastapi.openapi.models import HTTPBearer
from fastapi.openapi.models import SecurityBase as SecurityModel
from fastapi.security.base import SecurityBase

from anabranch.access import ANONYMOUS, NotAuthenticated, Principal, Scope
from anabranch.adapters.postgres.store.reads import PostgresReads
from anabranch.api.health.loop_beat import LoopBeat
from anabranch.api.health.monitor import Monitor
from anabranch.api.health.request_metrics import RequestCounts
from anabranch.api.security.limits import Limits
from anabranch.api.streaming.job_watcher import JobWatcher
from anabranch.errors import AnabranchError, InputError
from anabranch.gateway import Gateway
from anabranch.job_control import Controls
from anabranch.serving.subapps import Serving
from anabranch.settings import Settings

__all__ = [
    "Caller",
    "CurrentCaller",
    "CurrentControls",
    "CurrentGateway",
    "CurrentJobWatcher",
    "CurrentLimits",
    "CurrentMonitor",
    "CurrentReads",
    "CurrentRequests",
    "CurrentServing",
    "CurrentSettings",
    "CurrentTick",
    "GivenKey",
    "LoopBeat",
    "Needs",
    "needs",
    "read_key",
]

IDEMPOTENCY_KEY = r"[\x20-\x7e]{1,255}"


@dataclass(frozen=True)
class Caller:
    """Who calls, and the correlation id of this request."""

    principal: Principal
    correlation_id: str

    @property
    def name(self) -> str:
        """Who acts, as events and rows show it (P7)."""
        return self.principal.actor

    @property
    def platform(self) -> str:
        """The owner of what the caller makes: all keys of one platform share their jobs (E15)."""
        return self.principal.platform

    @property
    def scope(self) -> Scope:
        """What the caller may do."""
        return self.principal.scope

    @property
    def visible_platform(self) -> str | None:
        """The platform whose rows the caller may see; None: all."""
        return self.principal.visible_platform


def _state(name: str) -> Any:  # what FastAPI takes for a dependency
    async def get(request: Request) -> object:
        return getattr(request.app.state, name)

    return Depends(get)


async def get_caller(request: Request) -> Caller:
    """The authenticated caller (S1)."""
    return Caller(request.state.principal, request.state.correlation_id)


def read_key(request: Request) -> str | None:
    """The idempotency key of the request, if it has one."""
    given = request.headers.getlist("Idempotency-Key")
    if given and (len(given) > 1 or not re.fullmatch(IDEMPOTENCY_KEY, given[0])):
        raise InputError(
            "idempotency.key", "an Idempotency-Key must be one line of 1 to 255 printable ASCII characters"
        )
    return given[0] if given else None


async def _get_key(request: Request) -> str | None:
    return read_key(request)


CurrentGateway = Annotated[Gateway, _state("gateway")]
CurrentSettings = Annotated[Settings, _state("settings")]
CurrentMonitor = Annotated[Monitor, _state("monitor")]
CurrentRequests = Annotated[RequestCounts, _state("requests")]
CurrentLimits = Annotated[Limits, _state("limits")]
CurrentJobWatcher = Annotated[JobWatcher, _state("job_watcher")]
CurrentServing = Annotated[Serving, _state("serving")]
CurrentTick = Annotated[LoopBeat, _state("tick")]
CurrentCaller = Annotated[Caller, Depends(get_caller)]


async def _get_reads(gateway: CurrentGateway, caller: CurrentCaller) -> PostgresReads:
    return gateway.reads.seen_by(caller.visible_platform)


async def _get_controls(gateway: CurrentGateway, caller: CurrentCaller) -> Controls:
    return gateway.controls.seen_by(caller.visible_platform)


# What the caller may see, and control: others' jobs, items and files are not there.
CurrentReads = Annotated[PostgresReads, Depends(_get_reads)]
CurrentControls = Annotated[Controls, Depends(_get_controls)]
GivenKey = Annotated[str | None, Depends(_get_key)]


class Needs(SecurityBase):
    """Requires a scope; the OpenAPI document shows it."""

    model: SecurityModel = HTTPBearer(
        bearerFormat="anb_<id>_<secret>",
        description="An API key, or a token of the issuer that the operator configures. Each scope includes those "
        "before it: read, submit, operate, admin. On loopback no key is required, unless the operator configures it.",
    )
    scheme_name = "key"

    def __init__(self, scope: Scope) -> None:
        self.scope = scope

    async def __call__(self, caller: CurrentCaller) -> None:
        """Refuse a caller whose scope doesn't include this one."""
        if not caller.principal.scope.includes(self.scope):
            if caller.principal is ANONYMOUS:
                raise NotAuthenticated("auth.missing", f"this needs a key with the scope {self.scope}")
            raise AnabranchError(
                "auth.forbidden",
                f"this needs the scope {self.scope}, and the caller has {caller.principal.scope}",
                remedy=f"Use a key or a token with the scope {self.scope}.",
            )


def needs(scope: Scope) -> Any:  # what FastAPI takes for a dependency
    """The dependency of a route that requires this scope."""
    return Security(Needs(scope), scopes=[scope.value])
