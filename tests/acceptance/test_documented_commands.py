"""Every code block of the README, the docs and the examples is run, or shown to be there if it would set up again.

Blocks of commands run in the order of their page. A block that its page says to save is a file before they run; any
other block of Python is run as it stands, after those before it on its page.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import Any

import pytest
import rasterio

from anabranch.embedded.home import Home
from anabranch.workflows.python import WorkflowFunction
from tests.support.pages import PAGES, ROOT, Block, list_commands, read_blocks
from tests.support.server import free_port
from tests.support.warm import run_warm_script

API = "http://127.0.0.1:8787"
NEEDS_ROOT = "sudo apt-get"
GENERATOR = "openapi-python-client "  # tests/integration/test_contract.py runs it
SHOWN = ("make ", NEEDS_ROOT, GENERATOR)
ORDER = "docs/tutorial/order-a-release.md"
BACKUP = "docs/howto/backup.md"
TUTORIALS = ["docs/tutorial/first-job.md", "docs/tutorial/fix-and-retry.md"]
FOLDER = "docs/howto/publish-a-folder.md"
MACHINES = "docs/howto/several-machines.md"
VERIFY = "docs/howto/verify.md"
WEBHOOKS = "docs/howto/webhooks.md"
WAY_BACK = "docs/howto/replace-and-unpublish.md"
H3 = "docs/howto/h3.md"
ZONAL = "docs/howto/zonal-statistics.md"
FOLDERS = ("docs/howto/catalog-a-container.md", "docs/howto/sync-a-folder.md")
LONG = ["docs/howto/access.md", "docs/howto/rasters.md", *FOLDERS, MACHINES, VERIFY, WAY_BACK, H3, ZONAL]
# They need root, an engine or a cluster: tests/integration/test_deployment_pages.py runs or checks each command.
DEPLOYMENTS = [f"docs/howto/deploy-{form}.md" for form in ("compose", "image", "kubernetes", "systemd")]
# It names servers that are not here: tests/integration/test_logins.py and test_real_servers.py do what it says.
SERVERS = "docs/howto/database-servers.md"
REFERENCES = ["docs/reference/http.md", "docs/reference/serving.md"]
PRINTED = {
    FOLDER: ["delivery/old.tif", "the raster has no CRS", "old-"],
    "docs/howto/access.md": ["anb_", "nightly import", "process_raster", "revoked"],
    "docs/howto/approvals.md": ['"item": "atlas"', '"why": "blurred"', "gate.signalled"],
    "docs/howto/catalog-a-container.md": ['"published": ', '"code": "raster.crs_missing"', "stac.register_items"],
    "docs/howto/export-a-catalog.md": ["\nverified: 4 files", "['gauges']", '"type":"Catalog"', "stac.export_catalog"],
    "docs/howto/clean-up.md": ["job.ending", "node.completed", "give_back"],
    "docs/howto/schedules.md": ["nightly is active", "nightly is paused", "3 of 3 ticks get a job", "removed nightly"],
    "docs/howto/watch-a-folder.md": ["arrivals is active; it watches silver://incoming", "removed arrivals"],
    "docs/howto/export-vectors.md": ["springs.pmtiles", '"action": "withdraw"', '"table": "geo.springs"', "wells_2"],
    H3: ['"id": "austria_6"', '"id": "dem_h3_9"', "h3.measure_cells"],
    "docs/howto/list-a-container.md": ['"source": "bronze://inventory/north.tif"', "storage.total_inventory"],
    "docs/howto/ingest-stac.md": ['"changed": 1', "scene-1", "stac.load_items"],
    "docs/howto/platforms.md": [
        "create: release",
        "in ddh-raster",
        "tilejson /raster/previews/",
        "publication 1 is published",
        "revoked; nothing is published",
        "next: revision 2",
    ],
    "docs/howto/publish-a-collection.md": ["raster.crs_missing", "raster.convert_rasters", '"changed": 2'],
    "docs/howto/rasters.md": ["/stac/collections/heights/items/", '"approved": true'],
    "docs/howto/retention.md": [
        "jobs that would be removed: 0 (0 completed, 0 failed, 0 cancelled), with 0 tasks",
        "rows       0",
    ],
    MACHINES: ["the tiers and the work area are the ones", "files"],
    "docs/howto/storage.md": ["gold://copy.tif\nremoved 1\n"],
    "docs/howto/sub-workflows.md": ["2 workflows are valid", '"name": "north"', "completed"],
    WAY_BACK: ["shows the content of publication 1", "it can be restored for 30 days", "removed collection terrain"],
    WEBHOOKS: ["whsec_", '"type": "job.completed"', "0 deliveries are due again"],
    ZONAL: ['"id": "districts_dem"', "1 polygons are outside the raster", "zonal.measure"],
    VERIFY: ["verified: 3 files are as they were published"],
    ORDER: ["completed pending_review", "completed approved", "tiles /raster/", '"approval_status":"approved"'],
    "docs/howto/vectors.md": ['"name":"Old mill"', "shows the content of publication 1", "vector.load_chunk"],
    "docs/howto/sync-a-folder.md": ['"published": ', '"code": "raster.crs_missing"', "storage.compare_folder"],
    "examples/batch_folder/README.md": ["the level 'n/a' is no number", "batch=may", "readings/oder.csv"],
    "examples/buffer_and_join/README.md": ["1 passed", '"id": "city_park_reach"', '"rows": 2', "500 m", "replace"],
    "examples/own_handler/README.md": ["2 passed", '"mean": ', '"collection": "ndvi"'],
    "examples/plugin_package/README.md": ['"u4pruy"', '"u33dbb"'],
    "examples/python_stages/README.md": ['"area_km2": 510065'],
    "examples/workflow_function/README.md": ["read_footprint", '"rasters": 2'],
    "examples/yaml_review/README.md": ["all scenes are there", "/stac/collections/reviewed/items/"],
}
NAP = """
import time
from anabranch import Context, Interrupted, handler

