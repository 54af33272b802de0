"""The one place that reads the environment and the configuration file."""

import os
import tomllib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from anabranch.engine.errors import InputError

__all__ = ["Origin", "Settings", "forget", "load_settings", "origins", "unknown_variables"]

PREFIX = "ANABRANCH_"


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
    )

    home: Path = Field(default_factory=_default_home, description="The data folder.")
    config: Path | None = Field(None, description="The TOML file; by default `anabranch.toml` in the home.")
    database_url: SecretStr | None = Field(
        None, description="The PostgreSQL to use; by default a private cluster in the home."
    )
    stack_id: str | None = Field(None, description="Ties processes to their stack; set by `up` for those it starts.")
    host: str = Field("127.0.0.1", description="The address the API listens on.")
    port: int = Field(8787, ge=0, le=65535, description="The port the API listens on; 0 takes any free one.")
    workers: int = Field(2, ge=1, le=64, description="Worker processes that `up` starts.")
    slots: int = Field(2, ge=1, le=256, description="Handlers that one worker runs at once.")
    lease_seconds: float = Field(60, ge=3, description="Silence after which a process is taken for dead.")
    child_memory_mb: int = Field(
        4096, ge=0, description="Memory (address space) that one handler's process may take; 0 for no bound."
    )
    inline_result_bytes: int = Field(
        1_000_000, ge=1_000, le=64_000_000, description="Larger results go to storage, and a reference to them is kept."
    )
    retention_days: int = Field(
        90, ge=0, le=36_500, description="Days after which a job that ended is purged; 0 keeps all for ever."
    )
    tombstone_days: int = Field(
        365, ge=1, le=36_500, description="Days for which a purged job is still known to have been."
    )
    session_days: int = Field(30, ge=1, le=36_500, description="Days after which a process that ended is forgotten.")
    plugins: Annotated[tuple[str, ...], NoDecode] = Field(
        (), description="Modules, packages or folders with workflows and handlers, separated by commas."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="The least urgent line to log.")
    log_format: Literal["auto", "json", "console"] = Field(
        "auto", description="`auto` is readable on a terminal and JSON elsewhere."
    )
    auth: Literal["auto", "none", "keys"] = Field(
        "auto", description="Who may call the API; `auto` asks for keys everywhere but on loopback."
    )
    api_url: str | None = Field(None, description="The API that commands call; by default that of the home's stack.")
    api_key: SecretStr | None = Field(None, description="The key that commands send.")
    low_disk_mb: int = Field(
        1000, ge=0, description="Free space below which health warns; below a tenth of it, health is down."
    )
    max_body_bytes: int = Field(1_000_000, ge=1_000, description="The largest request body the API reads.")
    max_bulk_bytes: int = Field(
        100_000_000, ge=1_000, description="The largest body of many jobs, a line each; a line is bounded as a body is."
    )
    idempotency_hours: float = Field(
        24, gt=0, le=24 * 366, description="How long the answer to a request is kept under its Idempotency-Key."
    )

    @field_validator("plugins", mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:  # raw input of any type
        return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value

    @field_validator("home", mode="after")
    @classmethod
    def _absolute(cls, value: Path) -> Path:
        return value.expanduser().absolute()

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


@dataclass(frozen=True)
class Origin:
    """A setting as it may be shown, and where its value came from."""

    name: str
    value: object
    origin: str


def load_settings(**given: Any) -> Settings:  # any field of Settings, as the command line gives it
    """The settings of this process; every mistake is reported at once."""
    try:
        return Settings(**given)
    except tomllib.TOMLDecodeError as error:
        raise InputError("settings.invalid", f"the configuration file is not TOML: {error}") from error
    except ValidationError as error:
        mistakes = "; ".join(f"{_spelled(item['loc'])}: {item['msg']}" for item in error.errors())
        raise InputError(
            "settings.invalid", mistakes, remedy="Mend the variables or the file; `anabranch config show` lists them."
        ) from error


def forget(*names: str) -> None:
    """Take settings out of this process's environment, so that what it starts does not get them."""
    unwanted = {f"{PREFIX}{name}".upper() for name in names}
    for variable in [variable for variable in os.environ if variable.upper() in unwanted]:
        del os.environ[variable]


def origins(settings: Settings) -> Iterator[Origin]:
    """Every setting with its value, secrets masked, and its origin."""
    environment = {name.upper() for name in os.environ}
    file = _config_file({"home": settings.home, "config": settings.config})
    in_file = tomllib.loads(file.read_text()) if file.is_file() else {}
    for name in Settings.model_fields:
        value = getattr(settings, name)
        if f"{PREFIX}{name}".upper() in environment:
            origin = f"environment {PREFIX}{name.upper()}"
        elif name in in_file:
            origin = f"file {file}"
        else:
            origin = "default" if name not in settings.model_fields_set else "command line"
        yield Origin(name, _shown(value), origin)


def unknown_variables(ours: Collection[str] = ()) -> Iterator[tuple[str, str]]:
    """The variables that have our prefix and are neither settings nor `ours`, each with the nearest setting's."""
    names = [name.upper() for name in Settings.model_fields]
    for variable in sorted(os.environ):
        prefix, name = variable[: len(PREFIX)].upper(), variable[len(PREFIX) :].upper()
        if prefix == PREFIX and name not in names and variable not in ours:
            yield variable, PREFIX + get_close_matches(name, names, 1, cutoff=0)[0]


def _spelled(location: tuple[int | str, ...]) -> str:
    return PREFIX + "__".join(str(part) for part in location).upper()


def _shown(value: object) -> object:
    if isinstance(value, SecretStr):
        return "**********"
    if isinstance(value, tuple):
        return list(value)
    return str(value) if isinstance(value, Path) else value
