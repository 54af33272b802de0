"""Plugins bring handlers and workflows; the Registry holds what they brought, checked against each other."""

import importlib
import pkgutil
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import structlog

from anabranch.engine.advancing.lanes import INTERNAL_QUEUE, internal_queue, is_internal_queue
from anabranch.engine.entry_points import PLUGIN_GROUP, find_entry_points, version_of
from anabranch.engine.plugin_folders import is_folder, load_file, name_origin, open_folder
from anabranch.engine.worker.handler import handlers_in
from anabranch.errors import DefinitionError, NotFound
from anabranch.workflows.definition import Workflow
from anabranch.workflows.first_calls import find_first_calls
from anabranch.workflows.mistakes import Mistake, nearest
from anabranch.workflows.nesting import nest
from anabranch.workflows.nodes import AnyNode, FanInNode, FanOutNode
from anabranch.workflows.python import WorkflowFunction, functions_in
from anabranch.workflows.stages import Declaration, classes_in, declare
from anabranch.workflows.validation import find_handler_mistakes
from anabranch.workflows.work import DEFAULT_QUEUE, Breaker, Handler, HandlerWork
from anabranch.workflows.yaml.load import Loaded, load_yaml

__all__ = ["Registry", "load_plugins", "loaded_modules"]

MODULE_LIST_NAME = "PLUGIN_MODULES"
WORKFLOWS = "workflows"  # the folder of a plugin that has its workflow files
IMPORT_FOLDERS = tuple(f"{Path(file).parent}/" for file in (importlib.__file__, __file__))
log = structlog.get_logger()


@dataclass(frozen=True)
class _Function:
    """A workflow function, and where it was found."""

    origin: str
    function: WorkflowFunction[..., Any]