@handler("nap")
def nap(ctx: Context) -> None:
    while not (ctx.cancelled or ctx.stopping):
        time.sleep(0.1)
    raise Interrupted
"""


@dataclass(frozen=True)
class Place:
    """A folder in which the commands of pages run, as in a clone, with a home for the stack."""

    folder: Path
    variables: Mapping[str, str]

    def run(self, *script: str, **variables: str) -> str:
        """What a script prints; it must succeed."""
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("ANABRANCH_")},
            "ANABRANCH_HOME": str(self.folder / "home"),
            "ANABRANCH_PORT": "0",
            "ANABRANCH_WORKERS": "1",  # each takes a second of CPU to start, and no page needs two
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            **self.variables,
            **variables,
        }
        done = run_warm_script(*script, folder=self.folder, env=environment, timeout=600)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    def run_page(self, page: str, change: Callable[[str], str] = str) -> str:
        """What the commands of a page print on the stack that runs here."""
        return self.run(*map(change, _on_running_stack(list_commands(page))))

    def save(self, *pages: str) -> None:
        """Save the blocks that these pages say to save."""
        for block in [block for page in pages for block in read_blocks(page) if block.file]:
            path = self.folder / str(block.file)
            assert not path.exists(), f"two pages save {block.file}"
            path.parent.mkdir(exist_ok=True)
            path.write_text(block.text)


def _on_running_stack(steps: list[str]) -> list[str]:
    """A page's first `up` starts what the test has started; a later one, after a `down`, is run."""
    first = steps.index("anabranch up --detach") if "anabranch up --detach" in steps else len(steps)
    return steps[:first] + steps[first + 1 :]


@contextmanager
def open_place(factory: pytest.TempPathFactory, **variables: str) -> Iterator[Place]:
    place = Place(factory.mktemp("docs"), variables)
    (place.folder / ".venv").symlink_to(Path(sys.executable).parents[1])
    try:
        yield place
    finally:
        place.run("anabranch down --purge --yes")
        shutil.rmtree(place.folder)


