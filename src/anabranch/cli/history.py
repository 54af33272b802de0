"""`events`: what happened to a job."""

from typing import Annotated

import typer

from anabranch.cli.follow import JobView
from anabranch.cli.options import After, All, JobId, Json
from anabranch.cli.place import connect
from anabranch.cli.show import cut, note, print_json, print_table

__all__ = ["cli"]

cli = typer.Typer()


@cli.command()
def events(
    job: JobId,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many at most.")] = 100,
    after: After = None,
    all: All = False,
    json: Json = False,
) -> None:
    """List what happened to a job, in order."""
    with connect() as client:
        if all:
            for event in client.all_events(job):
                print_json(event.raw, indent=None)
            return
        page = client.events(job, limit=limit, after=after)
    found = [event.raw for event in page.items]
    if json:
        print_json(found)
    else:
        print_table(["time", "event", "node", "what"], map(_row, found))
    if page.next:
        note(f"There are more: --after {page.next}")


def _row(event: JobView) -> list[object]:
    data = event["data"]
    what = data["message"] if isinstance(data, dict) and isinstance(data.get("message"), str) else data or None
    return [event["at"], event["kind"], event["node"], cut(what)]
