"""The HTTP application."""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

from fastapi import APIRouter, FastAPI
from starlette.routing import Match

from anabranch.access import asks_for_keys
from anabranch.adapters.postgres.server.url import configured_url
from anabranch.api.answers.compression import Compression
from anabranch.api.answers.errors import add_handlers
from anabranch.api.answers.head import HeadByGet
from anabranch.api.health.loop_beat import LoopBeat
from anabranch.api.health.loop_errors import LoopErrors
from anabranch.api.health.memory_limit import limit_memory
from anabranch.api.health.monitor import Monitor
from anabranch.api.health.request_metrics import RequestCounts, RequestMetrics
from anabranch.api.ogc import routes as processes
from anabranch.api.pages import admin, approvals, assets, data, job, overview, submit
from anabranch.api.pages import files as page_files
from anabranch.api.pages import jobs as job_list
from anabranch.api.pages import schedules as schedule_pages
from anabranch.api.pages import webhooks as webhook_pages
from anabranch.api.pages import workers as worker_pages
from anabranch.api.pages import workflows as workflow_pages
from anabranch.api.pages.rendering import show_missing
from anabranch.api.platform import orders, platforms, previews, releases
from anabranch.api.request_traces import RequestTraces
from anabranch.api.routes import (
    bulk,
    catalog,
    control,
    events,
    files,
    graphs,
    handlers,
    insight,
    items,
    jobs,
    keys,
    reference,
    schedules,
    uploads,
    webhooks,
    workflows,
)
from anabranch.api.routes.operations import database, health, limits, metrics, workers
from anabranch.api.routes.operations import settings as setting_routes
from anabranch.api.security.authentication import Authenticator
from anabranch.api.security.connection_limits import Bounds
from anabranch.api.security.cors import ReadersCors
from anabranch.api.security.hang_guard import HangGuard
from anabranch.api.security.limits import Limits
from anabranch.api.security.outer_middleware import Admission
from anabranch.api.security.public_address import AllowedHosts, PublicAddress
from anabranch.api.security.public_reads import PublicReads
from anabranch.api.stop_signals import on_stop_signal
from anabranch.api.streaming.job_watcher import JobWatcher
from anabranch.app import CATALOG_CONNECTIONS, FEATURES_CONNECTIONS, open_tracer
from anabranch.engine.ports import NO_TRACER, Tracer
from anabranch.errors import InputError
from anabranch.gateway import Gateway
from anabranch.logs import configure_logs
from anabranch.oidc.tokens import Tokens
from anabranch.serving.features.layers import Layers
from anabranch.serving.objects import TierObjects
from anabranch.serving.stac.pool import Catalog
from anabranch.serving.subapps import Serving
from anabranch.settings import Settings, load_settings

__all__ = ["app_from_environment", "create_app"]

# For all applications of a process: what FastAPI derives from them takes a quarter of a second.
ROUTES = APIRouter(generate_unique_id_function=lambda route: route.name)
for _module in (
    catalog,  # the first that is tried: a map asks for dozens of tiles at once
    jobs,
    bulk,
    control,
    events,
    uploads,
    graphs,
    insight,
    workflows,
    processes,
    limits,
    handlers,
    workers,
    keys,
    webhooks,
    schedules,
    database,
    health,
    metrics,
    setting_routes,
    items,
    orders,
    releases,
    previews,
    platforms,
    reference,
    files,
    page_files,
    data,
    overview,
    job_list,
    workflow_pages,
    submit,
    approvals,
    assets,
    schedule_pages,
    webhook_pages,
    worker_pages,
):
    ROUTES.include_router(_module.router)
for _router in (*job.routers, *admin.routers):
    ROUTES.include_router(_router)


