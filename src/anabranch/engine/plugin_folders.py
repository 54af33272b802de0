"""Plugins that are folders: the Python files of one are a package, and import each other by their plain names."""

import builtins
import importlib
import importlib.util
import sys
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import ModuleType

from anabranch.engine.entry_points import FOLDER_PREFIX
from anabranch.errors import DefinitionError

__all__ = ["is_folder", "load_file", "name_origin", "open_folder"]


def is_folder(plugin: str) -> bool:
    """Whether a plugin is named by its folder, not as a module."""
    return "/" in plugin or plugin.startswith(".")


def open_folder(folder: Path) -> str:
    """Make a package of a folder, whose files are loaded from now on as they are; returns its name."""
    if not any(isinstance(finder, _FolderFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _FolderFinder())
    importlib.invalidate_caches()
    package = ModuleType(f"{FOLDER_PREFIX}{sha256(bytes(folder.resolve())).hexdigest()[:8]}")
    package.__path__ = [str(folder)]
    for name in [name for name in sys.modules if name.partition(".")[0] == package.__name__]:
        del sys.modules[name]
    sys.modules[package.__name__] = package
    return package.__name__


def load_file(package: str, path: Path) -> ModuleType:
    """The module of a file, which another file of its folder may have imported before."""
    if not path.is_file():
        raise DefinitionError("plugin.missing", f"there is no folder {path} with Python or YAML files in it")
    name = f"{package}.{path.stem.replace('.', '_')}"
    if name in sys.modules:
        return sys.modules[name]
    loader = _FolderLoader(name, str(path))
    module = importlib.util.module_from_spec(ModuleSpec(name, loader, origin=str(path)))
    module.__file__ = str(path)
    sys.modules[name] = module
    try:
        loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def name_origin(module: ModuleType) -> str:
    """Where a plugin's module is from: its file if it is one of a folder, else its name."""
    return str(module.__file__) if module.__name__.startswith(FOLDER_PREFIX) else module.__name__


class _FolderFinder(MetaPathFinder):
    """Finds the modules of plugin folders only."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        found = PathFinder.find_spec(name, path) if path and name.startswith(FOLDER_PREFIX) else None
        if found and isinstance(found.loader, SourceFileLoader):
            found.loader = _FolderLoader(found.loader.name, found.loader.path)
        return found


class _FolderLoader(SourceFileLoader):
    """Loads a file whose imports look into its plugin folder first. No other module sees them, nor does `sys.path`."""

    def exec_module(self, module: ModuleType) -> None:
        package = module.__name__.partition(".")[0]
        vars(module)["__builtins__"] = {**vars(builtins), "__import__": _make_import(package, module.__name__)}
        super().exec_module(module)


def _make_import(package: str, importer: str) -> Callable[..., ModuleType]:
    """What an import statement of a file calls: `import stats` is the `stats.py` of its folder, if there is one."""
    (folder,) = map(Path, sys.modules[package].__path__)

    def import_module(
        name: str,
        globals: Mapping[str, object] | None = None,  # noqa: A002  # as `__import__` has it
        locals: Mapping[str, object] | None = None,  # noqa: A002  # as `__import__` has it
        fromlist: Sequence[str] = (),
        level: int = 0,
    ) -> ModuleType:
        head = name.partition(".")[0]
        beside = f"{package}.{head}"
        is_there = (folder / f"{head}.py").is_file() or (folder / head / "__init__.py").is_file()
        if level or not is_there or beside == importer:  # `h3.py` may import the installed h3
            return builtins.__import__(name, globals, locals, fromlist, level)
        found = builtins.__import__(f"{package}.{name}", globals, locals, fromlist, 0)
        return found if fromlist else sys.modules[beside]

    return import_module
