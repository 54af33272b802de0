"""What routes ask for by type."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from anabranch.api.measure import Requests
from anabranch.api.monitor import Monitor
from anabranch.api.tick import Tick
from anabranch.app import Gateway
from anabranch.settings import Settings

__all__ = [
    "Caller",
    "CurrentCaller",
    "CurrentGateway",
    "CurrentMonitor",
    "CurrentRequests",
    "CurrentSettings",
    "CurrentTick",
]

LOCAL = "local"


@dataclass(frozen=True)
class Caller:
    """Who calls: the scope of their jobs, and the correlation id of this request."""

    scope: str
    correlation_id: str


async def get_gateway(request: Request) -> Gateway:
    """What the API serves from."""
    gateway: Gateway = request.app.state.gateway
    return gateway


async def get_settings(request: Request) -> Settings:
    """The settings of this process."""
    settings: Settings = request.app.state.settings
    return settings


async def get_tick(request: Request) -> Tick:
    """The beat of the event loop."""
    tick: Tick = request.app.state.tick
    return tick


async def get_monitor(request: Request) -> Monitor:
    """What this process watches."""
    monitor: Monitor = request.app.state.monitor
    return monitor


async def get_requests(request: Request) -> Requests:
    """The count of this process's requests."""
    requests: Requests = request.app.state.requests
    return requests


async def get_caller(request: Request) -> Caller:
    """The local principal: beyond loopback nobody gets this far (S1)."""
    return Caller(LOCAL, request.state.correlation_id)


CurrentGateway = Annotated[Gateway, Depends(get_gateway)]
CurrentSettings = Annotated[Settings, Depends(get_settings)]
CurrentMonitor = Annotated[Monitor, Depends(get_monitor)]
CurrentRequests = Annotated[Requests, Depends(get_requests)]
CurrentTick = Annotated[Tick, Depends(get_tick)]
CurrentCaller = Annotated[Caller, Depends(get_caller)]
