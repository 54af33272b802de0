"""Files that belong to a raster and go with its upload, where a workflow has the input `sidecars`."""

from collections.abc import Sequence
from pathlib import Path

from anabranch.cli.jobs.parameters import Parameters
from anabranch.client import Client
from anabranch.errors import NotFound
from anabranch.geo.aux_xml import read_aux
from anabranch.geo.sidecar_names import sidecar_names

__all__ = ["add_sidecars", "find_sidecars", "leave_out_sidecars"]

INPUT, SOURCE = "sidecars", "source"


def add_sidecars(client: Client, workflow: str, parameters: Parameters) -> Parameters:
    """The parameters with the sidecars of the source, unless they are given."""
    source = parameters.files.get(SOURCE)
    if source is None or INPUT in parameters.values or not (beside := find_sidecars(source)):
        return parameters
    return parameters.with_files(INPUT, beside) if _takes_sidecars(client, workflow) else parameters


def leave_out_sidecars(client: Client, workflow: str, files: Sequence[Path]) -> list[Path]:
    """The files without those that go with another of them."""
    folders = {folder: _list_files(folder) for folder in {file.parent for file in files}}
    beside = {
        folders[file.parent][name]
        for file in files
        for name in sidecar_names(file.name)
        if name in folders[file.parent]
    }
    kept = [file for file in files if file not in beside]
    return kept if len(kept) < len(files) and _takes_sidecars(client, workflow) else list(files)


def find_sidecars(file: Path) -> list[Path]:
    """The sidecars beside a file, one of each kind; one with statistics only is left out."""
    found: dict[str, Path] = {}
    present = _list_files(file.parent) if file.is_file() else {}
    for name, kind in sidecar_names(file.name).items():
        if name in present and (kind != "aux" or not _is_useless(present[name])):
            found.setdefault(kind, present[name])
    return list(found.values())


def _list_files(folder: Path) -> dict[str, Path]:
    """The files of a folder, by their names in lower case."""
    return {path.name.lower(): path for path in folder.iterdir() if path.is_file()}


def _is_useless(aux: Path) -> bool:
    """Whether nothing of an .aux.xml would be used: programs write statistics there whenever they show a raster."""
    try:
        return read_aux(aux).empty
    except (OSError, ValueError):
        return False  # the server says what is wrong with it


def _takes_sidecars(client: Client, workflow: str) -> bool:
    try:
        declared = client.workflow(workflow).inputs.get("properties", {})
    except NotFound:
        return False
    return bool(declared.get(INPUT, {}).get("type") == "array")
