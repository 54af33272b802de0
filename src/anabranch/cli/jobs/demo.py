"""`demo`: publishes sample rasters and a vector layer with the real workflows, up to the map."""

import shutil
import sys
import tempfile
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import Field

from anabranch.canonical import JsonObject
from anabranch.cli.connection import connect
from anabranch.cli.exit_codes import JobFailed
from anabranch.cli.stack.start import interrupt_on_signals, start_for_command
from anabranch.cli.terminal.options import Json
from anabranch.cli.terminal.output import format_size, note, print_json, print_line
from anabranch.cli.terminal.progress import show_jobs
from anabranch.client import Client, JobStatus, TimedOut
from anabranch.client.catalog import current_file_path, item_path
from anabranch.embedded.locate import find_home, find_remote
from anabranch.plugins.raster.samples import make_samples
from anabranch.strict_model import StrictModel

__all__ = ["demo", "find_activation"]

BROKEN_SAMPLE = "broken"
TIMEOUT_SECONDS = 180.0
POLL_SECONDS = 0.2
NEXT_STEPS = """
What to try next:{activation}
  anabranch submit process_raster -p source=@FILE.tif --wait     publish a raster of yours
  anabranch submit process_raster -p source=@FOLDER --wait       publish all rasters of a folder
  anabranch submit process_vector -p source=@FILE.gpkg --wait    publish a vector file
  anabranch jobs                                                 list the jobs, including these
  anabranch down                                                 stop the stack"""


class RefusalView(StrictModel):
    """Why a file was not published."""

    code: str
    message: str


class PublishedFile(StrictModel):
    """The result for a file: the links of a raster or of a layer by name, or why there are none."""

    input: str
    bytes: int
    job_id: str
    verdict: str
    links: dict[str, str] = Field({})
    cog_bytes: int | None = None
    error: RefusalView | None = None
    warnings: tuple[str, ...] = ()

    @property
    def is_expected(self) -> bool:
        """Whether a valid file was published, or the broken one was not."""
        return (self.verdict == "completed") != (self.input == f"{BROKEN_SAMPLE}.tif")

    def to_json(self) -> JsonObject:
        """The same with the links beside the other fields."""
        return {**self.model_dump(mode="json", exclude_none=True, exclude={"links"}), **self.links}


def demo(json: Json = False) -> None:
    """Publish three sample rasters and a vector layer, refuse a broken raster, and print their links."""
    _start()
    with tempfile.TemporaryDirectory(prefix="anabranch-demo-") as folder, connect() as client:
        note("creating four rasters and a vector layer of a river whose channel splits and joins again")
        samples = make_samples(Path(folder))
        jobs = {name: _submit(client, path) for name, path in samples.items()}
        ended = _follow(client, jobs, quiet=json)
        results = [_describe(client.base_url, samples[name], job) for name, job in ended.items()]
        page = f"{client.base_url}/data"
    if json:
        print_json({"page": page, "files": [one.to_json() for one in results]})
    else:
        _show(results, page)
    _require_expected(results)


def _start() -> None:
    """Start a stack if none is up; it stays up, because its page shows what was published."""
    if not (find_remote().url or find_home().read_stack()):
        with interrupt_on_signals():
            start_for_command(stays=True)


def _submit(client: Client, path: Path) -> str:
    source = client.upload(path).address
    workflow = "process_vector" if path.suffix == ".geojson" else "process_raster"
    return client.submit(workflow, {"source": source, "collection": "demo", "title": path.stem}).job_id


def _follow(client: Client, jobs: Mapping[str, str], *, quiet: bool) -> dict[str, JobStatus]:
    """Wait until all jobs have ended, and show their progress."""
    end = time.monotonic() + TIMEOUT_SECONDS
    with show_jobs(quiet) as show:
        while True:
            found = {name: client.job(job_id) for name, job_id in jobs.items()}
            for name, job in found.items():
                show(name, job)
            if all(job.ended for job in found.values()):
                return found
            if time.monotonic() > end:
                raise TimedOut("job.timed_out", "the files took too long", remedy="See `anabranch jobs`.")
            time.sleep(POLL_SECONDS)


def _describe(base: str, path: Path, job: JobStatus) -> PublishedFile:
    known = partial(PublishedFile, input=path.name, bytes=path.stat().st_size, job_id=job.job_id, verdict=job.status)
    if job.error:
        return known(error=RefusalView(code=job.error.code, message=job.error.message))
    if not job.succeeded:
        return known()
    result: Any = job.result  # as the workflow's output says
    made = {output["kind"]: output for output in result["outputs"]}
    (item,) = result["items"]
    link = base + item_path(item["collection"], item["id"])
    if "table" in made:
        table = made["table"]["href"]
        layer = table.removeprefix("geo.")
        features = f"{base}/features/collections/{layer}/items"
        return known(links={"table": table, "features": features, "item": link})
    paths = {kind: current_file_path(item["collection"], item["id"], output["name"]) for kind, output in made.items()}
    return known(
        links={"cog": base + paths["cog"], "item": link, "preview": base + paths["thumbnail"]},
        cog_bytes=made["cog"]["size"],
        warnings=tuple(warning["message"] for warning in result["warnings"]),
    )


def _show(results: list[PublishedFile], page: str) -> None:
    for one in results:
        print_line(f"\n{one.input}: {one.verdict}")
        if one.cog_bytes is not None:
            before, after = format_size(one.bytes), format_size(one.cog_bytes)
            print_line(f"  size     {before} before, {after} as a COG with overviews")
        for name, link in one.links.items():
            print_line(f"  {name:8} {link}")
        if one.error:
            print_line(f"  reason   {one.error.message} [{one.error.code}]")
        for warning in one.warnings:
            print_line(f"  warning  {warning}")
    print_line(f"\npage       {page}")
    note(NEXT_STEPS.format(activation=find_activation()))


def find_activation() -> str:
    """The line that puts `anabranch` on the PATH of the shell, if it is not there."""
    script = Path(sys.prefix) / "bin" / "activate"
    if shutil.which("anabranch") or not script.is_file():
        return ""
    shown = script.relative_to(Path.cwd()) if script.is_relative_to(Path.cwd()) else script
    return f"\n  {f'. {shown}':<62} first: finds the command"


def _require_expected(results: list[PublishedFile]) -> None:
    """JobFailed if a valid file was not published, or the broken one was."""
    for one in results:
        if not one.is_expected:
            raise JobFailed(
                "job.failed",
                f"{one.input} was {'published' if one.verdict == 'completed' else 'not published'}",
                remedy=f"See `anabranch events {one.job_id[:12]}`.",
            )
