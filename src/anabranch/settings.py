"""The one place that reads the environment and the configuration file."""

import os
import re
import tomllib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Any, Literal, cast
from urllib.parse import urlsplit

from pydantic import BaseModel, Field, SecretStr, ValidationError, ValidationInfo, create_model, field_validator
from pydantic_core import ErrorDetails
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from anabranch.engine.entry_points import SETTINGS_GROUP, load_entry_points
from anabranch.errors import DefinitionError, InputError
from anabranch.manifests.signing_key import FILE_NAME
from anabranch.oidc.settings import OidcSettings
from anabranch.outbound.url import read_exempt
from anabranch.public_url import read_origin, read_origin_of, read_public_url
from anabranch.sealing import FILE_NAME as WEBHOOK_KEY_NAME
from anabranch.storage.locations import StorageLocations
from anabranch.workflows.mistakes import reword
from anabranch.workflows.rules import find_number_mistakes
from anabranch.workflows.work import Breaker

__all__ = [
    "DATABASE_SETTINGS",
    "ForwardingHeaders",
    "Origin",
    "Settings",
    "forget",
    "forget_telemetry_headers",
    "load_settings",
    "name_telemetry",
    "origins",
    "plugin_settings",
    "unknown_variables",
]

PREFIX = "ANABRANCH_"
ForwardingHeaders = Literal["x-forwarded", "forwarded"]
# How to connect to the database: secrets, or the way to them.
DATABASE_SETTINGS = (
    "database_url",
    *(f"database_{way}_url" for way in ("direct", "owner", "reader", "handler")),
    *(f"database_password_{source}" for source in ("file", "command", "seconds")),
)


def _default_home() -> Path:
    base = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(base) / "anabranch"