def create_app(
    settings: Settings,
    database_url: str,
    on_refused: Callable[[], None] = lambda: None,
    *,
    owns_process: bool = True,
    tracer: Tracer = NO_TRACER,
) -> FastAPI:
    """The application over the database at this URL, which need not be up yet.

    `on_refused` is called if its storage differs from that of the database's other processes. An application that owns
    its process closes the drivers of GDAL that it does not need before it opens rasters, for the whole process (S4).
    """

    tokens = Tokens(settings.oidc) if settings.oidc.issuer else None

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[Mapping[str, object]]:
        asyncio.get_running_loop().set_exception_handler(LoopErrors())
        app.state.gateway = Gateway(settings, database_url, on_refused)
        app.state.monitor = Monitor(app.state.gateway, app.state.tick, tokens)
        await app.state.gateway.open()
        app.state.serving = _serving(settings, database_url, app.state.gateway, owns_process)
        app.state.job_watcher = JobWatcher(app.state.gateway.reads, settings.max_streams)
        ticking = asyncio.create_task(app.state.tick.run())
        try:
            with on_stop_signal(app.state.job_watcher.close):
                yield {"bounds": Bounds.of(settings)}  # for the protocol of the connections
        finally:
            app.state.job_watcher.close()
            ticking.cancel()
            app.state.monitor.close()
            if tokens:
                tokens.close()
            await app.state.serving.close()
            await app.state.gateway.close()
            await asyncio.to_thread(tracer.close)

    async def look() -> None:
        monitor: Monitor = app.state.monitor  # made when the application starts
        await monitor.ping()

    app = FastAPI(
        lifespan=lifespan,
        openapi_url=None,  # the document is a file of the package, and its route needs a scope as all do
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        routes=ROUTES.routes,
    )
    app.state.settings = settings
    app.state.tick = LoopBeat()
    app.state.requests = RequestCounts()
    app.state.limits = Limits(settings)
    if settings.anonymous_read:
        app.add_middleware(PublicReads)
    app.add_middleware(
        HeadByGet, knows_head=lambda scope: any(route.matches(scope)[0] is Match.FULL for route in app.routes)
    )
    app.add_middleware(Compression)
    app.add_middleware(RequestTraces, tracer=tracer)  # within the admission, which knows the caller
    app.add_middleware(
        Admission,
        authenticator=Authenticator(lambda: app.state.gateway.keys, app.state.limits, tokens),
        keys=asks_for_keys(settings.auth, settings.host),
        anonymous_read=settings.anonymous_read,
        guard=HangGuard(look),
        hosts=AllowedHosts.of(settings),
        limits=app.state.limits,
    )
    app.add_middleware(ReadersCors, settings=settings)
    app.add_middleware(PublicAddress, settings=settings)
    app.add_middleware(RequestMetrics, requests=app.state.requests)
    add_handlers(app)
    app.add_exception_handler(404, show_missing)
    return app


def _serving(settings: Settings, database_url: str, gateway: Gateway, owns_process: bool) -> Serving:
    catalog, layers = Catalog(database_url, CATALOG_CONNECTIONS), Layers(database_url, FEATURES_CONNECTIONS)
    files, objects = gateway.reads.files(), TierObjects(gateway.storage)
    in_place = settings.draw_files_in_place
    return Serving(
        catalog, layers, files, objects, gateway.drafts, gateway.reads,
        draws_in_place=in_place, owns_process=owns_process,
    )  # fmt: skip


def app_from_environment() -> FastAPI:
    """The application configured by the environment, for `uvicorn --factory`."""
    settings = load_settings()
    _take_logs(settings)
    limit_memory(settings.api_memory_mb)
    url = configured_url(settings)
    if url is None:
        raise InputError(
            "settings.invalid",
            "the API needs ANABRANCH_DATABASE_URL",
            remedy="Set it, or run `anabranch up`, which sets it for the API it starts.",
        )
    return create_app(settings, url, on_refused=lambda: os._exit(os.EX_CONFIG), tracer=open_tracer("api"))


def _take_logs(settings: Settings) -> None:
    configure_logs(settings.log_level, settings.log_format)
    for name in ("uvicorn", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True
