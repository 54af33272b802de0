"""The dashboard and the alert rules of `deploy/observability` ask for metrics and labels that a scrape has."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import httpx
import psycopg
import pytest
import yaml

from anabranch.api.health.prometheus import METRICS
from anabranch.api.main import create_app
from anabranch.settings import Settings
from tests.support.engine import EngineHarness, fan_out

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy" / "observability"
ALERTS = FOLDER / "alerts.yaml"
UNPACKED = ROOT / ".cache" / "prometheus" / "usr" / "bin" / "promtool"
NAME = re.compile(r"\b(?:anabranch|process)_\w+")
MATCHERS = re.compile(r"(\w+)\{([^}]*)\}")
GROUPED = re.compile(r"\b(?:by|on) \(([^)]*)\)")
ADDED = {"instance", "job", "le"}  # by Prometheus, and by every histogram


def panels() -> Iterator[tuple[str, str]]:
    for panel in json.loads((FOLDER / "dashboard.json").read_text())["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], target["expr"].replace("$__rate_interval", "5m")


def rules() -> Iterator[tuple[str, str]]:
    for group in yaml.safe_load(ALERTS.read_text())["groups"]:
        for rule in group["rules"]:
            yield rule["alert"], rule["expr"]


EXPRESSIONS = [*panels(), *rules()]


@pytest.mark.postgres
async def test_a_scrape_has_every_metric_of_the_dashboard_and_the_rules(
    engine: EngineHarness, database_url: str, tmp_path: Path
) -> None:
    await engine.submit(fan_out(2))
    await engine.finish(await engine.claim(2), ran=timedelta(0))
    await engine.finish(await engine.claim(), ran=timedelta(0))
    await engine.submit(fan_out(2), run=2)
    await engine.claim(1)
    await engine.sweep()
    with psycopg.connect(database_url) as database:
        assert database.execute("select count(*) from app.durations").fetchone() == (0,)

    app = create_app(Settings(home=tmp_path / "home"), database_url)
    transport = httpx.ASGITransport(app)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as api,
    ):
        await app.state.gateway.ready()
        await api.get("/livez")
        scraped = set(re.findall(r"(?m)^([a-z_]+)", (await api.get("/metrics")).text))

    wanted = {name for _, expression in EXPRESSIONS for name in NAME.findall(expression)}
    assert len(wanted) > 20
    assert wanted <= scraped


def metric_of(series: str) -> str:
    return re.sub(r"_(bucket|sum|count)$", "", series)


@pytest.mark.parametrize(("title", "expression"), EXPRESSIONS)
def test_expressions_name_labels_that_their_metrics_have(title: str, expression: str) -> None:
    labels = {metric.name: set(metric.labels) | ADDED for metric in METRICS}
    names = {metric_of(name) for name in NAME.findall(expression)}
    for name, matchers in MATCHERS.findall(expression):
        assert set(re.findall(r"(\w+)\s*[=!]", matchers)) <= labels.get(metric_of(name), ADDED), title
    if not names:  # of Prometheus itself
        return
    grouped = {label.strip() for labels_of in GROUPED.findall(expression) for label in labels_of.split(",")}
    assert grouped <= set.union(*(labels[name] for name in names)), title


def test_each_rule_says_what_happened_and_what_to_do() -> None:
    (group,) = yaml.safe_load(ALERTS.read_text())["groups"]
    for rule in group["rules"]:
        assert rule["alert"].startswith("Anabranch")
        assert rule["labels"]["severity"] in {"critical", "warning"}
        assert rule["annotations"].keys() == {"summary", "description"}


@pytest.fixture
def promtool() -> str:
    """Of Debian's package: `make promtool`."""
    found = shutil.which("promtool") or (str(UNPACKED) if UNPACKED.exists() else None)
    return found or pytest.skip("promtool is not installed: make promtool")


def check(promtool: str, *arguments: str | Path) -> str:
    done = subprocess.run([promtool, *arguments], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_promtool_parses_the_rules_and_the_dashboard(promtool: str, tmp_path: Path) -> None:
    records = [{"record": f"panel:{number}", "expr": expression} for number, (_, expression) in enumerate(panels())]
    drawn = tmp_path / "panels.yaml"
    drawn.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": records}]}))
    assert f"{len(list(rules()))} rules found" in check(promtool, "check", "rules", ALERTS)
    assert f"{len(records)} rules found" in check(promtool, "check", "rules", drawn)


@pytest.mark.slow
def test_rules_fire_on_what_they_are_for(promtool: str, tmp_path: Path) -> None:
    """Two APIs report the same: nothing counts twice."""

    def series(name: str, values: str) -> list[dict[str, str]]:
        labels = name[:-1] + "," if name.endswith("}") else name + "{"
        return [{"series": f'{labels}instance="{api}"}}', "values": values} for api in ("a", "b")]

    def fires(alert: str, minutes: int, *given: list[dict[str, str]]) -> dict[str, object]:
        return {
            "interval": "1m",
            "input_series": [one for each in given for one in each],
            "promql_expr_test": [],
            "alert_rule_test": [{"eval_time": f"{minutes}m", "alertname": alert, "exp_alerts": []}],
        }

    up = series("anabranch_database_up", "1x200")
    served = series('anabranch_queue_workers{queue="heavy"}', "1x200")
    ready = series('anabranch_tasks{queue="heavy",status="ready"}', "5x200")
    three = series('anabranch_job_seconds_count{workflow="w",status="failed"}', "0 3x200")
    eight = series('anabranch_job_seconds_count{workflow="w",status="failed"}', "0+8x10 80x190")
    fine = series('anabranch_job_seconds_count{workflow="w",status="completed"}', "0+8x10 80x190")
    test = {
        "rule_files": [str(ALERTS)],
        "evaluation_interval": "1m",
        "tests": [
            fires("AnabranchUnreachable", 30, up),
            fires("AnabranchInstanceDown", 30, series('up{job="anabranch"}', "1x200")),
            fires("AnabranchDatabaseDown", 30, up),
            fires("AnabranchQueueWithoutWorkers", 30, served, ready),
            fires("AnabranchJobsFail", 30, three),
            fires("AnabranchJobsFail", 30, eight, fine),
        ],
    }
    silent = tmp_path / "silent.yaml"
    silent.write_text(yaml.safe_dump(test))
    check(promtool, "test", "rules", silent)

    for alert, given in {
        "AnabranchUnreachable": series("anabranch_jobs", "0x200"),
        "AnabranchInstanceDown": [
            {"series": 'up{job="anabranch",instance="a"}', "values": "1x200"},
            {"series": 'up{job="anabranch",instance="b"}', "values": "0x200"},
        ],
        "AnabranchDatabaseDown": series("anabranch_database_up", "0x200"),
        "AnabranchQueueWithoutWorkers": [*series('anabranch_queue_workers{queue="heavy"}', "0x200"), *ready],
        "AnabranchJobsFail": eight,
    }.items():
        loud = tmp_path / f"{alert}.yaml"
        loud.write_text(yaml.safe_dump({**test, "tests": [fires(alert, 30, given)]}))
        done = subprocess.run(
            [promtool, "test", "rules", loud], capture_output=True, text=True, check=False, timeout=300
        )
        assert done.returncode != 0, alert
        assert f'alertname="{alert}"' in done.stdout + done.stderr