@pytest.fixture
def empty_place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with open_place(tmp_path_factory) as place:
        yield place


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A stack with the plugins of all how-tos and examples, started as the examples say; its tiers can be shared."""
    folder = tmp_path_factory.mktemp("shared")
    tiers = {f"ANABRANCH_STORAGE__{tier.upper()}": (folder / tier).as_uri() for tier in ("bronze", "silver", "gold")}
    pip = {"PIP_TARGET": str(folder / "packages"), "PIP_NO_BUILD_ISOLATION": "0", "PIP_NO_DEPS": "1", "PIP_QUIET": "1"}
    lean = {"ANABRANCH_CALLBACK_HOSTS": "127.0.0.1", "ANABRANCH_WORKERS": "1", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    for tier in ("bronze", "silver", "gold"):
        (folder / tier).mkdir()
    variables = {**tiers, **pip, **lean, "PYTHONPATH": str(folder / "packages")}
    with open_place(tmp_path_factory, **variables) as opened:
        shutil.copytree(ROOT / "examples", opened.folder / "examples")
        opened.save(*(page for page in PAGES if page not in TUTORIALS))
        (opened.folder / "plugins" / "nap.yaml").write_text("workflow_id: nap\nnodes: {only: {handler: nap}}\n")
        (opened.folder / "plugins" / "nap.py").write_text(NAP)
        start = [step.replace("_PLUGINS=", "_PLUGINS=./plugins,") for step in list_commands("examples/README.md")]
        opened.run(*start)
        _make_delivery(opened.folder)
        yield opened
    shutil.rmtree(folder)


def _make_delivery(folder: Path) -> None:
    """A folder with a scene and with one that has no CRS; the scene under the name that other pages use."""
    (folder / "delivery").mkdir()
    (folder / "new").mkdir()
    for target in ("delivery/north.tif", "dem.tif", "new/dem.tif"):
        shutil.copy(folder / "scenes" / "north.tif", folder / target)
    with rasterio.open(folder / "scenes" / "south.tif") as scene:
        bands, profile = scene.read(), {**scene.profile, "crs": None}
    with rasterio.open(folder / "delivery" / "old.tif", "w", **profile) as old:
        old.write(bands)


@pytest.fixture(scope="module")
def url(place: Place) -> str:
    stack = Home(place.folder / "home").read_stack()
    assert stack
    return str(stack.api_url)


@pytest.fixture(scope="module")
def published(place: Place) -> str:
    """What publishing a folder printed; other pages read what it published."""
    return place.run_page(FOLDER)


def needs_stack(command: str) -> bool:
    return not command.startswith((*SHOWN, ". .venv/bin/activate", "export "))


def test_every_page_with_commands_is_run_here() -> None:
    known = {*TUTORIALS, *REFERENCES, BACKUP, *PRINTED, *DEPLOYMENTS, SERVERS, "examples/README.md"}
    assert {page for page in PAGES if any(map(needs_stack, list_commands(page)))} == known


def test_every_block_has_a_language_and_none_hides_commands() -> None:
    hidden = [
        (block.page, line)
        for page in PAGES
        for block in read_blocks(page)
        for line in block.text.splitlines()
        if block.language in ("", "text", "bash", "shell", "py")
        if not block.language or line.startswith(("$ ", "anabranch ", "curl ", "import ", "from "))
    ]
    assert hidden == []


@pytest.mark.parametrize(
    ("page", "command"), [(page, step) for page in PAGES for step in list_commands(page) if step.startswith("make ")]
)
def test_every_make_target_that_is_named_is_there(page: str, command: str) -> None:
    target = command.split()[1]
    planned = subprocess.run(["make", "-n", target], check=False, cwd=ROOT, capture_output=True, text=True)
    assert planned.returncode == 0, (page, planned.stderr)


def test_the_tutorials_work_as_they_are_printed_one_after_the_other(empty_place: Place) -> None:
    first, second = TUTORIALS
    empty_place.save(*TUTORIALS)
    steps = [
        command.replace("make demo", "anabranch up --detach") for command in list_commands(first)
    ]  # test_cli.py runs it
    assert '"sum": 285' in empty_place.run(*steps)
    printed = empty_place.run_page(second)
    assert [words for words in ("math domain error", '"root": null', "job.retried") if words not in printed] == []


@pytest.mark.slow
def test_the_drill_works_as_it_is_printed(empty_place: Place) -> None:
    try:
        printed = empty_place.run(*list_commands(BACKUP))
    finally:
        empty_place.run("export ANABRANCH_HOME=$PWD/restored", "anabranch down --purge --yes")
    words = ["the backup is whole", "restored into", "the database and the tiers agree", "demo", ": compatible"]
    assert [each for each in words if each not in printed] == [], printed


@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=pytest.mark.slow if page in LONG else ()) for page in PRINTED if page != FOLDER]
)
def test_a_page_works_as_it_is_printed(place: Place, url: str, published: str, page: str) -> None:
    changes = {
        "docs/howto/access.md": _with_key(url),
        MACHINES: _elsewhere(place, url),
        ORDER: lambda command: command.replace(API, url),
        VERIFY: _of_item(url, published),
        WEBHOOKS: _with_receiver(),
    }
    printed = place.run_page(page, changes.get(page, str))
    assert [words for words in PRINTED[page] if words not in printed] == [], printed


def test_publishing_a_folder_works_as_it_is_printed(published: str) -> None:
    assert [words for words in PRINTED[FOLDER] if words not in published] == [], published
    assert published.count("\nmap ") == 2  # each time that something was published


def _with_key(url: str) -> Callable[[str], str]:
    """The commands with the address of the stack, and an admin's key in the place of the printed one."""

    def change(command: str) -> str:
        found = "$(anabranch keys list --json | python -c 'import json, sys; print(json.load(sys.stdin)[0][\"id\"])')"
        key = "$(anabranch keys create docs --scope admin)"
        return (
            command.replace("https://anabranch.example", url)
            .replace("anb_0123456789ab_…", key)
            .replace("revoke 0123456789ab", f"revoke {found}")
        )

    return change


