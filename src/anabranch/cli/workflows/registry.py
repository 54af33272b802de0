"""The handlers and workflows of the plugins on this machine, loaded without a stack."""

from pathlib import Path

from anabranch.cli.setup import prepare
from anabranch.cli.terminal.output import note
from anabranch.contract.answer import build
from anabranch.contract.workflows import WorkflowFields
from anabranch.engine.registry import Registry, load_plugins
from anabranch.errors import InputError
from anabranch.workflows.stages import Declaration

__all__ = ["load", "read_file", "summarize", "warn_of_refused"]

MAX_FILE_BYTES = 10_000_000  # the loader refuses a much smaller file


def load() -> Registry:
    """The handlers and workflows of the installed and the configured plugins."""
    return load_plugins(prepare(quiet=True).plugins)


def summarize(declared: Declaration) -> WorkflowFields:
    """A workflow as an entry of a list."""
    workflow = declared.workflow
    return build(WorkflowFields, workflow, workflow_id=workflow.id, nodes=len(workflow.nodes), origin=declared.origin)


def warn_of_refused(registry: Registry) -> None:
    """Warn about refused plugins and files."""
    for name in registry.refused:
        note(f"warning: {name} can't be used; `anabranch workflows validate` shows why")


def read_file(file: Path) -> bytes:
    """The content of a workflow file; InputError if it can't be read."""
    try:
        with file.open("rb") as opened:
            return opened.read(MAX_FILE_BYTES)
    except OSError as error:
        raise InputError(
            "file.unreadable",
            f"{file} can't be read: {error.strerror}",
            remedy="Name a YAML file that contains a workflow.",
        ) from error