class Settings(BaseSettings):
    """Everything an operator can set, by `ANABRANCH_*` or in `anabranch.toml`."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_nested_delimiter="__",
        env_ignore_empty=True,
        frozen=True,
        extra="forbid",
        validate_default=True,
        hide_input_in_errors=True,
    )

    home: Path = Field(default_factory=_default_home, description="The data folder.")
    config: Path | None = Field(None, description="The TOML file; by default `anabranch.toml` in the home.")
    database_url: SecretStr | None = Field(
        None, description="The PostgreSQL to use; by default a private cluster in the home."
    )
    database_direct_url: SecretStr | None = Field(
        None,
        description="The same database past a pooler in transaction mode, for what needs a session of its own; "
        "by default `database_url`, without a pooler.",
    )
    database_owner_url: SecretStr | None = Field(
        None,
        description="The same database as the login that owns the schemas, for migrations and the commands `db`; "
        "by default `database_direct_url`.",
    )
    database_reader_url: SecretStr | None = Field(
        None, description="The same database as a login that only reads; by default `database_url`."
    )
    database_handler_url: SecretStr | None = Field(
        None, description="The same database as the login that handlers get; by default `database_url`."
    )
    database_password_file: Path | None = Field(
        None,
        description="The file with the password of the database's logins, or a folder with a file for each of them; "
        "it is read for each connection whose URL has no password.",
    )
    database_password_command: SecretStr | None = Field(
        None,
        description="The command that prints the password or token of the login `PGUSER`, for URLs without a password.",
    )
    database_password_seconds: float = Field(
        300, gt=0, description="How long what the command printed is used; one that is refused is asked for again."
    )
    signing_key: Path | None = Field(
        None, description="The file of the key that signs manifests; by default `signing-key.pem` in the home."
    )
    webhook_key: Path | None = Field(
        None, description="The file of the key that seals webhook secrets; by default `webhook-key` in the home."
    )
    stack_id: str | None = Field(None, description="Ties processes to their stack; set by `up` for those it starts.")
    host: str = Field("127.0.0.1", description="The address the API listens on.")
    port: int = Field(8787, ge=0, le=65535, description="The port the API listens on; 0 takes any free one.")
    workers: int = Field(2, ge=1, le=64, description="Worker processes that `up` starts.")
    slots: int = Field(2, ge=1, le=256, description="Handlers that one worker runs at once.")
    queues: Annotated[tuple[str, ...], NoDecode] = Field(
        (), description="The queues that workers serve, separated by commas; by default all that a workflow names."
    )
    queue_breakers: dict[str, Breaker] = Field(
        default_factory=dict,
        description="Breakers of queues, in JSON: "
        '`{"heavy": {"failures": 5, "window_seconds": 60, "open_seconds": 300}}`; the same for all workers.',
    )
    lease_seconds: float = Field(
        60, ge=3, description="Time without a heartbeat after which a process's session expires."
    )
    child_memory_mb: int = Field(
        4096, ge=0, description="Memory limit (address space) of one handler process; 0 for no limit."
    )
    api_memory_mb: int = Field(
        4096, ge=0, description="Memory limit (address space) of one API process; 0 for no limit."
    )
    inline_result_bytes: int = Field(
        1_000_000,
        ge=1_000,
        le=64_000_000,
        description="Larger results are written to storage, and the database keeps a reference.",
    )
    retention_days: int = Field(
        90, ge=0, le=36_500, description="Days after which an ended job is purged; 0 keeps all jobs forever."
    )
    revision_retention_days: int = Field(
        30, ge=1, le=36_500, description="Days for which the files of a replaced publication are kept."
    )
    restore_window_days: int = Field(
        30, ge=1, le=36_500, description="Days for which an item that was withdrawn can be restored."
    )
    tombstone_days: int = Field(
        365, ge=1, le=36_500, description="Days for which the id of a purged job is remembered."
    )
    session_days: int = Field(
        30, ge=1, le=36_500, description="Days after which the record of an ended process is removed."
    )
    webhook_log_days: int = Field(
        30, ge=1, le=36_500, description="Days for which ended deliveries of webhooks and their log are kept."
    )
    plugins: Annotated[tuple[str, ...], NoDecode] = Field(
        (), description="Modules, packages or folders with workflows and handlers, separated by commas."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="The lowest level to log.")
    log_format: Literal["auto", "json", "console"] = Field(
        "auto", description="`auto` is readable on a terminal and JSON elsewhere."
    )
    auth: Literal["auto", "none", "keys"] = Field(
        "auto", description="Whether callers of the API need keys; `auto` requires them everywhere except on loopback."
    )
    oidc: OidcSettings = Field(
        OidcSettings(), description="The OpenID Connect issuer whose tokens are accepted beside keys; by default none."
    )
    api_url: str | None = Field(None, description="The API that commands call; by default the one of the home's stack.")
    api_key: SecretStr | None = Field(None, description="The key or token that commands send.")
    low_disk_mb: int = Field(
        1000, ge=0, description="Free space below which health warns; below a tenth of it, health is down."
    )
    max_body_bytes: int = Field(1_000_000, ge=1_000, description="The largest request body the API reads.")
    max_bulk_bytes: int = Field(
        100_000_000, ge=1_000, description="The largest body of a bulk submission; a line has the limit of a body."
    )
    idempotency_hours: float = Field(
        24, gt=0, le=24 * 366, description="How long the answer to a request is stored under its Idempotency-Key."
    )
    max_upload_bytes: int = Field(
        65_536 * 2**20, ge=1_000, description="The largest file that the API accepts at `POST /api/uploads`."
    )
    storage: StorageLocations = Field(
        StorageLocations(),
        description="Where the tiers `bronze`, `silver` and `gold` and the `work` area are; by default in the home.",
    )
    source_cache_mb: int = Field(
        65_536,
        ge=0,
        description="Size of this machine's cache of files that handlers fetch; 0 caches nothing.",
    )
    public_url: str | None = Field(
        None,
        description="The public URL of the API, like https://data.example.org/anb; links begin with it.",
    )
    allowed_hosts: Annotated[tuple[str, ...], NoDecode] = Field(
        (), description="Host names that callers may use besides the API's own address, separated by commas."
    )
    callback_hosts: Annotated[tuple[str, ...], NoDecode] = Field(
        (),
        description="Hosts, or host:port, that webhooks may call although they are private or on other ports than 80 "
        "and 443, separated by commas.",
    )
    trusted_proxies: Annotated[tuple[str, ...], NoDecode] = Field(
        (), description="Addresses or networks of proxies whose forwarded headers are trusted, separated by commas."
    )
    forwarding_headers: ForwardingHeaders = Field(
        "x-forwarded",
        description="Which headers trusted proxies set: `x-forwarded` (X-Forwarded-*) or `forwarded` (RFC 7239). The "
        "others are a caller's own, and ignored.",
    )
    cors_origins: Annotated[tuple[str, ...], NoDecode] = Field(
        (), description="Origins whose pages may read catalog, tiles and files, separated by commas; `*` for all."
    )
    anonymous_read: bool = Field(
        False,
        description="Whether items that are cleared as public can be read without a key, where keys are required.",
    )
    basemap: str | None = Field(
        None,
        description="The base map of the page `/data` in place of Natural Earth: the URL of a MapLibre style, or of "
        "tiles with `{z}`, `{x}` and `{y}`. Browsers may fetch from its origin too, and from no other.",
    )
    basemap_credit: str | None = Field(None, description="Whom the base map is by, as the map shows it.")
    max_connections: int = Field(800, ge=1, description="Maximum number of connections of one API process.")
    header_seconds: float = Field(20, gt=0, le=3600, description="How long the header of a request may take to arrive.")
    body_seconds: float = Field(
        30, gt=0, le=3600, description="How long a body may take to arrive, or an answer to be read, without progress."
    )
    body_bytes_per_second: int = Field(
        1_000, ge=1, description="Bytes of a body that extend its time limit by one second; slower requests are closed."
    )
    key_requests_per_minute: int = Field(6_000, ge=0, description="Requests per key and minute; 0 for no limit.")
    address_requests_per_minute: int = Field(
        12_000, ge=0, description="Requests per address and minute, if keys are required; 0 for no limit."
    )
    wrong_keys_per_minute: int = Field(20, ge=0, description="Wrong keys per address and minute; 0 for no limit.")
    platform_jobs_per_day: int = Field(
        100_000, ge=0, description="Jobs that the keys of one platform may submit in a day; 0 for no limit."
    )
    platform_upload_mb_per_day: int = Field(
        204_800, ge=0, description="Megabytes that the keys of one platform may upload in a day; 0 for no limit."
    )
    draw_files_in_place: bool = Field(
        False,
        description="Whether tiles are drawn of Cloud-Optimized GeoTIFFs that `stac_catalog_container` left in place. "
        "The API then opens files of others with GDAL, after they were checked in the sandbox.",
    )
    max_streams: int = Field(500, ge=1, description="Maximum number of event streams of one API process.")

    @field_validator(
        "plugins", "queues", "allowed_hosts", "callback_hosts", "trusted_proxies", "cors_origins", mode="before"
    )
    @classmethod
    def _split(cls, value: Any) -> Any:  # raw input of any type
        return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value

    @field_validator("queue_breakers", mode="after")
    @classmethod
    def _check_breakers(cls, given: dict[str, Breaker]) -> dict[str, Breaker]:
        for queue, breaker in given.items():
            for mistake in find_number_mistakes(breaker, f"{queue}: "):
                raise ValueError(mistake)
        return given

    @field_validator("public_url", mode="after")
    @classmethod
    def _check_public_url(cls, url: str | None) -> str | None:
        return None if url is None else read_public_url(url)

    @field_validator("cors_origins", mode="after")
    @classmethod
    def _check_origins(cls, given: tuple[str, ...]) -> tuple[str, ...]:
        for origin in given:
            if origin != "*" and urlsplit(origin).path:
                raise ValueError(f"{origin!r} is not an origin; write it as https://maps.example.org, or *")
        return tuple(origin if origin == "*" else read_origin(origin) for origin in given)

    @field_validator("basemap", mode="after")
    @classmethod
    def _check_basemap(cls, given: str | None) -> str | None:
        if given is not None and not given.startswith("/"):
            read_origin_of(given)
        return given

    @field_validator("allowed_hosts", mode="after")
    @classmethod
    def _check_hosts(cls, given: tuple[str, ...]) -> tuple[str, ...]:
        for host in given:
            if not re.fullmatch(r"[A-Za-z0-9._-]+|[0-9A-Fa-f:]+", host):
                raise ValueError(f"{host!r} is not a host name; write it without scheme and port")
        return given

    @field_validator("callback_hosts", mode="after")
    @classmethod
    def _check_callback_hosts(cls, given: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(map(read_exempt, given))

    @field_validator("trusted_proxies", mode="after")
    @classmethod
    def _check_proxies(cls, given: tuple[str, ...]) -> tuple[str, ...]:
        for network in given:
            try:
                ip_network(network, strict=False)
            except ValueError:
                raise ValueError(f"{network!r} is neither an address nor a network, like 10.0.0.0/8") from None
        return given

    @field_validator(*DATABASE_SETTINGS[1:-1], mode="after")
    @classmethod
    def _check_server(cls, value: Any, info: ValidationInfo) -> Any:  # a secret or a path
        if value is not None and info.data.get("database_url", "wrong") is None:
            raise ValueError("it is for a server of yours, which ANABRANCH_DATABASE_URL must name")
        if info.field_name == "database_password_command" and value and info.data.get("database_password_file"):
            raise ValueError("give ANABRANCH_DATABASE_PASSWORD_FILE or this, not both")
        return value

    @field_validator("home", mode="after")
    @classmethod
    def _absolute(cls, value: Path) -> Path:
        return value.expanduser().absolute()

    @field_validator("storage", mode="after")
    @classmethod
    def _place_tiers(cls, value: StorageLocations, info: ValidationInfo) -> StorageLocations:
        return value.in_home(info.data.get("home", Path("/")))

    @property
    def signing_key_file(self) -> Path:
        """The file of the key that signs manifests."""
        return self.signing_key or self.home / FILE_NAME

    @property
    def webhook_key_file(self) -> Path:
        """The file of the key that seals the secrets of webhooks."""
        return self.webhook_key or self.home / WEBHOOK_KEY_NAME

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        given = init_settings.init_kwargs if isinstance(init_settings, InitSettingsSource) else {}
        file = TomlConfigSettingsSource(settings_cls, _config_file({**env_settings(), **given}))
        return init_settings, env_settings, file


def _config_file(known: Mapping[str, Any]) -> Path:
    home = Path(known.get("home") or _default_home()).expanduser()
    return Path(known.get("config") or home / "anabranch.toml")


class _Lenient(Settings):
    """The settings while a plugin can't be imported: unknown keys of the file may be its own."""

    model_config = SettingsConfigDict(extra="ignore")


