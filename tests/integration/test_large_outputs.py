"""Outputs that are too large to look into, and fan-outs over them: streamed, all or none (A20, E11)."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from anabranch.adapters.postgres.store import store
from anabranch.adapters.postgres.store.store import PostgresStore
from anabranch.engine.advancing import known_values, node_outputs
from anabranch.engine.model import JobState
from anabranch.errors import Unavailable
from tests.support.stack import Stack, open_stack

pytestmark = pytest.mark.postgres

COUNT = 60_000
FIND = "find: {handler: list_items, params: {count: 60000}, next: each}"
TOTAL = "total: {type: fan_in, aggregation: {sum: {sum: items}}}"
WORKFLOWS = {
    "streamed": f"""
        nodes:
          {FIND}
          each:
            type: fan_out
            source: "{{{{ nodes.find.output.items }}}}"
            batch_size: 1000
            task: {{handler: chunk_processor, params: {{chunk: "{{{{ item }}}}"}}}}
            next: total
          {TOTAL}
        output: {{sum: "{{{{ nodes.total.output.sum }}}}", batches: "{{{{ nodes.total.output.count }}}}"}}
    """,
    "gathered": """
        nodes:
          parts:
            type: fan_out
            source: [40000, 0, 40000]
            task: {handler: list_items, params: {count: "{{ item }}"}}
            next: each
          each:
            type: fan_out
            source: "{{ nodes.parts.output.items }}"
            task: {handler: measure, params: {part: "{{ item }}"}}
            next: total
          total: {type: fan_in, aggregation: {sum: {sum: length}}}
        output: {sum: "{{ nodes.total.output.sum }}", tasks: "{{ nodes.total.output.count }}"}
    """,
    "looked": """
        nodes:
          find: {handler: list_items, params: {count: 60000}, next: after}
          after: {handler: echo, params: {first: "{{ nodes.find.output.items[0].name }}"}, on_failure: continue}
        output: {failed: "{{ nodes.after.output.error.message }}"}
    """,
    "lost": """
        inputs: {folder: {type: string}}
        nodes:
          find: {handler: list_items, params: {count: 60000}, next: lose}
          lose: {handler: lose, params: {folder: "{{ inputs.folder }}"}, next: each}
          each:
            type: fan_out
            source: "{{ nodes.find.output.items }}"
            task: {handler: echo, params: {item: "{{ item }}"}}
    """,
    "large_output": """
        nodes: {find: {handler: list_items, params: {count: 40000}}}
        output: {items: "{{ nodes.find.output.items }}"}
    """,
    "both": """
        nodes:
          find: {handler: list_items, params: {count: 60000}, next: each}
          each:
            type: fan_out
            source: "{{ nodes.find.output.items }}"
            task: {handler: echo, params: {many: "{{ length(nodes.find.output.items) }}"}}
    """,
    "not_there": """
        nodes:
          find: {handler: list_items, params: {count: 60000}, next: each}
          each:
            type: fan_out
            source: "{{ nodes.find.output.nothing }}"
            task: {handler: echo, params: {item: "{{ item }}"}}
    """,
    "no_array": """
        nodes:
          find: {handler: list_items, params: {count: 60000}, next: each}
          each:
            type: fan_out
            source: "{{ nodes.find.output.items[7] }}"
            task: {handler: echo, params: {item: "{{ item }}"}}
    """,
    "too_many": """
        nodes:
          find: {handler: list_items, params: {count: 60000}, next: each}
          each:
            type: fan_out
            source: "{{ nodes.find.output.items }}"
            max_items: 100
            task: {handler: echo, params: {item: "{{ item }}"}}
    """,
}
PLUGIN = """
from pathlib import Path

from anabranch import handler

@handler("lose", quick=True)
def lose(params: dict) -> None:
    for result in Path(params["folder"]).rglob("*.json"):
        result.unlink()

@handler("measure", quick=True)
def measure(params: dict) -> dict:
    return {"length": len(params["part"]["items"])}
