"""Packages in a folder, with the metadata by which Python finds the entry points of installed ones."""

from collections.abc import Mapping
from pathlib import Path

__all__ = ["install_package"]


def install_package(folder: Path, name: str, groups: Mapping[str, Mapping[str, str]], **modules: str) -> None:
    """Write modules and the entry points of a package; it is installed where the folder is on the path."""
    for module, text in modules.items():
        (folder / f"{module}.py").write_text(text)
    metadata = folder / f"{name}-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = [
        line for group, points in groups.items() for line in (f"[{group}]", *(f"{k} = {v}" for k, v in points.items()))
    ]
    (metadata / "entry_points.txt").write_text("\n".join(lines) + "\n")
