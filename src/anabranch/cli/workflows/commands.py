"""`workflows`: the definitions of jobs; only `reload`, `pause` and `resume` need a stack."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from anabranch.canonical import decode
from anabranch.cli.connection import connect
from anabranch.cli.stack.limits import pause, resume
from anabranch.cli.terminal.options import Json, WorkflowName
from anabranch.cli.terminal.output import in_one_line, note, print_json, print_line, print_table
from anabranch.cli.workflows.definition import show_definition
from anabranch.cli.workflows.registry import load, read_file, summarize, warn_of_refused
from anabranch.cli.workflows.validation import validate_files, validate_registry
from anabranch.errors import DefinitionError, InputError
from anabranch.workflows.drawing.diagram import workflow_svg, workflow_text
from anabranch.workflows.yaml.json_schema import workflow_schema
from anabranch.workflows.yaml.load import load_yaml
from anabranch.workflows.yaml.write import write_yaml

__all__ = ["graph", "list_workflows", "pause_workflow", "reload", "resume_workflow", "schema", "show", "validate"]


def list_workflows(json: Json = False) -> None:
    """List the workflows, and those that were refused."""
    registry = load()
    found = [summarize(registry.declarations[name]) for name in sorted(registry.declarations)]
    if json:
        print_json({"items": found, "refused": [{"name": n, "reason": why} for n, why in registry.refused.items()]})
        return
    facts = ("workflow_id", "version", "nodes", "origin", "description")
    print_table(["workflow", *facts[1:]], ([in_one_line(getattr(flow, name)) for name in facts] for flow in found))
    _show_refused(registry.refused)


def show(
    workflow: WorkflowName,
    yaml: Annotated[bool, typer.Option("--yaml", help="Print it as a workflow file.")] = False,
    json: Json = False,
) -> None:
    """Show a workflow: its inputs, nodes and output."""
    registry = load()
    declared = registry.declaration(workflow)
    if json:
        definition = decode(declared.workflow.text)
        print_json({**summarize(declared).raw, "inputs": declared.inputs_schema, "definition": definition})
    elif yaml:
        print_line(write_yaml(declared.workflow, registry.handlers).removesuffix("\n"))
    else:
        show_definition(declared)


def schema() -> None:
    """Print the JSON Schema of workflow files, for editors."""
    print_json(workflow_schema())


def validate(
    files: Annotated[
        list[Path] | None, typer.Argument(metavar="[FILE]...", help="YAML files; by default all registered workflows.")
    ] = None,
    json: Json = False,
) -> None:
    """Validate workflows and print every mistake."""
    registry = load()
    if files:
        warn_of_refused(registry)
    report = validate_files(files, registry) if files else validate_registry(registry)
    if json:
        print_json([asdict(mistake) for mistake in report.mistakes])
    else:
        for mistake in report.mistakes:
            print_line(str(mistake))
    if report.mistakes:
        raise DefinitionError("workflow.invalid", str(report), remedy="Fix them, and validate again.")
    if not json:
        print_line(str(report))


def graph(
    workflow: Annotated[str, typer.Argument(metavar="WORKFLOW|FILE", help="A workflow's name, or its YAML file.")],
    svg: Annotated[bool, typer.Option("--svg", help="Draw it as SVG, not as text.")] = False,
    output: Annotated[Path | None, typer.Option(metavar="FILE", help="Write to FILE, not to stdout.")] = None,
) -> None:
    """Draw a workflow."""
    if "/" in workflow or workflow.endswith((".yaml", ".yml")):
        drawn = load_yaml(read_file(Path(workflow)), workflow).require()
    else:
        drawn = load().declaration(workflow).workflow
    drawing = workflow_svg(drawn) if svg else workflow_text(drawn)
    if output is None:
        print_line(drawing.removesuffix("\n"))
    else:
        _write(output, drawing)


def reload(json: Json = False) -> None:
    """Let the running API reload the workflow files."""
    with connect() as client:
        reloaded = client.reload_workflows()
    if json:
        print_json(reloaded)
        return
    changes = {name: getattr(reloaded, name) for name in ("added", "changed", "removed", "kept")}
    for name, workflows in changes.items():
        if workflows:
            print_line(f"{name:8} {', '.join(workflows)}")
    if not any(changes.values()):
        print_line("nothing changed")
    _show_refused(reloaded.refused)
    note("Python code is not reloaded, and workers do not serve new queues: for those, restart the stack.")


def pause_workflow(
    workflow: WorkflowName,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="The reason, shown to others.")] = "",
    json: Json = False,
) -> None:
    """Pause a workflow: no more tasks of its jobs start; running tasks continue."""
    pause("workflow", workflow, reason, json=json)


def resume_workflow(workflow: WorkflowName, json: Json = False) -> None:
    """Resume a paused workflow."""
    resume("workflow", workflow, json=json)


def _show_refused(refused: Mapping[str, str]) -> None:
    if not refused:
        return
    print_line("\nREFUSED")
    for name, reason in refused.items():
        lines = reason.splitlines() or [""]
        # Mistakes in a file begin with its name.
        print_line("\n".join(lines if lines[0].startswith(name) else [f"{name}: {lines[0]}", *lines[1:]]))


def _write(file: Path, text: str) -> None:
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(
            "output.unwritable", f"{file} can't be written: {error.strerror}", remedy="Name another file."
        ) from error
