"""What a valid file becomes: every key once, edges from both ends, a stable order, and one hash for one content."""

import json
import random
import re
import time
from datetime import timedelta
from pathlib import Path
from textwrap import dedent

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from anabranch.canonical import Json
from anabranch.engine.registry import load_plugins
from anabranch.engine.worker.handler import handlers_in
from anabranch.errors import DefinitionError
from anabranch.plugins.demo import handlers as demo
from anabranch.workflows.definition import Workflow
from anabranch.workflows.edges import Branch
from anabranch.workflows.inputs import Input
from anabranch.workflows.nodes import ConditionalNode, EndNode, FanInNode, Folding, Kind, OnFailure, Tolerance
from anabranch.workflows.values import Fold
from anabranch.workflows.work import Backoff, Retry
from anabranch.workflows.yaml.load import load_yaml
from tests.support.nodes import make_node

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "workflows.md"
DEMOS = sorted((Path(demo.__file__).parent / "workflows").glob("*.yaml"))
HANDLERS = {found.name: found for found in handlers_in(vars(demo))}

FULL = """
workflow_id: full
name: All keys
version: 3
description: Every key once.
priority: 2
rerun: true
inputs:
  size: {type: integer, required: true, min: 1, max: 9, description: How large.}
  kind: {type: str, choices: [a, b], default: a}
  anything:
nodes:
  START: {description: Here it begins., next: check}
  check:
    type: task
    description: Look at it.
    handler: echo
    queue: light
    params: {size: "{{ inputs.size }}"}
    when: inputs.size > 1
    on_failure: continue
    priority: 1
    retry: {max_attempts: 4, backoff: linear, initial_delay_seconds: 0, max_delay_seconds: 2.5}
    timeout_seconds: 60
    queue_timeout_seconds: 0.5
    heartbeat_timeout_seconds: 30
    total_timeout_seconds: 3600
    next: route
  route:
    type: conditional
    condition_field: "{{ nodes.check.output.size }}"
    branches:
      - {condition: "< 100", next: each}
      - {default: true, next: [END, report]}
  each:
    type: fan_out
    source: [1, 2, 3]
    max_items: 10
    concurrency: 2
    batch_size: 3
    tolerate: 12.5 %
    task: {handler: echo, queue: heavy, params: {item: "{{ item }}", index: "{{ index }}"}, retry: {}}
    on_failure: finish
    next: total
  total:
    type: fan_in
    queue: light
    aggregation: {size: {sum: meta.size}, all: {concat: parts}}
  report: {handler: echo, depends_on: {any_of: [total, route]}}
  END: {depends_on: total, output: {all: "{{ nodes.total.output.all? }}"}}
output: {size: "{{ default(nodes.total.output.size, 0) }}"}
"""
TEXTS = {"full": FULL, **{file.stem: file.read_text() for file in DEMOS}}


def load(text: str) -> Workflow:
    return load_yaml(dedent(text), "w.yaml").require()


def nodes(**bodies: str) -> Workflow:
    return load("workflow_id: w\nnodes:\n" + "".join(f"  {name}: {body}\n" for name, body in bodies.items()))


def folding(workflow: Workflow) -> tuple[Folding, ...]:
    node = workflow.node("all")
    assert isinstance(node, FanInNode)
    return node.folding


def parents(workflow: Workflow) -> dict[str, tuple[str, ...]]:
    return {node.name: node.parents for node in workflow.nodes}


def test_the_keys_of_a_workflow() -> None:
    full = load(FULL)
    assert (full.id, full.name, full.version, full.priority, full.rerun) == ("full", "All keys", 3, 2, True)
    assert full.description == "Every key once."
    assert full.output == {"size": "{{ default(nodes.total.output.size, 0) }}"}
    assert full.inputs == {
        "size": Input("integer", required=True, minimum=1, maximum=9, description="How large."),
        "kind": Input("string", has_default=True, default="a", choices=("a", "b")),
        "anything": Input(),
    }