"""


@pytest.fixture
async def stack(database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Stack]:
    """A stack whose expressions may look into a megabyte and a half, and that stages a fan-out in small batches."""
    monkeypatch.setattr(node_outputs, "MAX_OUTPUT_BYTES", 1_500_000)
    monkeypatch.setattr(known_values, "MAX_OUTPUT_BYTES", 1_500_000)
    monkeypatch.setattr(store, "STAGED_BYTES", 200_000)
    plugins = tmp_path / "plugins"
    plugins.mkdir()
    (plugins / "measures.py").write_text(PLUGIN)
    for name, text in WORKFLOWS.items():
        (plugins / f"{name}.yaml").write_text(f"        workflow_id: {name}{text}")
    async with open_stack(database_url, tmp_path, [str(plugins)]) as opened:
        yield opened


def query(url: str, text: str) -> list[tuple[Any, ...]]:  # rows of any shape
    with psycopg.connect(url) as connection:
        return connection.execute(text.encode()).fetchall()


async def test_a20_a_fan_out_over_a_large_output_is_streamed_into_its_items(stack: Stack, database_url: str) -> None:
    job = await stack.run("streamed")
    assert (job.job.error, job.job.result) == (None, {"sum": COUNT, "batches": 60})
    (task, *_) = await stack.tasks(job, "each")
    assert task.status == "completed"
    assert query(database_url, "select count(*) from app.staged_items") == [(0,)]
    stored = "select jsonb_array_length(i.parameters), i.parameters #>> '{0,name}' from app.items i where i.idx = 59"
    assert query(database_url, stored) == [(1000, "item-59000")]


async def test_e11_a_fan_out_that_is_interrupted_between_its_batches_is_opened_whole_later(
    stack: Stack, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, whole = 0, PostgresStore._value

    async def fail_once(self: PostgresStore, function: str, *arguments: object) -> Any:  # as the store answers
        nonlocal calls
        calls += function == "stage_items"
        if function == "stage_items" and calls == 3:
            assert query(database_url, "select count(*) > 0 from app.staged_items") == [(True,)]
            assert query(database_url, "select count(*) from app.lanes where node = 'each'") == [(0,)]
            raise Unavailable("test.away", "the database is away")
        return await whole(self, function, *arguments)

    monkeypatch.setattr(PostgresStore, "_value", fail_once)
    job = await stack.run("streamed")
    assert calls > 3
    assert (job.job.error, job.job.result) == (None, {"sum": COUNT, "batches": 60})
    assert query(database_url, "select count(*) from app.staged_items") == [(0,)]


async def test_e3_only_the_holder_of_the_right_stages_items(stack: Stack, database_url: str) -> None:
    assert query(database_url, "select app.stage_items(1, 1, 1, 'each', 0, '[1]')") == [(False,)]


async def test_a20_a_fan_out_over_many_large_results_is_streamed(stack: Stack) -> None:
    job = await stack.run("gathered")
    assert (job.job.error, job.job.result) == (None, {"sum": 80_000, "tasks": 3})


async def test_a20_an_expression_about_a_large_output_fails_its_node_and_names_output_and_bound(stack: Stack) -> None:
    job = await stack.run("looked")
    assert job.job.error is None
    assert isinstance(job.job.result, dict)
    assert "nodes.find.output has 1," in str(job.job.result["failed"])
    assert "at most 1,500,000" in str(job.job.result["failed"])


@pytest.mark.parametrize(
    ("workflow", "said"),
    [
        ("both", "nodes.find.output has"),
        ("not_there", "is missing"),
        ("no_array", "not an array"),
        ("too_many", "at most 100 are allowed"),
    ],
)
async def test_e10_what_is_wrong_with_a_large_source_fails_its_job_alone(
    stack: Stack, workflow: str, said: str
) -> None:
    job = await stack.run(workflow)
    assert job.job.state is JobState.FAILED
    assert said in str(job.job.error)


async def test_e10_a_large_source_that_was_lost_fails_its_job_alone(stack: Stack, tmp_path: Path) -> None:
    job = await stack.run("lost", folder=str(tmp_path / "work"))
    assert job.job.state is JobState.FAILED
    assert "results/" in str(job.job.error)


async def test_a6_e20_a_large_result_of_a_job_is_put_aside_and_read_like_any_other(
    stack: Stack, database_url: str, tmp_path: Path
) -> None:
    job = await stack.run("large_output")
    assert isinstance(job.job.result, dict)
    assert len(job.job.result["items"]) == 40_000  # type: ignore[arg-type]  # an array, by the workflow
    ((stored,),) = query(database_url, "select result from app.jobs")
    assert set(stored) == {"anabranch:reference"}
    assert (tmp_path / "work" / stored["anabranch:reference"]["href"]).stat().st_size > 1_000_000