@cache
def _plugin_models() -> tuple[type[BaseModel] | None, ...]:
    """The settings that installed plugins bring; None for one that can't be imported."""
    return tuple(_check_plugin(name, model) for name, model in load_entry_points(SETTINGS_GROUP))


def _check_plugin(name: str, model: object) -> type[BaseModel] | None:
    if model is None:
        return None
    if not (isinstance(model, type) and issubclass(model, BaseModel)):
        raise DefinitionError("plugin.invalid", f"the settings of the plugin {name!r} are not a pydantic model")
    if wrong := [field for field in model.model_fields if not field.startswith(f"{name}_")]:
        raise DefinitionError("plugin.invalid", f"the setting {wrong[0]!r} must begin with {name}_")
    return model


@cache
def _model() -> type[Settings]:
    """Our settings and those of the installed plugins, as one model."""
    ours = _Lenient if None in _plugin_models() else Settings
    bases: Any = (*filter(None, reversed(_plugin_models())), ours)  # pydantic's signature wants bases of one type
    return cast(type[Settings], create_model("Settings", __base__=bases))


def plugin_settings(settings: Settings) -> tuple[BaseModel, ...]:
    """The settings of each installed plugin, as a value of its own model."""
    models = filter(None, _plugin_models())
    return tuple(model(**settings.model_dump(include=set(model.model_fields))) for model in models)


