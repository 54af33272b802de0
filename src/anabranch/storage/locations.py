"""Where the tiers and the work area are."""

import json
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pydantic import ConfigDict, SecretStr, TypeAdapter, ValidationError, field_validator

from anabranch.errors import InputError
from anabranch.storage.addresses import RESERVED_FOLDER
from anabranch.strict_model import StrictModel

__all__ = ["AREAS", "TIERS", "StorageLocations", "require_tier"]

TIERS = ("bronze", "silver", "gold")
AREAS = (*TIERS, "work")
WORK_IN_SILVER = f"{RESERVED_FOLDER}/work"
CLOUD_SCHEMES = ("az", "s3", "gs")
_OPTIONS: TypeAdapter[dict[str, bool | str | dict[str, bool | str]]] = TypeAdapter(
    dict[str, bool | str | dict[str, bool | str]], config=ConfigDict(strict=True)
)


def require_tier(address: str) -> None:
    """Refuse an address in a tier that there is not; InputError names it."""
    tier, found, _ = address.partition("://")
    if found and tier not in TIERS:
        known = f"The tiers are {', '.join(TIERS)}."
        raise InputError("storage.tier", f"there is no tier {tier[:40]!r}", remedy=known)


class StorageLocations(StrictModel, hide_input_in_errors=True):
    """The URLs of the tiers and the work area, and options of cloud stores: for all, or for one by name."""

    bronze: str = ""
    silver: str = ""
    gold: str = ""
    work: str = ""
    options: SecretStr | None = None

    @field_validator(*AREAS, mode="after")
    @classmethod
    def _check(cls, url: str) -> str:
        parts = urlsplit(url)
        if not url:
            return url
        if parts.query or parts.fragment or "@" in parts.netloc:
            raise ValueError("a storage URL can't contain secrets or a query; put them into the options")
        if parts.scheme == "file":
            if parts.netloc or not parts.path.startswith("/"):
                raise ValueError("write it as file:///folder")
        elif parts.scheme not in CLOUD_SCHEMES or not parts.netloc:
            raise ValueError("write it as file:///folder, az://container, s3://bucket or gs://bucket")
        return url

    @field_validator("options", mode="before")
    @classmethod
    def _spell(cls, value: Any) -> Any:  # a table of the file, or the text of a variable
        return json.dumps(value) if isinstance(value, dict) else value

    @field_validator("options", mode="after")
    @classmethod
    def _check_options(cls, value: SecretStr | None) -> SecretStr | None:
        try:
            _OPTIONS.validate_json(value.get_secret_value() if value else "{}")
        except ValidationError:  # its message would show the value
            raise ValueError('write a JSON object, like {"account_name": "…", "silver": {…}}') from None
        return value

    def in_home(self, home: Path) -> "StorageLocations":
        """These, with defaults in the home for those that are not set; the work area follows silver if that is set."""
        tiers = {tier: getattr(self, tier) or (home / tier).as_uri() for tier in TIERS}
        work = f"{self.silver.rstrip('/')}/{WORK_IN_SILVER}" if self.silver else (home / "work").as_uri()
        return StorageLocations(**tiers, work=self.work or work, options=self.options)

    def options_of(self, area: str) -> dict[str, str | bool]:
        """The options of an area's store: its own override those for all. A work area in silver also has silver's."""
        given = _OPTIONS.validate_json(self.options.get_secret_value() if self.options else "{}")
        names = ("silver", area) if area == "work" and self.work.startswith(f"{self.silver.rstrip('/')}/") else (area,)
        options = {name: value for name, value in given.items() if not isinstance(value, dict)}
        for name in names:
            own = given.get(name, {})
            options.update(own if isinstance(own, dict) else {})
        return options
