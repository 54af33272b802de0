"""Many publications in a file, so that memory does not grow with their number."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from anabranch.plugins.stac.catalog import Layer, Publication
from anabranch.plugins.stac.item import PublishedOutput
from anabranch.plugins.stac.manifest import Manifest

__all__ = ["PublicationFile"]


class PublicationFile:
    """Publications that were validated, one line of JSON each; read in the order of their ids, as often as needed."""

    def __init__(self, path: Path) -> None:
        """An empty one."""
        self._path = path
        self._places: list[tuple[str, int]] = []
        path.touch()

    def extend(self, publications: Iterable[Publication]) -> None:
        """Append publications."""
        with self._path.open("ab") as file:
            for publication in publications:
                self._places.append((publication.id, file.tell()))
                file.write(json.dumps(asdict(publication)).encode() + b"\n")

    def __iter__(self) -> Iterator[Publication]:
        with self._path.open("rb") as file:
            for _, place in sorted(self._places):
                file.seek(place)
                yield _restore(json.loads(file.readline()))


def _restore(line: Mapping[str, Any]) -> Publication:  # as it was written
    outputs, manifest = [PublishedOutput(**one) for one in line["outputs"]], line["manifest"]
    made = line["document"], outputs, manifest and Manifest(**manifest), line["made_from"], line["expected"]
    return Publication(*made, layer=line["layer"] and Layer(**line["layer"]), is_valid=True)