@dataclass(frozen=True)
class Origin:
    """A setting with its printable value and the origin of the value."""

    name: str
    value: object
    origin: str


def load_settings(**given: Any) -> Settings:  # any field of Settings, as the command line gives it
    """The settings of this process; every mistake is reported at once."""
    try:
        return _model()(**given)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError("settings.invalid", f"{_given_file(given)} is not TOML: {error}") from error
    except ValidationError as error:
        file = _given_file(given)
        written = {name: value for name, value in _read_file(file).items() if name not in given}
        raise InputError(
            "settings.invalid",
            "; ".join(_mistake(item, file if _is_of_file(written, item["loc"]) else None) for item in error.errors()),
            remedy="Fix the variables or the file; `anabranch config show` lists the settings.",
        ) from error


def _given_file(given: Mapping[str, Any]) -> Path:
    """The configuration file, by what is given and the environment alone."""
    environment = {name.upper(): value for name, value in os.environ.items()}
    known = {name: environment.get(_spelled((name,))) for name in ("home", "config")}
    return _config_file({**known, **given})


def _read_file(file: Path) -> dict[str, Any]:
    return tomllib.loads(file.read_text()) if file.is_file() else {}


def _is_of_file(written: Any, path: tuple[int | str, ...]) -> bool:  # TOML
    """Whether a setting has its value from the file, and not from a variable, which comes first."""
    if {_spelled(path), _spelled(path[:1])} & {name.upper() for name, value in os.environ.items() if value}:
        return False
    for name in path:
        if isinstance(written, dict) and name not in written:
            return False
        written = written[name] if isinstance(written, dict) else None
    return True