def test_the_keys_of_a_task() -> None:
    assert load(FULL).node("check") == make_node(
        "check",
        handler="echo",
        after=("START",),
        queue="light",
        timeout=timedelta(minutes=1),
        queue_timeout=timedelta(seconds=0.5),
        heartbeat_timeout=timedelta(seconds=30),
        total_timeout=timedelta(hours=1),
        retry=Retry(4, Backoff.LINEAR, timedelta(0), timedelta(seconds=2.5)),
        on_failure=OnFailure.CONTINUE,
        params={"size": "{{ inputs.size }}"},
        when="inputs.size > 1",
        priority=1,
        description="Look at it.",
    )


def test_the_keys_of_a_conditional() -> None:
    route = load(FULL).node("route")
    assert isinstance(route, ConditionalNode)
    assert (route.kind, route.subject) == (Kind.CONDITIONAL, "{{ nodes.check.output.size }}")
    assert route.branches == (Branch(("each",), "< 100"), Branch(("END", "report"), is_default=True))


def test_the_keys_of_a_fan_out_and_its_task() -> None:
    assert load(FULL).node("each") == make_node(
        "each",
        handler="echo",
        after=("route",),
        queue="heavy",
        max_running=2,
        retry=Retry(),
        on_failure=OnFailure.FINISH,
        kind=Kind.FAN_OUT,
        params={"item": "{{ item }}", "index": "{{ index }}"},
        source=[1, 2, 3],
        max_items=10,
        batch_size=3,
        tolerate=Tolerance(percent=12.5),
    )


def test_the_keys_of_a_fan_in_and_an_end() -> None:
    full = load(FULL)
    total, end = full.node("total"), full.node("END")
    assert isinstance(total, FanInNode)
    assert isinstance(end, EndNode)
    assert (total.kind, total.queue) == (Kind.FAN_IN, "light")
    assert total.folding == (Folding("all", Fold.CONCAT, "parts"), Folding("size", Fold.SUM, "meta.size"))
    assert (end.kind, end.output) == (Kind.END, {"all": "{{ nodes.total.output.all? }}"})


def test_what_is_left_out_has_its_default() -> None:
    plain = nodes(work="{handler: echo}")
    assert plain == Workflow("w", (make_node("work", "echo", params={}),), inputs={})
    folded = nodes(each="{type: fan_out, source: [], task: {handler: echo}, next: all}", all="{type: fan_in}")
    assert folding(folded) == (Folding("items", Fold.COLLECT),)


def test_a_key_with_nothing_is_left_out() -> None:
    assert nodes(work="{handler: echo, next: , retry: , params: , when: }") == nodes(work="{handler: echo}")


@pytest.mark.parametrize(
    ("aggregation", "name"),
    [("collect", "items"), ("concat", "items"), ("sum", "sum"), ("first", "first"), ("last", "last")],
)
def test_a_fold_alone_has_a_name_of_its_own(aggregation: str, name: str) -> None:
    each = "{type: fan_out, source: [], task: {handler: echo}, next: all}"
    folded = nodes(each=each, all=f"{{type: fan_in, aggregation: {aggregation}}}")
    assert folding(folded) == (Folding(name, Fold(aggregation)),)


def test_start_and_end_may_be_left_out_or_given() -> None:
    without = nodes(a="{handler: echo, next: b}", b="{handler: echo}")
    given = nodes(START="{next: a}", a="{handler: echo, next: b}", b="{handler: echo, next: END}", END="")
    assert parents(without) == {"a": (), "b": ("a",)}
    assert parents(given) == {"START": (), "a": ("START",), "b": ("a",), "END": ("b",)}
    assert [node.kind for node in given.nodes] == [Kind.START, Kind.TASK, Kind.TASK, Kind.END]


