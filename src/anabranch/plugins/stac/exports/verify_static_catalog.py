"""Reads a static catalog by pystac, following its links, and compares it with what is published."""

import json
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from pathlib import Path

import pystac

from anabranch.errors import AnabranchError, Permanent
from anabranch.plugins.stac.exports.snapshot import Document
from anabranch.plugins.stac.exports.static_catalog import ROOT_FILE
from anabranch.plugins.stac.validation.validate import validate

__all__ = ["verify_static_catalog"]


def verify_static_catalog(folder: Path, documents: Iterable[Document]) -> None:
    """Refuse a catalog whose documents are not valid STAC, or not the given ones, in their order."""
    try:
        for found, expected in zip_longest(_walk(folder), map(_facts_of, documents)):
            if found != expected:
                raise _wrong(f"pystac reads {str(found)[:500]}, and not {str(expected)[:500]}")
    except (pystac.STACError, OSError, ValueError, KeyError) as error:
        raise _wrong(f"pystac can't read it: {error}") from error


def _walk(folder: Path) -> Iterator[Document]:
    """What pystac finds from the root on, one document at a time: an item that was read is not kept."""
    root = pystac.Catalog.from_file(_check(folder / ROOT_FILE))
    for child in root.get_child_links():
        collection = pystac.Collection.from_file(_check_link(child))
        yield _facts_of(collection.to_dict(include_self_link=False, transform_hrefs=False))
        for link in collection.get_item_links():
            item = pystac.Item.from_file(_check_link(link))
            yield _facts_of(item.to_dict(include_self_link=False, transform_hrefs=False))


def _facts_of(document: Document) -> Document:
    """What a reader must find as it is published."""
    facts = {key: document.get(key) for key in ("type", "id", "collection", "geometry", "bbox", "extent")}
    return {**facts, "assets": {key: asset["href"] for key, asset in document.get("assets", {}).items()}}


def _check_link(link: pystac.Link) -> str:
    return _check(Path(link.get_absolute_href() or ""))


def _check(path: Path) -> str:
    """The path of a document that is valid."""
    try:
        validate(json.loads(path.read_bytes()), accept_unknown=True)  # its publisher has accepted what is unknown
    except AnabranchError as error:
        raise _wrong(error.message) from error
    return str(path)


def _wrong(what: str) -> Permanent:
    return Permanent(f"the static catalog is wrong: {what}", code="export.wrong")
