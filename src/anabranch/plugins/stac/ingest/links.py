"""The links of a static catalog: to files of the same tier, below the folder of its root, and never elsewhere (S3)."""

import posixpath
from collections.abc import Iterator
from urllib.parse import unquote

from anabranch.canonical import Json
from anabranch.errors import AnabranchError, InputError
from anabranch.plugins.stac.ingest.hrefs import is_web_url
from anabranch.plugins.stac.ingest.records import Place, Refused
from anabranch.storage.addresses import parse_address

__all__ = ["find_links"]

FOLLOWED = ("item", "items", "child")


def find_links(document: Json, place: Place, folder: str) -> Iterator[str | Refused]:
    """The addresses that a catalog or a collection leads to, and the links that lead elsewhere."""
    if not isinstance(document, dict) or document.get("type") not in ("Catalog", "Collection"):
        return
    links = document.get("links")
    for link in links if isinstance(links, list) else ():
        if not isinstance(link, dict) or link.get("rel") not in FOLLOWED:
            continue
        try:
            yield _resolve(link.get("href"), place.file, folder)
        except AnabranchError as error:
            yield Refused.of(place, error)


def _resolve(href: Json, file: str, folder: str) -> str:
    shown = ascii(str(href)[:120])
    remedy = "Put the files below one folder of a tier, with relative links; nothing is fetched from elsewhere."
    if not isinstance(href, str) or is_web_url(href) or ":" in href.partition("/")[0] or href.startswith("/"):
        raise InputError("ingest.link", f"the link {shown} leads out of the catalog's folder", remedy=remedy)
    tier, _, path = file.partition("://")
    key = posixpath.normpath(posixpath.join(posixpath.dirname(path), unquote(href.partition("#")[0])))
    address = f"{tier}://{key}"
    if key.startswith("../") or not address.startswith(folder):
        raise InputError("ingest.link", f"the link {shown} leads out of {folder}", remedy=remedy)
    return str(parse_address(address))
