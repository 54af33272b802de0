"""Makes a release in dist/ from what is committed: sdist, wheel, SBOM, licence report and checksums.

It refuses a tree with changes, and a version without a section in the changelog. `make release` runs it.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
LOCK = Path("deploy") / "image" / "requirements.lock"
PIN = re.compile(r"^(?P<name>[\w.-]+)==(?P<version>[^\s;]+)[^\n]*\n(?P<hashes>(?: +--hash=\S+[ \\]*\n)*)", re.MULTILINE)


@dataclass(frozen=True)
class Package:
    """A locked package, with the licence that its own metadata states."""

    name: str
    version: str
    licence: str
    hashes: tuple[str, ...]

    @property
    def url(self) -> str:
        """Its package URL."""
        return f"pkg:pypi/{self.name}@{self.version}"


def main(target: Path = ROOT / "dist") -> None:
    """Make the release, or exit with what is missing."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    require_clean_tree()
    require_changes(project["version"])
    shutil.rmtree(target, ignore_errors=True)
    build(target)
    packages = list(read_packages())
    name = f"{project['name']}-{project['version']}"
    (target / f"{name}.cdx.json").write_text(json.dumps(make_sbom(project, packages), indent=2) + "\n")
    (target / f"{name}-licenses.md").write_text(make_licence_report(packages))
    made = sorted(target.iterdir())
    (target / "SHA256SUMS").write_text("".join(f"{hash_file(file)}  {file.name}\n" for file in made))
    sys.stdout.write("".join(f"{file}\n" for file in sorted(target.iterdir())))


def require_clean_tree() -> None:
    """Exit if something is not committed: it would be in the release, and in no commit."""
    if changes := run("git", "status", "--porcelain"):
        sys.exit(f"release: commit or remove these first:\n{changes}")


def require_changes(version: str) -> None:
    """Exit if the changelog has no dated section for this version, or one that says nothing, or later changes."""
    sections = read_sections((ROOT / "CHANGELOG.md").read_text())
    if not re.search(r"^- ", sections.get(version, ""), re.MULTILINE):
        sys.exit(f"release: CHANGELOG.md has no section '## {version} - YYYY-MM-DD' with changes")
    if re.search(r"^- ", sections.get("Unreleased", ""), re.MULTILINE):
        sys.exit(f"release: CHANGELOG.md has changes under 'Unreleased': move them to {version}")


def read_sections(changelog: str) -> dict[str, str]:
    """The text of each section by its version; those of releases have a date."""
    found = re.split(r"^## (Unreleased|\S+(?= - \d{4}-\d\d-\d\d$)).*\n", changelog, flags=re.MULTILINE)
    return dict(zip(found[1::2], found[2::2], strict=True))


def build(target: Path) -> None:
    """The sdist and the wheel; the same commit gives the same bytes."""
    environment = {**os.environ, "SOURCE_DATE_EPOCH": run("git", "log", "-1", "--format=%ct")}
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-d", target], cwd=ROOT, env=environment, check=True)


def read_packages() -> Iterator[Package]:
    """What the runtime lock installs on this platform."""
    for pin in PIN.finditer((ROOT / LOCK).read_text()):
        try:
            installed = distribution(pin["name"])
        except PackageNotFoundError:
            continue  # for other platforms
        if installed.version != pin["version"]:
            continue  # for other versions of Python
        hashes = re.findall(r"--hash=sha256:(\w+)", pin["hashes"])
        yield Package(pin["name"], pin["version"], find_licence(installed), tuple(hashes))


def find_licence(installed: Distribution) -> str:
    """The licence: the SPDX expression, else the classifiers, else the first line of the old field, else its file."""
    facts = installed.metadata
    classifiers = [
        text.rpartition(" :: ")[2] for text in facts.get_all("Classifier", []) if text.startswith("License ::")
    ]
    first_line = (facts.get("License") or "").strip().partition("\n")[0]
    files = [f"in its file {name}" for name in facts.get_all("License-File", [])]
    return facts.get("License-Expression") or ", ".join(classifiers or [first_line] * bool(first_line) or files)


def make_sbom(project: dict[str, Any], packages: Sequence[Package]) -> dict[str, Any]:
    """The packages as a CycloneDX document."""
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": project["name"],
                "name": project["name"],
                "version": project["version"],
                "licenses": [{"expression": project["license"]}],
            }
        },
        "components": [describe(package) for package in packages],
        "dependencies": [{"ref": project["name"], "dependsOn": [package.url for package in packages]}],
    }


def describe(package: Package) -> dict[str, Any]:
    """A package as a component; each file that the lock allows is a distribution with its hash."""
    return {
        "type": "library",
        "bom-ref": package.url,
        "name": package.name,
        "version": package.version,
        "purl": package.url,
        "licenses": [{"license": {"name": package.licence}}],
        "properties": [{"name": "anabranch:locked:sha256", "value": value} for value in package.hashes],
    }


def make_licence_report(packages: Sequence[Package]) -> str:
    """A table of the packages and their licences."""
    rows = "".join(f"| {package.name} | {package.version} | {package.licence} |\n" for package in packages)
    head = "# Licences of the packages of a full installation\n\n| package | version | licence |\n|---|---|---|\n"
    return head + rows


def hash_file(file: Path) -> str:
    """The SHA-256 of a file."""
    return hashlib.sha256(file.read_bytes()).hexdigest()


def run(*command: str) -> str:
    """What a command prints."""
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    main()