def _of_item(url: str, published: str) -> Callable[[str], str]:
    """The commands with an item and a job that were published in the place of the printed ones."""
    (item,) = re.findall(r"^(delivery)/(old-\w+)", published, re.MULTILINE)
    read = f"import json, sys; print(*(i['job_id'] for i in json.load(sys.stdin) if i['id'] == '{item[1]}'))"
    job = f'$(anabranch items list --collection {item[0]} --json | python -c "{read}")'

    def change(command: str) -> str:
        changed = (
            command.replace(API, url).replace("heights/dem-0a1b2c3d4e", "/".join(item)).replace("dem.tif", "old.tif")
        )
        return changed.replace("JOB", job)

    return change


def _with_receiver() -> Callable[[str], str]:
    """The commands with the second terminal in the background, on a port of its own, and with what it printed."""
    listening = f"until anabranch webhooks list --json | grep -q :{(port := free_port())}/; do kill -0 $receiver; done"

    def change(command: str) -> str:
        if command.startswith("anabranch webhooks listen"):
            return f"{command} --port {port} & receiver=$!; {listening}"
        if command.startswith("anabranch run"):
            return f"{command}; wait $receiver"
        if command.startswith("anabranch webhooks add"):  # the jobs of other pages are not announced
            return f"{command} --json | tee added.json"
        if command == "anabranch webhooks list":
            remove = "import json; print(json.load(open('added.json'))['id'])"
            return f'{command}; anabranch webhooks remove --yes $(python -c "{remove}")'
        return command

    return change


def _elsewhere(place: Place, url: str) -> Callable[[str], str]:
    """The commands as on another machine: with a home of its own, and the database and the tiers of the stack."""
    home = f"ANABRANCH_HOME={place.folder / 'second'} ANABRANCH_API_URL={url}"

    def change(command: str) -> str:
        name, _, _ = command.removeprefix("export ").partition("=")
        if name == "ANABRANCH_DATABASE_URL":
            return f"export {name}=$(anabranch db url) {home}"
        if name in place.variables:
            return f"export {name}={place.variables[name]}"
        if command.startswith("anabranch worker "):  # it runs until it is stopped
            joined = "until anabranch workers --json | grep -qw $worker; do kill -0 $worker; done"
            return f"{command} & worker=$!; {joined}; anabranch workers; kill $worker; wait $worker"
        return command

    return change


@pytest.mark.parametrize("page", REFERENCES)
def test_the_requests_of_the_reference_are_answered(place: Place, url: str, page: str) -> None:
    job = place.run("anabranch submit hello_world 2>/dev/null").strip()
    for command in filter(needs_stack, list_commands(page)):
        if "/retry" in command:  # what has not ended can't be
            job = json.loads(place.run("anabranch submit hello_world --wait --json 2>/dev/null"))["job_id"]
        if "/cancel" in command:  # what has ended can't be
            job = place.run("anabranch submit nap --rerun 2>/dev/null").strip()
        answer = place.run(command.replace(API, url).replace("8c0f", job[:12]) + " -sf")
        assert answer.startswith(("{", "[", "<svg ", "retry: ")) or " -o " in command, (command, answer)


def blocks_of_python() -> dict[str, list[Block]]:
    """The blocks of Python that are not saved to a file, by page."""
    found = {page: [one for one in read_blocks(page, "python") if not one.file] for page in PAGES}
    return {page: blocks for page, blocks in found.items() if blocks}


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("page", blocks_of_python())  # as in a notebook, which closes nothing
def test_python_runs_as_it_is_printed(
    place: Place, url: str, published: str, page: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(place.folder)
    monkeypatch.setenv("ANABRANCH_HOME", str(place.folder / "home"))
    namespace: dict[str, Any] = {"__name__": "example"}  # whatever the page defines
    for number, block in enumerate(blocks_of_python()[page]):
        exec(compile(block.text.replace(API, url), f"{page}[{number}]", "exec"), namespace)
        assert all(value.workflow.nodes for value in namespace.values() if isinstance(value, WorkflowFunction))
        tests = [name for name in namespace if name.startswith("test_")]
        for test in map(namespace.pop, tests):
            folder = tmp_path / str(number) / test.__name__
            test(folder) if signature(test).parameters else test()
