"""The applications at `/stac`, `/raster` and `/features`, made with libraries of the field at their first request."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from importlib import import_module

import structlog
from starlette.types import ASGIApp, Receive, Scope, Send

from anabranch.adapters.postgres.store.reads import PostgresReads
from anabranch.errors import Unavailable
from anabranch.releases.drafts import Drafts
from anabranch.serving.features.layers import Layers
from anabranch.serving.objects import Objects
from anabranch.serving.published import Published
from anabranch.serving.stac.pool import Catalog
from anabranch.serving.tiles.assets import Assets
from anabranch.serving.tiles.drivers import close_drivers

__all__ = ["Serving", "SubApp"]

log = structlog.get_logger()

# One warns about missing variables, the other logs every file that it opens.
NOISY_LOGGERS = ("stac_fastapi.types.config", "titiler.core.factory")


class SubApp:
    """An application under a path, created when it is first needed: its imports take seconds."""

    def __init__(self, path: str, make: Callable[[], Awaitable[ASGIApp]]) -> None:
        """Nothing is created yet."""
        self._path = path
        self._make = make
        self._making: asyncio.Task[ASGIApp] | None = None

    def warm(self) -> None:
        """Start to create it, for a later request."""
        if self._making is None or (self._making.done() and _failed(self._making)):
            self._making = asyncio.create_task(self._try())

    async def close(self) -> None:
        """Wait while it is being created: a thread that imports can't be stopped."""
        if self._making:
            await asyncio.wait([self._making])
            _failed(self._making)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, as soon as the application exists."""
        self.warm()
        assert self._making is not None  # noqa: S101  # for the types
        app = await asyncio.shield(self._making)
        # The parent router's entries would end up in links.
        inherited = {name: value for name, value in scope.items() if name not in ("router", "route", "endpoint", "app")}
        root = scope.get("root_path", "") + self._path
        path = f"{root}/" if scope["path"] == root else scope["path"]
        place = {"root_path": root, "app_root_path": root, "path": path, "path_params": {}}
        await app({**inherited, **place}, receive, send)

    async def _try(self) -> ASGIApp:
        try:
            app = await self._make()
        except ImportError as error:
            raise Unavailable(
                "serving.not_installed",
                f"the packages that serve {self._path} are not installed: {error}",
                remedy="Install anabranch[serving].",
            ) from error
        log.info("serving.loaded", path=self._path)
        return app


class Serving:
    """The STAC API and the tile server, which share one pool of connections, and the features API with its own."""

    def __init__(
        self,
        catalog: Catalog,
        layers: Layers,
        published: Published,
        objects: Objects,
        drafts: Drafts,
        reads: PostgresReads,
        *,
        draws_in_place: bool,
        owns_process: bool,
    ) -> None:
        """Nothing is imported yet. In a process of its own it closes GDAL's drivers, for all that run in it."""
        self.published = published
        self.objects = objects
        self._catalog = catalog
        self._layers = layers
        self._drafts = drafts
        self._reads = reads
        self._draws_in_place = draws_in_place
        self._owns_process = owns_process
        self._importing = asyncio.Lock()
        self.stac = SubApp("/stac", self._make_stac)
        self.raster = SubApp("/raster", self._make_raster)
        self.features = SubApp("/features", self._make_features)

    def warm(self) -> None:
        """Start to load what a page will request."""
        self.stac.warm()
        self.raster.warm()

    async def close(self) -> None:
        """Close the connections."""
        await self.stac.close()
        await self.raster.close()
        await self.features.close()
        await self._catalog.close()
        await self._layers.close()

    async def _make_stac(self) -> ASGIApp:
        await self._import("anabranch.serving.stac.api")
        from anabranch.serving.stac import api as stac

        await self._catalog.open()
        return stac.make_stac(self._catalog, self.published, draws_in_place=self._draws_in_place)

    async def _make_raster(self) -> ASGIApp:
        if self._owns_process:
            await asyncio.to_thread(close_drivers)
        await self._import("anabranch.serving.tiles.routes")
        from anabranch.serving.tiles import routes as raster
        from anabranch.serving.tiles.layers.items import LayerItems

        await self._catalog.open()
        assets = Assets(self._catalog, self.published, self.objects, draws_in_place=self._draws_in_place)
        return raster.make_raster(assets, LayerItems(self._catalog, assets), self._drafts, self._reads)

    async def _make_features(self) -> ASGIApp:
        await self._import("anabranch.serving.features.api")
        from anabranch.serving.features import api as features

        await self._layers.open()
        return features.make_features(self._layers)

    async def _import(self, name: str) -> None:
        for logger in NOISY_LOGGERS:
            logging.getLogger(logger).setLevel(logging.ERROR)
        async with self._importing:  # two imports at once would only wait for each other's locks
            await asyncio.to_thread(import_module, name)


def _failed(task: asyncio.Task[ASGIApp]) -> bool:
    return task.cancelled() or task.exception() is not None
