"""Public URLs and origins of the API, in one form."""

import re
from urllib.parse import urlsplit

__all__ = ["OWN_PATHS", "PAGES", "read_origin", "read_origin_of", "read_public_url"]

DEFAULT_PORTS = {"http": 80, "https": 443}  # which browsers omit
HOST_NAME = r"[A-Za-z0-9._-]+|[0-9A-Fa-f:.]+"
URL_PREFIX = r"(?:/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)*"
# The pages and what is below them: `/jobs` and `/jobs/{id}`.
PAGES = frozenset(
    {
        "admin",
        "approvals",
        "assets",
        "data",
        "jobs",
        "schedules",
        "submit",
        "webhooks",
        "workers",
        "workflows",
    }
)
# Below a prefix with one of these names, a path would be ambiguous.
OWN_PATHS = PAGES | frozenset(
    {
        "api",
        "docs",
        "errors",
        "features",
        "files",
        "livez",
        "metrics",
        "ogc",
        "openapi.json",
        "raster",
        "readyz",
        "stac",
        "ui",
    }
)


def read_public_url(url: str) -> str:
    """A public URL in its one form; ValueError if it is not one, or its path could be taken for one of the API's."""
    return f"{read_origin(url)}{_read_prefix(url)}"


def read_origin(url: str) -> str:
    """The scheme and host of a URL that otherwise has at most a path; ValueError if it is not one."""
    try:
        parts = urlsplit(url.strip())
        port = f":{parts.port}" if parts.port and parts.port != DEFAULT_PORTS.get(parts.scheme) else ""
    except ValueError:
        parts, port = urlsplit(""), ""
    extra = parts.query or parts.fragment or "@" in parts.netloc or parts.netloc.endswith(":")
    if parts.scheme not in ("http", "https") or extra or not re.fullmatch(HOST_NAME, parts.hostname or ""):
        raise ValueError("write it as https://data.example.org")
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return f"{parts.scheme}://{host}{port}"


def read_origin_of(url: str) -> str:
    """The scheme and host of any URL; ValueError if it has none."""
    scheme, _, rest = url.strip().partition("://")
    return read_origin(f"{scheme}://{re.split('[/?#]', rest, maxsplit=1)[0]}")


def _read_prefix(url: str) -> str:
    prefix = urlsplit(url.strip()).path.rstrip("/")
    if not re.fullmatch(URL_PREFIX, prefix):
        raise ValueError("the path of a public URL must have letters, digits and .~_- between slashes")
    if prefix.split("/")[1:2] and prefix.split("/")[1] in OWN_PATHS:
        raise ValueError(f"its path can't begin with /{prefix.split('/')[1]}, which is a path of the API itself")
    return prefix
