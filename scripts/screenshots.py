"""Pictures of every page with real data, light and dark, on a desktop and a phone, in `.cache/screenshots`.

Run it as `make screenshots`: it starts a stack of its own, with jobs that publish, fail, wait and are wide.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from anabranch.client import Client
from tests.support.browser import DESKTOP, PHONE, launch_browser, open_context, visit

FOLDER = Path(".cache/screenshots")
HOME = FOLDER / "home"
LOOKS: dict[str, dict[str, Any]] = {  # options of Playwright's
    "desktop-light": {"viewport": DESKTOP},
    "desktop-dark": {"viewport": DESKTOP, "color_scheme": "dark"},
    "phone-light": {"viewport": PHONE},
    "phone-dark": {"viewport": PHONE, "color_scheme": "dark"},
}
SURVEY = """
workflow_id: survey_of_all_the_tiles_of_a_region_with_a_rather_long_name
description: Survey many tiles, of which some are torn.
inputs:
  tiles: {type: integer, min: 1, max: 10000, default: 400, description: How many tiles there are.}
nodes:
  find:
    handler: list_items
    params: {count: "{{ inputs.tiles }}"}
    next: survey
  survey:
    type: fan_out
    source: "{{ nodes.find.output.items }}"
    on_failure: finish
    task:
      handler: fail
      params: {probability: 0.02, message: "tile {{ index }} is torn"}
    next: total
  total: {type: fan_in, aggregation: collect}
schedule: {cron: "0 3 * * *", timezone: Europe/Berlin}
"""


def main() -> None:
    """Take all pictures."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    plugins = FOLDER / "plugins"
    plugins.mkdir(parents=True)
    (plugins / "survey.yaml").write_text(SURVEY)
    anabranch = Path(sys.executable).with_name("anabranch")
    environment = {**os.environ, "ANABRANCH_HOME": str(HOME.resolve()), "ANABRANCH_PLUGINS": str(plugins.resolve())}

    def run(*words: str) -> str:
        done = subprocess.run([anabranch, *words], env=environment, check=True, capture_output=True, text=True)
        return done.stdout

    run("up", "--detach", "--port", "0", "--workers", "1")
    try:
        run("demo")
        url = next(line.split()[1] for line in run("config", "show").splitlines() if line.startswith("api_url"))
        with Client(url) as client:
            failed = client.submit(
                "survey_of_all_the_tiles_of_a_region_with_a_rather_long_name", {"tiles": 2000}
            ).job_id
            client.wait(failed, timeout=300)
            waiting = client.submit("approve", {"item": "roads"}, labels={"team": "maps"}).job_id
            wide = client.submit("weigh", {"count": 10_000}).job_id
            broken = next(job.job_id for job in client.jobs(status="failed") if job.job_type == "process_raster")
        take(url, {"failed": failed, "waiting": waiting, "wide": wide, "broken": broken})
    finally:
        run("down")


def take(url: str, jobs: dict[str, str]) -> None:
    """The pictures of each page in each look."""
    survey = "survey_of_all_the_tiles_of_a_region_with_a_rather_long_name"
    pages = {
        "overview": "/",
        "jobs": "/jobs",
        "jobs-none": "/jobs?workflow=no_such",
        "workflows": "/workflows",
        "workflow": f"/workflows/{survey}",
        "workflow-large": "/workflows/process_raster",
        "data": "/data",
        "api": "/docs",
        "gone": "/jobs/0000",
        "retry": f"/jobs/{jobs['failed']}/retry",
        **{f"job-{name}": f"/jobs/{job}" for name, job in jobs.items()},
        **{f"job-{view}": f"/jobs/{jobs['failed']}?view={view}" for view in ("events", "logs", "data")},
    }
    with launch_browser() as browser:
        for look, options in LOOKS.items():
            with open_context(browser, **options) as context:
                for name, path in pages.items():
                    made = visit(context, url + path)
                    made.page.locator("html[data-ready]").wait_for()
                    if path == "/data":
                        made.page.wait_for_load_state("networkidle")
                    made.page.screenshot(path=FOLDER / f"{name}-{look}.png", full_page=name != "data")
                    made.page.close()
    print(f"{len(pages) * len(LOOKS)} pictures are in {FOLDER}")  # noqa: T201  # what its user sees


if __name__ == "__main__":
    main()
