"""The docs build strictly, load nothing from elsewhere, and name every command, setting and notice."""

import json
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import yaml

from anabranch.api.openapi.document import load_document
from anabranch.cli import main
from anabranch.contract.webhooks import EVENTS
from anabranch.plugins import raster
from anabranch.settings import Settings, load_settings
from tests.support.pages import PAGES, read_blocks

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"


class LoadedAddresses(HTMLParser):
    """Collects what a page loads by itself; where its anchors lead is the reader's choice."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag != "a":
            self.found += [value for name, value in attrs if name in {"href", "src", "srcset", "data"} and value]


def loaded_from_elsewhere(html: str) -> list[str]:
    parser = LoadedAddresses()
    parser.feed(html)
    return [address for address in parser.found if address.lower().startswith(("http:", "https:", "//"))]


# Without --quiet: it hides warnings from --strict.
def build(project: Path, site: Path) -> subprocess.CompletedProcess[str]:
    program = Path(sys.executable).with_name("mkdocs")
    command = [str(program), "build", "--strict", "--site-dir", str(site)]
    return subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    result = build(ROOT, folder)
    assert result.returncode == 0, result.stderr
    return folder


def test_no_page_loads_anything_from_another_origin(site: Path) -> None:
    pages = {str(page.relative_to(site)): loaded_from_elsewhere(page.read_text()) for page in site.rglob("*.html")}
    assert "index.html" in pages
    assert {page: found for page, found in pages.items() if found} == {}


def test_no_stylesheet_loads_anything_from_another_origin(site: Path) -> None:
    sheets = [sheet.read_text() for sheet in site.rglob("*.css")]
    assert sheets
    assert [sheet for sheet in sheets if "url(http" in sheet or "url(//" in sheet or "@import" in sheet] == []


def test_the_examples_can_be_read_in_the_repository_and_on_the_site(site: Path) -> None:
    assert [page for page in PAGES if page.startswith("docs") and "--8<--" in (ROOT / page).read_text()] == []
    page, shown = "docs/tutorial/examples.md", (site / "tutorial" / "examples.html").read_text()
    links = re.findall(r"\]\(\.\./\.\./(examples/\S+)\)", (ROOT / page).read_text())
    assert {path.name for path in (ROOT / "examples").iterdir() if path.is_dir()} <= {
        link.split("/")[1] for link in links
    }
    assert [link for link in links if not (ROOT / link).is_file() or f"../../{link}" in shown] == []
    assert all(words in shown for words in ("ANABRANCH_PLUGINS", "read_footprint", "publish_reviewed"))


ELSEWHERE = ("/ogc/", "/stac", "/raster", "/features", "/files", "/ui", "/docs", "/openapi.json", "/errors")


def read_routes(cell: str) -> Iterator[tuple[str, str]]:
    """The routes of a cell like "`GET` and `PUT /a/{b}`, `POST /c/pause`, `…/resume`"."""
    method, path = "", ""
    for word in re.findall("`(.*?)`", re.sub(r"`([A-Z]+)` and `([A-Z]+) (\S+)`", r"`\1 \3`, `\2 \3`", cell)):
        if word.startswith("…"):
            path = path.rpartition("/")[0] + word.removeprefix("…")
        else:
            method, path = word.split()
        yield method, re.sub(r"{\w+}", "{}", path.partition("?")[0])


def test_the_table_of_routes_has_every_route_of_the_api() -> None:
    cells = re.findall(r"^\| (`[A-Z].*?) \| ", (REFERENCE / "http.md").read_text(), re.MULTILINE)
    listed = {route for cell in cells for route in read_routes(cell)}
    document = json.loads((ROOT / "src/anabranch/api/openapi/document.json").read_text())
    served = {
        (method.upper(), re.sub(r"{\w+}", "{}", path))
        for path, operations in document["paths"].items()
        for method in operations
        if path != "/" and not path.startswith(ELSEWHERE)
    }
    assert {route for route in listed if not route[1].startswith(ELSEWHERE)} == served


def test_a_script_from_another_origin_is_noticed() -> None:
    html = '<a href="https://elsewhere.example">fine</a><script src="https://elsewhere.example/x.js"></script>'
    assert loaded_from_elsewhere(html) == ["https://elsewhere.example/x.js"]


def test_a_broken_link_fails_the_build(tmp_path: Path) -> None:
    for folder in ("docs", "examples", "scripts"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    shutil.copy(ROOT / "mkdocs.yml", tmp_path)
    with (tmp_path / "docs" / "index.md").open("a") as page:
        page.write("\n[nowhere](planted.md)\n")

    result = build(tmp_path, tmp_path / "site")

    assert result.returncode != 0
    assert "planted.md" in result.stderr


def commands(command: Any, path: str = "anabranch") -> Iterator[tuple[str, Any]]:  # typer's own classes are private
    if children := getattr(command, "commands", None):
        for name, child in children.items():
            yield from commands(child, f"{path} {name}")
    else:
        yield path, command


def loaded_commands() -> Iterator[tuple[str, Any]]:
    for path, command in commands(main.build()):
        yield from commands(command.load(), path)


@pytest.mark.parametrize(("path", "command"), list(commands(main.build())))
def test_the_list_of_commands_describes_each_as_its_own_help_does(path: str, command: Any) -> None:
    assert command.help == command.load().help


@pytest.mark.parametrize(("path", "command"), list(loaded_commands()))
def test_every_command_is_in_the_reference_with_its_options(path: str, command: Any) -> None:
    text = (REFERENCE / "cli.md").read_text()
    assert f"`{path}" in text
    options = [
        name for parameter in command.params if not getattr(parameter, "hidden", False) for name in parameter.opts
    ]
    assert [name for name in options if name.startswith("-") and name not in text] == []


SPOKEN = re.compile(r"`anabranch ([a-z][^`\n]*)`")


def find_unknown_word(words: list[str]) -> str | None:
    """The first word of a command that names no command and no option of it."""
    command: Any = main.build()
    while words and (children := getattr(command, "commands", None)):
        if words[0] not in children:
            return words[0] if re.fullmatch("[a-z-]+", words[0]) else None
        command = children[words.pop(0)]
        command = command.load() if hasattr(command, "load") else command
    known = {"--help", *(name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts))}
    return next((word for word in words if re.match("--?[a-z]", word) and word.partition("=")[0] not in known), None)


def test_every_command_that_a_sentence_of_the_docs_or_of_an_error_names_exists() -> None:
    """Blocks of commands are run; this is about those within text."""
    files = [*map(ROOT.joinpath, PAGES), *(ROOT / "src").rglob("*.py")]
    spoken = {command: file for file in files for command in SPOKEN.findall(file.read_text())}
    unknown = {command: word for command in spoken if (word := find_unknown_word(command.split()))}
    assert len(spoken) > 100
    assert unknown == {}
    assert (find_unknown_word(["jobs", "--lable", "a=b"]), find_unknown_word(["item", "list"])) == ("--lable", "item")


def read_lines(text: str) -> list[Any]:
    """A value, or one in each line."""
    try:
        return [json.loads(text)]
    except json.JSONDecodeError:
        return [json.loads(line) for line in text.splitlines()]


READERS: dict[str, Callable[[str], Any]] = {"json": read_lines, "toml": tomllib.loads, "yaml": yaml.safe_load}


@pytest.mark.parametrize("page", PAGES)
def test_every_block_of_data_can_be_read(page: str) -> None:
    for block in read_blocks(page, *READERS):
        assert READERS[block.language](block.text)


def test_the_configuration_file_of_the_reference_is_valid(tmp_path: Path) -> None:
    (block,) = read_blocks("docs/reference/configuration.md", "toml")
    (tmp_path / "anabranch.toml").write_text(block.text)
    assert load_settings(home=tmp_path).port == 9000


@pytest.mark.parametrize(("name", "field"), list(Settings.model_fields.items()))
def test_every_setting_is_in_the_reference_with_its_default(name: str, field: Any) -> None:
    default = f"`{field.default}` |" if isinstance(field.default, int | float | str) else ""
    assert f"| `{name}` | {default}" in (REFERENCE / "configuration.md").read_text()
    assert field.description


RASTERS = ROOT / "docs" / "explanation" / "rasters.md"


def test_every_event_is_in_the_how_to_and_in_the_document() -> None:
    text = (ROOT / "docs" / "howto" / "webhooks.md").read_text()
    named = re.findall(r"`((?:job|release|webhook)\.[a-z_]+)`", text)
    described = [
        schema["properties"]["type"] for schema in (
            path["post"]["requestBody"]["content"]["application/json"]["schema"]
            for path in load_document()["webhooks"].values()
        )
    ]  # fmt: skip
    assert set(named) == set(EVENTS)
    assert {event for one in described for event in one.get("enum", [one.get("const")])} == set(EVENTS)


def test_every_notice_is_on_the_page() -> None:
    source = "".join(file.read_text() for file in Path(raster.__path__[0]).rglob("*.py"))
    codes = set(re.findall(r'Notice\(\s*code="([a-z._]+)"', source))
    assert len(codes) >= 8
    assert [code for code in sorted(codes) if f"`{code}`" not in RASTERS.read_text()] == []


def test_every_invariant_has_a_test_and_every_one_that_code_names_is_on_the_page() -> None:
    known = set(re.findall(r"(?m)^- \*\*([A-Z]\d+)\*\*", (REFERENCE / "invariants.md").read_text()))
    sources = [file.read_text() for kind in ("py", "sql") for file in (ROOT / "src").rglob(f"*.{kind}")]
    named = {name for source in sources for names in re.findall(r"\(([A-Z]\d+(?:, [A-Z]\d+)*)\)", source)
             for name in names.split(", ")}  # fmt: skip
    assert named - known == set()
    tests = [file.read_text() for file in (ROOT / "tests").rglob("test_*.py")]
    proved = {name.upper() for test in tests for names in re.findall(r"def test((?:_[a-z]\d+)+)_", test)
              for name in names.strip("_").split("_")}  # fmt: skip
    assert known - proved == set()
