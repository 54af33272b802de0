"""Links and assets of documents from elsewhere: absolute addresses, not ours, which we never open (S2, S3)."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote, urljoin

from anabranch.canonical import Json, JsonObject
from anabranch.errors import InputError
from anabranch.redaction import hide_secrets

__all__ = ["Bases", "is_web_url", "keep_links", "resolve_assets"]

SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
HOST = re.compile(r"[^/?#]*://([^/?#\[\]]+|\[[0-9A-Fa-f:.]+\](?::\d+)?)(?=[/?#]|$)")
UNSAFE = re.compile(r"[\x00-\x20\x7f\\<>\"]")
ASSET_SCHEMES = frozenset({"http", "https", "s3", "gs", "az", "abfs", "abfss"})
# Our server writes these itself.
STRUCTURAL = frozenset({"self", "root", "parent", "collection", "item", "items", "child", "children", "data"})
MAX_HREF_CHARS = 8_192


@dataclass(frozen=True)
class Bases:
    """What relative addresses are resolved against: `url` is that of the folder of the source."""

    url: str | None = None
    folder: str = ""

    def find(self, document: Mapping[str, Json], file: str) -> str | None:
        """The base of a document in a file: its own absolute self link, else its place below the given URL."""
        links = document.get("links")
        for link in links if isinstance(links, list) else []:
            if isinstance(link, dict) and link.get("rel") == "self" and is_web_url(link.get("href")):
                return str(link["href"])
        if self.url is None:
            return None
        below = file.removeprefix(self.folder) if file.startswith(self.folder) else ""
        return urljoin(self.url.rstrip("/") + "/", quote(below))


def is_web_url(value: Json) -> bool:
    """Whether it is an absolute URL of http or https, without credentials."""
    return isinstance(value, str) and _scheme_of(value) in ("http", "https") and _fault(value) is None


def keep_links(document: Mapping[str, Json], base: str | None) -> Json:
    """The links that lead elsewhere; what is malformed stays, for the schema to refuse."""
    links = document.get("links", [])
    if not isinstance(links, list):
        return links
    kept: list[Json] = []
    for link in links:
        href, rel = (link.get("href"), link.get("rel")) if isinstance(link, dict) else (None, None)
        if not (isinstance(link, dict) and isinstance(href, str) and isinstance(rel, str)):
            kept.append(link)
        elif rel not in STRUCTURAL:
            full = href if _scheme_of(href) or base is None else _join(base, href, "links")
            kept += [{**link, "href": full}] if is_web_url(full) else []
    return kept


def resolve_assets(assets: Json, base: str | None) -> Json:
    """Assets with absolute addresses; InputError where one can't be, or is of a kind that is not accepted."""
    if not isinstance(assets, dict):
        return assets
    return {key: _resolve(asset, base, f"assets.{key[:80]}") for key, asset in assets.items()}


def _resolve(asset: Json, base: str | None, where: str) -> Json:
    if not isinstance(asset, dict) or not isinstance(href := asset.get("href"), str):
        return asset
    found: JsonObject = {**asset, "href": _absolute(href, base, where)}
    if isinstance(alternate := asset.get("alternate"), dict):
        found["alternate"] = {
            key: _resolve(other, base, f"{where}.alternate.{key[:80]}") for key, other in alternate.items()
        }
    return found


def _absolute(href: str, base: str | None, where: str) -> str:
    if not _scheme_of(href):
        if base is None:
            remedy = "Give `base_url`, or items with an absolute `self` link."
            raise InputError("ingest.relative", f"{where}: the address {_shown(href)} is relative", remedy=remedy)
        href = _join(base, href, where)
    if fault := _fault(href):
        remedy = "Use an address of http, https, s3, gs, az or abfs, without credentials."
        raise InputError("ingest.href", f"{where}: {_shown(href)} can't be published: {fault}", remedy=remedy)
    return href


def _join(base: str, href: str, where: str) -> str:
    try:
        return urljoin(base, href)
    except ValueError as error:
        raise InputError("ingest.href", f"{where}: {_shown(href)} is not an address: {error}") from error


def _fault(href: str) -> str | None:
    """What is wrong with an absolute address."""
    if len(href) > MAX_HREF_CHARS:
        return f"it has more than {MAX_HREF_CHARS} characters"
    if UNSAFE.search(href):
        return "it has blanks, control characters or backslashes"
    if _scheme_of(href) not in ASSET_SCHEMES:
        return "it is of another kind"
    host = HOST.match(href)
    if host is None:
        return "it names no host or container"
    # The user of abfs://container@account is a container.
    return "it holds credentials" if "@" in host[1] and href[:4].lower() != "abfs" else None


def _scheme_of(href: str) -> str | None:
    found = SCHEME.match(href)
    return found[1].lower() if found else None


def _shown(value: str) -> str:
    shown = hide_secrets(value)
    return ascii(shown if len(shown) <= 120 else f"{shown[:120]}…")
