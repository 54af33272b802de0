"""Write what is made from code: pages of the reference, the OpenAPI document, the number of the schema's release."""

import re
from itertools import groupby
from pathlib import Path

from anabranch.adapters.postgres.schema.files import Files
from anabranch.api.health.prometheus import METRICS
from anabranch.api.main import ROUTES
from anabranch.api.openapi.document import DOCUMENT, assemble, write
from anabranch.api.openapi.mounted import describe_features, describe_raster, describe_stac
from anabranch.codes import Code, all_codes

REFERENCE = Path(__file__).parents[1] / "docs" / "reference"
ERRORS = """# Errors

<!-- Made by `make reference` from the `codes.py` of each package. -->

Every error has a stable code. A problem of the [HTTP API](http.md#problems) carries it as `code` and in its `type`,
`/errors/{code}`, where the running API shows what this page shows; a command with `--json` prints it to stderr; a job,
node or task that failed keeps it in `error.code`.

- **status** is the HTTP status of a request that is answered with the code. Where there is none, the code is a job's or
  a command's.
- **exit** is what a command [exits with](cli.md#exit-codes); 7 only where the job was waited for.
- **again** says whether the same may succeed later without a change.

An installed plugin can [bring codes of its own](../howto/declarations.md#settings-and-error-codes).
"""


def errors_page() -> str:
    """The page of all codes, a table for each part."""
    parts = [
        f"\n## {part}\n\n{_table(list(codes))}" for part, codes in groupby(sorted(all_codes(), key=_part), key=_part)
    ]
    return ERRORS + "".join(parts)


def _part(code: Code) -> str:
    part, dot, _ = code.code.partition(".")
    return part if dot else "General"


def _table(codes: list[Code]) -> str:
    head = "| code | status | exit | again | meaning | what to do |\n|---|---|---|---|---|---|\n"
    return head + "".join(f"| {' | '.join(_cells(code))} |\n" for code in codes)


def _cells(code: Code) -> tuple[str, ...]:
    again = "yes" if code.retryable else "no"
    return f"`{code.code}`", str(code.status or ""), str(code.exit_code), again, code.meaning, code.remedy


METRICS_HEAD = """# Metrics

<!-- Made by `make reference` from src/anabranch/api/health/prometheus.py. -->

`GET /metrics` answers in Prometheus's text format.

- Names are `anabranch_`, the thing, and the unit: `_seconds`, `_bytes`; `_total` ends what only rises. Those that begin
  with `process_` are the ones that every exporter has.
- What the database knows is asked for at most once in two seconds, however many scrapers there are, over a connection
  that is kept for health and metrics. It is bounded: no metric reads the jobs and tasks that have ended. While the
  database does not answer within 1.2 s, `anabranch_database_up` is 0 and only what this process knows is reported.
- `…_total` of jobs submitted, of tasks and of attempts are counters of PostgreSQL itself, of rows that were ever
  inserted: they restart at 0 after a crash of the server, lag by a second or so, and include the few rolled back.
- Histograms of jobs, nodes, tasks and waits are sums in the database, too: an end is counted in the transaction that
  makes it, and appears when the sweeper has added it, within five seconds or so. They begin with the migration that
  brought them. Each of the four has at most 300 series; later ones are `other workflows`, `other handlers` or `other
  queues`, and so are those that were not counted for 30 days, when others need their place. The sum over all names
  never falls, also when jobs are purged; `anabranch_job_seconds_count` is how many jobs ended, by workflow and status.
- Of more than 200 queues, those without workers and then those with the most tasks have series of their own; the rest
  is `other queues`, with the sum of its tasks and the fewest workers that any of it has.
- There are at most some 25,000 lines; [what they cost](../howto/observe.md#what-it-costs).
- Labels have few values: routes are templates, never paths, and `none` is what no route answered.
- With several API processes, each reports its own requests and process, and all report the same about the database:
  take the `max` of that over instances, not the `sum`.

| metric | type | labels | meaning |
|---|---|---|---|
"""


def metrics_page() -> str:
    """The page of all metrics."""
    rows = (
        f"| `{m.name}` | {m.kind} | {', '.join(f'`{label}`' for label in m.labels)} | {m.meaning} |\n" for m in METRICS
    )
    return METRICS_HEAD + "".join(rows)


PAGES = {"errors.md": errors_page, "metrics.md": metrics_page}


def raise_release(files: Files) -> None:
    """Give the schema the next number when it is not what its number stands for."""
    if files.checksum == files.release.checksum:
        return
    text = re.sub(r"(?m)^release .*", f"release {files.release.number + 1}", files["release.txt"].text)
    text = re.sub(r"(?m)^checksum .*", f"checksum {files.checksum}", text)
    (files.root / "release.txt").write_text(text)


if __name__ == "__main__":
    raise_release(Files())
    for name, page in PAGES.items():
        (REFERENCE / name).write_text(page())
    DOCUMENT.write_text(write(assemble(ROUTES.routes, describe_stac(), describe_raster(), describe_features())))