def test_start_and_end_may_have_other_names() -> None:
    named = nodes(begin="{type: start, next: a}", a="{handler: echo, next: done}", done="{type: end}")
    assert [node.kind for node in named.nodes] == [Kind.START, Kind.TASK, Kind.END]


def test_an_edge_may_be_written_at_either_end_or_both() -> None:
    tail = {"b": "{handler: echo}", "c": "{handler: echo, depends_on: [b, a]}"}
    by_next = nodes(a="{handler: echo, next: c}", b="{handler: echo, next: c}", c="{handler: echo}")
    by_depends_on = nodes(a="{handler: echo}", **tail)
    by_both = nodes(a="{handler: echo, next: c}", **tail)
    by_all_of = nodes(a="{handler: echo}", b="{handler: echo, next: [c]}", c="{handler: echo, depends_on: {all_of: a}}")
    assert by_next.node("c").after == ("a", "b")
    assert {by_next.hash, by_depends_on.hash, by_both.hash, by_all_of.hash} == {by_next.hash}


def test_g3_any_of_rules_an_edge_that_next_names_too() -> None:
    before = nodes(a="{handler: echo, next: c}", b="{handler: echo}", c="{handler: echo, depends_on: {any_of: [a, b]}}")
    after = nodes(c="{handler: echo, depends_on: {any_of: [a, b]}}", a="{handler: echo, next: c}", b="{handler: echo}")
    for workflow in (before, after):
        assert (workflow.node("c").after, workflow.node("c").after_any) == ((), ("a", "b"))


def test_nodes_come_after_what_they_wait_for_and_else_as_written() -> None:
    written = nodes(
        d="{handler: echo, depends_on: [b, c]}",
        c="{handler: echo, depends_on: a}",
        x="{handler: echo}",
        b="{handler: echo, depends_on: a}",
        a="{handler: echo}",
    )
    assert [node.name for node in written.nodes] == ["x", "a", "c", "b", "d"]


@given(st.integers(1, 30), st.randoms(use_true_random=False))
def test_any_order_of_nodes_becomes_topological(count: int, random: random.Random) -> None:
    """Edges lead from smaller to larger numbers; the file has them in any order."""
    waits = {number: sorted(random.sample(range(number), random.randint(0, min(number, 3)))) for number in range(count)}
    order = random.sample(range(count), count)
    loaded = nodes(**{f"n{i}": f"{{handler: echo, depends_on: {[f'n{p}' for p in waits[i]]}}}" for i in order})
    seen: set[str] = set()
    for node in loaded.nodes:
        assert seen.issuperset(node.parents)
        seen.add(node.name)
    assert parents(loaded).keys() == {f"n{i}" for i in range(count)}


def shuffled(value: Json, dice: random.Random) -> Json:
    """The same content with the keys of every mapping in another order."""
    if isinstance(value, list):
        return [shuffled(item, dice) for item in value]
    if isinstance(value, dict):
        return {key: shuffled(value[key], dice) for key in dice.sample(list(value), len(value))}
    return value


@pytest.mark.parametrize("in_braces", [False, True], ids=["lines", "braces"])
@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_e16_the_same_content_has_the_same_hash_in_any_spelling(text: str, in_braces: bool) -> None:
    raw, dice = yaml.safe_load(text), random.Random(16)
    named = {name: shuffled(node, dice) for name, node in raw.pop("nodes").items()}
    again = yaml.safe_dump(
        {"nodes": named, **{key: shuffled(value, dice) for key, value in raw.items()}},
        default_flow_style=in_braces,
        sort_keys=False,
    )
    assert load(again).hash == load(text).hash


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_e16_comments_and_line_ends_change_no_hash(text: str) -> None:
    assert load(f"# Another head.\n\n{text}\n# The end.\n").hash == load(text).hash
    assert load(text.replace("\n", "\r\n")).hash == load(text).hash