class Registry:
    """The handlers and workflows of this process. A later one replaces an earlier one of the same name.

    `refused` says why something can't be used: a plugin, a file or a job type; `broken` names the file of a workflow.
    What was taken once is not taken again: a module that only imports another's handler doesn't bring it.
    """

    def __init__(self) -> None:
        self.handlers: dict[str, Handler] = {}
        self.declarations: dict[str, Declaration] = {}
        self.refused: dict[str, str] = {}
        self.kept: set[str] = set()
        self._taken: set[object] = set()
        self._modules: dict[str, str] = {}
        self.broken: dict[str, str] = {}
        self._brought: list[Declaration | Path | _Function] = []
        self._loaded: dict[str, Loaded] = {}
        self._misfits: set[str] = set()

    def add(self, module: ModuleType) -> None:
        """Take what a module declares; its job types count once all handlers are known."""
        handlers = [found for found in handlers_in(vars(module)) if found not in self._taken]
        classes = [found for found in classes_in(vars(module)) if found not in self._taken]
        functions = [found for found in functions_in(vars(module)) if found not in self._taken]
        self._taken.update(handlers, classes, functions)
        origin = name_origin(module)
        for found in handlers:
            self._warn_if_known("handler", found.name, self.handlers, origin)
            self.handlers[found.name] = found
            self._modules[found.name] = module.__name__
        for found_class in classes:
            try:
                self._brought.append(replace(declare(found_class), origin=origin))
            except DefinitionError as error:
                self.refuse(f"{origin}:{found_class.__qualname__}", error.message)
        self._brought += [_Function(f"{origin}:{found.id}", found) for found in functions]

    def refuse(self, name: str, reason: str) -> None:
        """Note that a plugin or workflow can't be used; the others are not affected (G5)."""
        self.refused[name] = reason
        log.error("plugin.refused", name=name, reason=reason)

    def add_folder(self, folder: Path) -> None:
        """Take the workflows that the YAML files of a folder spell, once all handlers are known."""
        self._brought.append(folder)

    def resolve(self) -> None:
        """Resolve nodes by their handlers; only a workflow that does not match its handlers is refused (G5)."""
        before = set(self.refused)
        for brought in self._brought:
            for declared in self._load(brought):
                self._declare(declared)
        for name, declared in list(self.declarations.items()):
            if mistakes := find_handler_mistakes(declared.workflow, self.handlers):
                self.refuse(name, "; ".join(f"{mistake.path[1]}: {mistake.message}" for mistake in mistakes))
                self.broken[name] = declared.origin
                del self.declarations[name]
                continue
            nodes = tuple(self._resolve_node(node) for node in declared.workflow.nodes)
            workflow = replace(declared.workflow, nodes=nodes)
            first_calls = find_first_calls(workflow, self.handlers)
            self.declarations[name] = replace(declared, workflow=workflow, first_calls=first_calls)
        nested = nest(self.declarations, self.broken)
        for name, found in nested.refused.items():
            self._refuse_nested(name, found)
        self.declarations = nested.declarations
        self._loaded.clear()
        self._misfits = set(self.refused) - before

    def reread(self) -> "Registry":
        """A registry of the same code with the current workflow files.

        While one of them is refused, nothing is taken away: what is gone may have been in it, and is `kept`.
        """
        fresh = Registry()
        fresh.handlers, fresh._modules, fresh._brought = self.handlers, self._modules, self._brought
        fresh.refused = {name: reason for name, reason in self.refused.items() if name not in self._misfits}
        fresh.resolve()
        gone = self.declarations.keys() - fresh.declarations.keys()
        fresh.kept = gone if fresh._misfits else set()
        fresh.declarations |= {name: self.declarations[name] for name in fresh.kept}
        return fresh

    def declaration(self, workflow_id: str) -> Declaration:
        """The workflow with this id; NotFound names the nearest id and all known ones."""
        if workflow_id in self.declarations:
            return self.declarations[workflow_id]
        if reason := self.refused.get(workflow_id) or self.refused.get(self.broken.get(workflow_id, "")):
            said = f"workflow {workflow_id!r} was refused: {reason}"
        else:
            said = "; ".join([f"there is no workflow {workflow_id!r}", *self._unread()])
        known = f"Known: {', '.join(sorted(self.declarations)) or 'none'}. Plugins are named by ANABRANCH_PLUGINS."
        remedy = f"{nearest(workflow_id, list(self.declarations))} {known}".strip()
        raise NotFound("workflow.not_found", said, remedy=remedy)

    def _unread(self) -> list[str]:
        """What was refused before its workflows were known: one that is missing may be in there."""
        known = {*self.broken, *self.broken.values()}
        return [f"{name} was refused: {reason}" for name, reason in self.refused.items() if name not in known]

    @property
    def versions(self) -> dict[str, str]:
        """The version of each handler: its own, else that of the installed package that it is in, else 0."""
        return {name: found.version or version_of(self._modules.get(name, "")) for name, found in self.handlers.items()}

    @property
    def breakers(self) -> dict[str, Breaker]:
        """The breakers of handlers, by name."""
        return {name: found.breaker for name, found in self.handlers.items() if found.breaker is not None}

    @property
    def workflows(self) -> list[Workflow]:
        """Every workflow, by name."""
        return [self.declarations[name].workflow for name in sorted(self.declarations)]

    @property
    def queues(self) -> list[str]:
        """Every queue that a registered workflow names, and the engine's own."""
        working = [node if isinstance(node, FanInNode) else node.work for flow in self.workflows for node in flow.nodes]
        named = {work.queue for work in working if isinstance(work, FanInNode | HandlerWork) and work.queue}
        internal = {INTERNAL_QUEUE, *(internal_queue(workflow.id) for workflow in self.workflows)}
        return sorted(named | {DEFAULT_QUEUE} | internal)

    def serve(self, chosen: Sequence[str]) -> list[str]:
        """The queues that a worker serves: those chosen, or all; and the engine's own, which every worker serves."""
        if unknown := sorted({*chosen} - {*self.queues}):
            log.warning("queue.unknown", queues=unknown, remedy="No registered workflow names them.")
        return sorted({*chosen, *filter(is_internal_queue, self.queues)}) if chosen else self.queues

    def _declare(self, declared: Declaration) -> None:
        name = declared.workflow.id
        self._warn_if_known("workflow", name, self.declarations, declared.origin)
        self.declarations[name] = declared
        for method in declared.ignored:
            log.warning("job.method_ignored", job_type=name, method=method)

    def _load(self, brought: "Declaration | Path | _Function") -> Iterator[Declaration]:
        match brought:
            case Declaration():
                yield brought
            case Path():
                yield from self._load_folder(brought)
            case _Function():
                if workflow := self._take(brought.origin, brought.function.load(self.handlers)):
                    yield Declaration(workflow, origin=brought.origin)

    def _take(self, origin: str, loaded: Loaded) -> Workflow | None:
        """The workflow of a file or a function, kept to place later mistakes; one with mistakes is refused."""
        if loaded.workflow is None:
            self.refuse(origin, "\n".join(map(str, loaded.mistakes)))
            if loaded.draft is not None:
                self.broken.setdefault(loaded.draft.id, origin)
        else:
            self._loaded[origin] = loaded
        return loaded.workflow

    def _load_folder(self, folder: Path) -> Iterator[Declaration]:
        found: dict[str, Path] = {}
        for file in _yaml_in(folder):
            try:
                loaded = load_yaml(file.read_bytes(), str(file), self.handlers)
            except OSError as error:
                self.refuse(str(file), str(error))
                continue
            workflow = self._take(str(file), loaded)
            if workflow is not None and (first := found.setdefault(workflow.id, file)) != file:
                self.refuse(str(file), f"the workflow_id {workflow.id!r} is that of {first.name}, too")
            elif workflow is not None:
                yield Declaration(workflow, origin=str(file))

    def _refuse_nested(self, name: str, mistakes: Sequence[Mistake]) -> None:
        """Refuse a workflow for those it runs; one of a file by the file's name, with the places."""
        origin = self.declarations[name].origin
        self.broken[name] = origin
        if loaded := self._loaded.get(origin):
            self.refuse(origin, "\n".join(map(str, loaded.with_mistakes(mistakes).mistakes)))
        else:
            self.refuse(name, "; ".join(f"{mistake.path[1]}: {mistake.message}" for mistake in mistakes))

    def _resolve_node(self, node: AnyNode) -> AnyNode:
        work = node.work
        if not isinstance(work, HandlerWork) or (found := self.handlers.get(work.handler)) is None:
            return node
        decided = replace(
            work,
            queue=work.queue or found.queue,
            timeout=work.timeout or found.timeout,
            retry=work.retry or found.retry,
        )
        return replace(node, task=decided) if isinstance(node, FanOutNode) else decided  # type: ignore[return-value]  # a task is its own work

    def _warn_if_known(self, kind: str, name: str, known: Iterable[str], plugin: str) -> None:
        if name in known:
            log.warning("plugin.overrides", kind=kind, name=name, plugin=plugin)