def _mistake(item: ErrorDetails, file: Path | None) -> str:
    """A mistake with the setting's name as it is written: in the file, or as a variable."""

    def write(path: tuple[int | str, ...]) -> str:
        return ".".join(map(str, path)) if file else _spelled(path)

    at, name = f"{file}: " if file else "", write(item["loc"])
    if item["type"] == "extra_forbidden":
        nearest = get_close_matches(name, [write(path) for path in _paths(_model())], 1, cutoff=0)[0]
        return f"{at}there is no setting {name}; the nearest is {nearest}"
    return f"{at}{name}: {reword(item['msg'])}"


def forget(*names: str) -> None:
    """Remove settings from this process's environment, so that child processes do not inherit them."""
    unwanted = {f"{PREFIX}{name}".upper() for name in names}
    for variable in [variable for variable in os.environ if variable.upper() in unwanted]:
        del os.environ[variable]


def name_telemetry() -> frozenset[str]:
    """What is exported over OTLP, by the standard variables of OpenTelemetry: `traces`, `metrics`, both or nothing."""
    if os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return frozenset()
    everywhere = os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT")
    return frozenset(
        signal
        for signal in ("traces", "metrics")
        if (everywhere or os.environ.get(f"OTEL_EXPORTER_OTLP_{signal.upper()}_ENDPOINT"))
        and os.environ.get(f"OTEL_{signal.upper()}_EXPORTER", "otlp") == "otlp"
    )


def forget_telemetry_headers() -> None:
    """Remove the headers of exporters from this process's environment: they hold keys (S5)."""
    for variable in [name for name in os.environ if name.startswith("OTEL_EXPORTER_OTLP_") and "HEADERS" in name]:
        del os.environ[variable]


def origins(settings: Settings) -> Iterator[Origin]:
    """Every setting with its value, secrets masked, and its origin."""
    environment = {name.upper() for name in os.environ}
    file = _config_file({"home": settings.home, "config": settings.config})
    in_file = _read_file(file)
    for path in _paths(type(settings)):
        value: Any = settings  # of any type, down to the setting
        written: Any = in_file
        for name in path:
            value = getattr(value, name)
            written = written.get(name, None) if isinstance(written, dict) else None
        variable = _spelled(path)
        if variable in environment or _spelled(path[:1]) in environment:
            origin = f"environment {variable}"
        elif written is not None:
            origin = f"file {file}"
        else:
            given = path[0] in settings.model_fields_set and len(path) == 1
            origin = "command line" if given else "default"
        yield Origin(".".join(path), _shown(value), origin)


def unknown_variables(ours: Collection[str] = ()) -> Iterator[tuple[str, str]]:
    """The variables with our prefix that are neither settings nor in `ours`, each with the nearest setting's name."""
    names = ["__".join(path).upper() for path in _paths(_model())]
    for variable in sorted(os.environ):
        prefix, name = variable[: len(PREFIX)].upper(), variable[len(PREFIX) :].upper()
        if prefix == PREFIX and name not in names and variable not in ours:
            yield variable, PREFIX + get_close_matches(name, names, 1, cutoff=0)[0]


def _paths(model: type[Settings]) -> Iterator[tuple[str, ...]]:
    """The names of the settings, each from the outermost to its own."""
    for name, field in model.model_fields.items():
        inner = field.annotation.model_fields if field.annotation in (OidcSettings, StorageLocations) else {}
        yield from ((name, below) for below in inner)
        if not inner:
            yield (name,)


def _spelled(location: tuple[int | str, ...]) -> str:
    return PREFIX + "__".join(str(part) for part in location).upper()


def _shown(value: object) -> object:
    if isinstance(value, SecretStr):
        return "**********"
    if isinstance(value, tuple):
        return list(value)
    return str(value) if isinstance(value, Path) else value
