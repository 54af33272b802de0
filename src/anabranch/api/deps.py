"""What routes ask for by type."""

import asyncio
import time
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from anabranch.api.lookout import Lookout
from anabranch.app import Gateway
from anabranch.settings import Settings

__all__ = ["Caller", "CurrentCaller", "CurrentGateway", "CurrentLookout", "CurrentSettings", "CurrentTick", "Tick"]

LOCAL = "local"


class Tick:
    """The event loop's own beat."""

    EVERY = 0.5

    def __init__(self) -> None:
        """It has just ticked."""
        self._at = time.monotonic()

    @property
    def age(self) -> float:
        """Seconds since the last tick."""
        return time.monotonic() - self._at

    async def run(self) -> None:
        """Tick until cancelled."""
        while True:
            self._at = time.monotonic()
            await asyncio.sleep(self.EVERY)


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


async def get_lookout(request: Request) -> Lookout:
    """The watch over jobs that callers stream."""
    lookout: Lookout = request.app.state.lookout
    return lookout


async def get_caller(request: Request) -> Caller:
    """The local principal: beyond loopback nobody gets this far (S1)."""
    return Caller(LOCAL, request.state.correlation_id)


CurrentGateway = Annotated[Gateway, Depends(get_gateway)]
CurrentSettings = Annotated[Settings, Depends(get_settings)]
CurrentLookout = Annotated[Lookout, Depends(get_lookout)]
CurrentTick = Annotated[Tick, Depends(get_tick)]
CurrentCaller = Annotated[Caller, Depends(get_caller)]