def load_plugins(extra: Iterable[str] = (), *, resolved: bool = True) -> Registry:
    """What plugins bring: ours, then other installed ones by name, then the extra modules, packages or folders.

    One that isn't `resolved` has the handlers, and no workflow before `resolve` is called.
    """
    registry = Registry()
    for plugin in [*(point.value for point in find_entry_points(PLUGIN_GROUP)), *extra]:
        for name, load in _loaders(plugin):
            try:
                module = load()
                registry.add(module)
                for folder in map(Path, getattr(module, "__path__", ())):
                    registry.add_folder(folder)
                    registry.add_folder(folder / WORKFLOWS)
            except (Exception, SystemExit) as error:  # noqa: BLE001  # a plugin's code may do anything when imported
                registry.refuse(name, _explain(error))
        if is_folder(plugin):
            registry.add_folder(Path(plugin).expanduser())
            registry.add_folder(Path(plugin).expanduser() / WORKFLOWS)
    if resolved:
        registry.resolve()
    return registry


def _explain(error: BaseException) -> str:
    """What a plugin raised when it was loaded, and in which line of its own code."""
    if isinstance(error, DefinitionError):  # it says by itself what is wrong, and where
        return str(error)
    said = f"{type(error).__name__}: {error}"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.endswith(".py")]
    theirs = [frame for frame in frames if not frame.filename.startswith(IMPORT_FOLDERS)]
    if not theirs or isinstance(error, SyntaxError):  # which names its file and line
        return said
    last = [frame for frame in theirs if Path(frame.filename).parent == Path(theirs[0].filename).parent][-1]
    return f"{said} ({Path(last.filename).name}, line {last.lineno})"


def loaded_modules(extra: Iterable[str] = ()) -> list[str]:
    """The modules that plugins have brought into this process, but for those of folders, which have no name to load."""
    named = [point.value for point in find_entry_points(PLUGIN_GROUP)] + [name for name in extra if not is_folder(name)]
    return [module for plugin in named for module in (plugin, *_submodules(plugin)) if module in sys.modules]


def _loaders(plugin: str) -> Iterator[tuple[str, Callable[[], ModuleType]]]:
    if is_folder(plugin):
        folder = Path(plugin).expanduser()
        package = open_folder(folder)
        modules = sorted(path for path in folder.glob("*.py") if not _is_test(path))
        spelled = any(_yaml_in(folder)) or any(_yaml_in(folder / WORKFLOWS))
        for path in modules if modules or spelled else [folder]:
            yield str(path), partial(load_file, package, path)
        return
    yield plugin, partial(_import, plugin)
    for name in _submodules(plugin):
        yield name, partial(importlib.import_module, name)


def _import(plugin: str) -> ModuleType:
    try:
        return importlib.import_module(plugin)
    except ModuleNotFoundError as error:
        if error.name != plugin or not Path(plugin).is_dir():
            raise
        said = f"there is no module {plugin!r}, but a folder: write './{plugin}'"
        raise DefinitionError("plugin.missing", said) from None


def _submodules(plugin: str) -> list[str]:
    """Those that a package says it brings handlers in, else all."""
    package = sys.modules.get(plugin)
    if (named := getattr(package, MODULE_LIST_NAME, None)) is not None:
        return [f"{plugin}.{name}" for name in named]
    return [found.name for found in pkgutil.walk_packages(getattr(package, "__path__", ()), f"{plugin}.")]


def _is_test(path: Path) -> bool:
    """Whether pytest reads a file; tests may stand beside the code that they test."""
    return path.name.startswith("test_") or path.stem.endswith("_test") or path.name == "conftest.py"


def _yaml_in(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*.y*ml") if path.suffix in (".yaml", ".yml"))
