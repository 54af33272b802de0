"""The files of the pages: compiled from their sources, light, and rendered without gaps."""

import gzip
import os
import re
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
from fastapi import Request
from jinja2 import Environment, FileSystemLoader, meta
from pydantic import ValidationError
from rio_tiler.colormap import cmap

from anabranch.api.pages.navigation import PLACES
from anabranch.api.pages.rendering import FOLDER, find_policy
from anabranch.api.pages.words import SIGNS, ago, find_sign, link, spell_bytes, spell_json
from anabranch.enums import JobState, NodeStatus
from anabranch.public_url import PAGES
from anabranch.settings import Settings

ROOT = Path(__file__).parents[2]
TOOLS = ROOT / ".cache" / "pages" / "installed.json"
MAX_SCRIPT_BYTES = 60_000
NOW = datetime(2026, 11, 19, 12, tzinfo=UTC)


def test_the_scripts_are_what_their_sources_compile_to(tmp_path: Path) -> None:
    if not TOOLS.exists():
        pytest.skip("the compiler is not there; `make pages` fetches it, with npm")
    subprocess.run([ROOT / "scripts" / "pages", tmp_path], cwd=ROOT, env=os.environ, check=True, capture_output=True)
    compiled = {str(path.relative_to(tmp_path)): path.read_text() for path in tmp_path.rglob("*.js")}
    committed = {name: (FOLDER / "static" / name).read_text() for name in compiled}
    assert compiled
    assert compiled == committed, "run `make pages`"


def test_the_scripts_without_the_map_are_light() -> None:
    static = FOLDER / "static"
    scripts = [path for path in static.rglob("*.js") if path.parts[len(static.parts)] != "map"]
    assert len(scripts) > 10
    assert sum(len(gzip.compress(script.read_bytes())) for script in scripts) < MAX_SCRIPT_BYTES


def test_templates_have_no_scripts_or_styles_of_their_own() -> None:
    """The policy of the pages stops them; attributes of htmx that evaluate text are off, too."""
    for template in FOLDER.joinpath("templates").rglob("*.html"):
        text = template.read_text()
        assert not re.search(r"<style|\sstyle=|<script(?![^>]*\ssrc=)|\son\w+=|hx-on|hx-vals=.js:|\|\s*safe\b", text), (
            template
        )
        assert not re.search(r'(?:src|href|action)="/', text), f"{template}: use link(), which knows the root"


def test_every_template_that_is_named_exists() -> None:
    environment = Environment(loader=FileSystemLoader(FOLDER / "templates"), autoescape=True)
    for name in environment.list_templates():
        source = Path(FOLDER / "templates" / name).read_text()
        for used in meta.find_referenced_templates(environment.parse(source)):
            assert used is None or (FOLDER / "templates" / used).exists(), (name, used)


def test_s1_every_page_is_known_to_who_admits_callers() -> None:
    first = {place.path.split("/")[1] for place in PLACES} - {"", "docs"}
    assert first <= PAGES


def test_every_status_has_a_mark_and_a_word() -> None:
    assert {*JobState, *NodeStatus} <= SIGNS.keys()
    marks = {sign.kind: set[str]() for sign in SIGNS.values()}
    for sign in SIGNS.values():
        assert sign.mark
        assert sign.word
        marks[sign.kind].add(sign.mark)
    assert marks["good"].isdisjoint(marks["bad"])
    assert find_sign("dead_letter").word == "Dead letter"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.2, "now"),
        (5, "5 s ago"),
        (119, "119 s ago"),
        (125, "2 min ago"),
        (7300, "2 h ago"),
        (-3700, "in 1 h"),
        (200_000, "2 d ago"),
    ],
)
def test_times_are_relative(seconds: float, words: str) -> None:
    assert ago(NOW - timedelta(seconds=seconds), NOW) == words


def test_links_leave_out_what_says_nothing() -> None:
    assert link("/jobs", status="failed", workflow=None, q="a&b") == "/jobs?status=failed&q=a%26b"
    assert link("/jobs", status="") == "/jobs"


def test_long_json_is_cut_and_says_so() -> None:
    assert "the API has all of it" in spell_json(["x" * 30_000])
    assert spell_json({"n": 1}) == '{\n  "n": 1\n}'
    assert spell_bytes(1_234_000) == "1.2 MB"


def test_the_ramps_of_the_legend_are_those_of_the_server() -> None:
    text = (FOLDER / "islands" / "map" / "layers" / "ramps.ts").read_text()
    ramps = dict(re.findall(r'^  (\w+): "([0-9a-f ]+)",$', text, re.MULTILINE))
    assert len(ramps) > 10
    for name, colours in ramps.items():
        known = cmap.get(name)
        steps = [known[value][:3] for value in (0, 32, 64, 96, 128, 159, 191, 223, 255)]
        assert colours.split() == ["{:02x}{:02x}{:02x}".format(*step) for step in steps], name


def test_the_policy_allows_the_origin_of_the_base_map_and_no_other() -> None:
    def policy(basemap: str | None) -> str:
        app = SimpleNamespace(state=SimpleNamespace(settings=SimpleNamespace(basemap=basemap)))
        return find_policy(Request({"type": "http", "app": app}))

    assert "connect-src 'self';" in policy(None)
    assert policy("/base/{z}/{x}/{y}.png") == policy(None)
    given = policy("https://Tiles.example.org:8443/{z}/{x}/{y}.png?key=1#2")
    assert given == policy(None).replace("connect-src 'self'", "connect-src 'self' https://tiles.example.org:8443")


@pytest.mark.parametrize(
    "basemap", ["tiles.example.org", "ftp://example.org/x", "https://a b/c", "https://x;script-src *"]
)
def test_a_base_map_without_an_origin_is_refused(basemap: str) -> None:
    with pytest.raises(ValidationError):
        Settings(basemap=basemap)