def test_e16_another_content_has_another_hash() -> None:
    texts = [
        FULL,
        FULL.replace("version: 3", "version: 4"),
        FULL.replace("[1, 2, 3]", "[1, 3, 2]"),
        FULL.replace("timeout_seconds: 60", "timeout_seconds: 61"),
        FULL.replace("any_of: [total, route]", "all_of: [total, route]"),
    ]
    assert len({load(text).hash for text in texts}) == len(texts)


def test_e16_the_order_of_nodes_is_content_where_edges_leave_it_open() -> None:
    """It is the order in which they are shown and started."""
    assert nodes(a="{handler: echo}", b="{handler: echo}").hash != nodes(b="{handler: echo}", a="{handler: echo}").hash
    one = nodes(a="{handler: echo, next: b}", b="{handler: echo}")
    assert one.hash == nodes(b="{handler: echo}", a="{handler: echo, next: b}").hash


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_e16_a_workflow_survives_being_stored(text: str) -> None:
    loaded = load(text)
    again = Workflow.from_json(yaml.safe_load(loaded.text))
    assert (again, again.hash) == (loaded, loaded.hash)


def test_a_mistake_raises_a_definition_error_with_all_of_them() -> None:
    with pytest.raises(DefinitionError, match=r"(?s)w.yaml:2:10: .*\nw.yaml:3:9: "):
        load("workflow_id: w\nversion: 0\nnodes: {a: {}}\n")


def test_the_example_of_the_seeds_loads() -> None:
    """The example of seed 003, with the node that it forgot."""
    seed = load("""
        workflow_id: raster_processing
        name: Raster Processing Pipeline
        version: 1
        inputs:
          container_name: {type: string, required: true}
          blob_name: {type: string, required: true}
          target_crs: {type: string, default: "EPSG:3857"}
        nodes:
          START: {type: start, next: validate}
          validate:
            type: task
            handler: raster_validate
            queue: functionapp-tasks
            params: {container_name: "{{ inputs.container_name }}", blob_name: "{{ inputs.blob_name }}"}
            next: route_by_size
          route_by_size:
            type: conditional
            condition_field: "{{ nodes.validate.output.file_size_mb }}"
            branches:
              - condition: "< 100"
                next: process_fa
              - default: true
                next: process_docker
          process_fa: {type: task, handler: raster_cog, next: END}
          process_docker:
            type: task
            handler: raster_cog_docker
            queue: container-tasks
            timeout_seconds: 7200
            params: {source_url: "{{ nodes.validate.output.blob_url }}"}
            next: END
          END: {type: end}
        """)
    assert seed.node("END").after == ("process_fa", "process_docker")


def test_500_nodes_load_in_under_a_second() -> None:
    body = "handler: echo\n    params: {id: '{{ job.id }}', before: '{{ nodes.n%d.output.id }}'}\n    next: n%d\n"
    chain = "".join(f"  n{i}:\n    " + body % (i - 1, i + 1) for i in range(1, 499))
    text = f"workflow_id: long\nnodes:\n  n0: {{handler: echo, next: n1}}\n{chain}  n499: {{handler: echo}}\n"
    began = time.process_time()
    loaded = load_yaml(text, "long.yaml", HANDLERS).require()
    assert time.process_time() - began < 1  # 0.1 where nothing else runs
    assert len(loaded.nodes) == 500


@pytest.mark.parametrize("text", re.findall(r"```yaml\n(workflow_id.*?)```", PAGE.read_text(), re.DOTALL))
def test_an_example_of_the_reference_loads(text: str) -> None:
    assert load_yaml(text, str(PAGE), HANDLERS).mistakes == ()


HASHES = Path(__file__).parents[1] / "data" / "workflow_hashes.json"


def test_e16_the_shipped_workflows_have_the_hashes_that_jobs_are_pinned_to() -> None:
    """A workflow that was changed on purpose gets a new version, and its new hash here."""
    found = {workflow.id: workflow.hash for workflow in load_plugins().workflows}
    assert found == json.loads(HASHES.read_text())
