"""Each case of tests/data/broken opens with its mistakes, as a user reads them: where, what, what to do (G4)."""

import json
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from anabranch.canonical import Json
from anabranch.engine.worker.handler import handlers_in
from anabranch.plugins.demo import handlers as demo
from anabranch.workflows.definition import Workflow
from anabranch.workflows.inputs import Input
from anabranch.workflows.mistakes import MAX_MISTAKES
from anabranch.workflows.nodes import NODES
from anabranch.workflows.rules import declared_keys
from anabranch.workflows.stages import Declaration
from anabranch.workflows.work import Retry
from anabranch.workflows.yaml.load import FileMistake, Loaded, load_yaml
from tests.support.broken import BROKEN
from tests.support.nodes import make_node

DEMOS = sorted((Path(demo.__file__).parent / "workflows").glob("*.yaml"))
HANDLERS = {found.name: found for found in handlers_in(vars(demo))}
EXPECTED = re.compile(r"# ([0-9]+:[0-9]+) (.+)")
PYTHON_WORDS = re.compile(r"\b(?:None|NoneType|dict|(?<!!)str|int|bool|True|False|\w*Error)\b|<[A-Z]\w+\.")
ODD = [
    "5",
    "-1",
    "0.5",
    "true",
    "null",
    "[]",
    "{}",
    "[a, b]",
    "{a: b}",
    '""',
    "'{{ item }}'",
    "echo",
    "END",
    "~",
    "yes",
]


class Scene(BaseModel):
    """What a workflow declared in Python takes."""

    path: str
    bands: int = 1


def declare(text: str) -> Declaration:
    return Declaration(load_yaml(text, "known.yaml", HANDLERS).require())


DEEP = [f"{{workflow_id: deep{n}, nodes: {{a: {{type: workflow, workflow: deep{n - 1}}}}}}}" for n in range(2, 9)]
KNOWN = [
    """
    workflow_id: child
    inputs:
      n: {type: integer, required: true, max: 10}
      name: {type: string, default: x}
      files: {type: array}
    nodes: {a: {handler: echo, limit: scarce}}
    """,
    "{workflow_id: ring, nodes: {a: {type: workflow, workflow: broken}}}",
    "{workflow_id: deep1, nodes: {a: {handler: echo}}}",
    *DEEP,
]
BESIDE = {declared.workflow.id: declared for declared in map(declare, KNOWN)}
BESIDE["scene"] = Declaration(Workflow("scene", (make_node("a", "echo"),)), model=Scene)
REFUSED = {"ruined": "plugins/ruined.yaml"}


def load(text: str | bytes) -> Loaded:
    return load_yaml(text, "file.yaml", HANDLERS).among(BESIDE, REFUSED)


def tell(mistake: FileMistake) -> str:
    place = f"{mistake.line}:{mistake.column}"
    return f"{place} {str(mistake).removeprefix(f'file.yaml:{place}: ')}"


def expected(text: str) -> list[str]:
    """What the comments say at the head of a file."""
    found: list[str] = []
    for line in text.splitlines():
        if (match := EXPECTED.fullmatch(line)) is None:
            break
        found.append(f"{match[1]} {match[2]}")
    return found


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN)
def test_g4_a_broken_file_is_told_its_mistakes(text: str) -> None:
    assert [tell(mistake) for mistake in load(text).mistakes] == expected(text)


def test_g4_no_broken_file_loads() -> None:
    assert len(BROKEN) >= 260
    assert [name for name, text in BROKEN.items() if load(text).workflow is not None] == []
    assert [name for name, text in BROKEN.items() if not expected(text)] == []


def test_mistakes_are_told_in_the_words_of_the_file() -> None:
    told = [(name, tell(mistake)) for name, text in BROKEN.items() for mistake in load(text).mistakes]
    assert [(name, said) for name, said in told if PYTHON_WORDS.search(said) or said[-1] not in ".?"] == []


def test_a_mistake_reads_as_a_compiler_tells_it() -> None:
    place = ("a.yaml", 3, 5)
    assert str(FileMistake(*place, "there is no node 'x'", "Did you mean 'y'?")) == (
        "a.yaml:3:5: there is no node 'x'. Did you mean 'y'?"
    )
    assert str(FileMistake(*place, "it is empty")) == "a.yaml:3:5: it is empty."
    assert str(FileMistake(*place, "it is odd", "Use a, b")) == "a.yaml:3:5: it is odd. Use a, b."


def load_in_time(text: str | bytes) -> None:
    """No text may raise, or take long: half a second allows for a busy machine."""
    began = time.process_time()
    loaded = load(text)
    assert time.process_time() - began < 0.5
    assert (loaded.workflow is None) == bool(loaded.mistakes)


@given(st.text() | st.binary())
def test_g5_any_text_gives_mistakes_and_no_crash(text: str | bytes) -> None:
    load_in_time(text)


NODE_KEYS = {kind: ("type", *node.edges, *declared_keys(node)) for kind, node in NODES.items()}
WORKFLOW_KEYS = [*declared_keys(Workflow), "inputs", "nodes"]
KEYS = sorted(
    {key for keys in (*NODE_KEYS.values(), WORKFLOW_KEYS, declared_keys(Input), declared_keys(Retry)) for key in keys}
)
WORDS = [
    "a",
    "b",
    "START",
    "END",
    "echo",
    "task",
    "fan_out",
    "fan_in",
    "conditional",
    "5 %",
    "{{ item }}",
    "< 5",
    "sum",
]
SCALARS = st.none() | st.booleans() | st.integers(-1, 10) | st.floats(allow_nan=False) | st.sampled_from(WORDS)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*KEYS, "a", "b", "START", "END"]), inner, max_size=5)
    ),
    max_leaves=20,
)


@given(st.dictionaries(st.sampled_from(WORKFLOW_KEYS), VALUES), st.dictionaries(st.sampled_from(WORDS[:5]), VALUES))
def test_g5_any_values_of_the_known_keys_give_mistakes_and_no_crash(
    top: dict[str, Json], nodes: dict[str, Json]
) -> None:
    load_in_time(json.dumps({"workflow_id": "w", **top, "nodes": nodes}))


@st.composite
def edited(draw: st.DrawFn) -> str:
    """A demo workflow after a few accidents: lines lost, doubled or moved, values replaced, indentation changed."""
    lines = draw(st.sampled_from(DEMOS)).read_text().splitlines()
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(lines) - 1))
        edit = draw(st.sampled_from(EDITS))
        lines = [*lines[:at], *edit(lines[at], draw(st.sampled_from(ODD))), *lines[at + 1 :]]
        lines = lines or [""]
    return "\n".join(lines)


def replace_value(line: str, odd: str) -> list[str]:
    return [re.sub(r"(\w+:) [^,{}]+(?=[,}]|$)", rf"\1 {odd}", line, count=1)]


def replace_last(line: str, odd: str) -> list[str]:
    return [re.sub(r"(\w+:) [^,{}:]+(?=\}*$)", rf"\1 {odd}", line)]


EDITS: list[Callable[[str, str], list[str]]] = [
    lambda line, odd: [],
    lambda line, odd: [line, line],
    lambda line, odd: [f"  {line}"],
    lambda line, odd: [line.removeprefix("  ")],
    lambda line, odd: [line, f"{line[: len(line) - len(line.lstrip())]}extra: {odd}"],
    lambda line, odd: [re.sub(r"\w+(?=:)", odd, line, count=1)],
    replace_value,
    replace_last,
]


@given(edited())
@settings(max_examples=300)
def test_g5_a_damaged_workflow_gives_mistakes_and_no_crash(text: str) -> None:
    load_in_time(text)


@pytest.mark.parametrize("key", ["workflow_id", "inputs", "nodes", "output", "version", "priority", "name"])
@pytest.mark.parametrize("odd", ODD)
def test_g5_any_value_of_any_key_gives_mistakes_and_no_crash(key: str, odd: str) -> None:
    load_in_time(f"workflow_id: w\nnodes: {{a: {{handler: echo}}}}\n{key}: {odd}\n")
    load_in_time(f"{key}: {odd}\n")


@pytest.mark.parametrize("odd", ODD)
def test_g5_any_value_inside_a_node_gives_mistakes_and_no_crash(odd: str) -> None:
    for kind, keys in NODE_KEYS.items():
        for key in keys:
            load_in_time(f"workflow_id: w\nnodes:\n  a: {{type: {kind}, {key}: {odd}}}\n")
    for key in declared_keys(Retry):
        load_in_time(f"workflow_id: w\nnodes:\n  a: {{handler: echo, retry: {{{key}: {odd}}}}}\n")
    for key in declared_keys(Input):
        load_in_time(f"workflow_id: w\ninputs: {{x: {{{key}: {odd}}}}}\nnodes:\n  a: {{handler: echo}}\n")


SIZE = 10_000
HUGE: dict[str, str] = {
    "cycle": "".join(f"  n{i}: {{handler: echo, next: n{(i + 1) % SIZE}}}\n" for i in range(SIZE)),
    "chain backwards": "".join(f"  n{i}: {{handler: echo, depends_on: n{i + 1}}}\n" for i in range(SIZE)),
    "each waits for itself": "".join(f"  n{i}: {{handler: echo, next: n{i}}}\n" for i in range(SIZE)),
    "unknown targets": "".join(f"  n{i}: {{handler: echo, next: m{i}}}\n" for i in range(SIZE)),
    "unknown keys": "".join(f"  n{i}: {{handlr: echo}}\n" for i in range(SIZE)),
    "unknown references": "  a:\n    handler: echo\n    params:\n      x: '"
    + "".join(f"{{{{ inputs.x{i} }}}}" for i in range(SIZE))
    + "'\n",
    "open brackets": "  a: " + "[" * SIZE + "\n",
    "open braces": "  a: " + "{" * SIZE + "\n",
    "deep": "".join(f"{' ' * (2 + i)}a:\n" for i in range(1_000)),
    "a long name": f"  a: {{handler: echo, next: {'x' * 900_000}}}\n",
}


@pytest.mark.parametrize("body", HUGE.values(), ids=HUGE)
def test_g5_a_huge_file_is_told_its_first_mistakes_in_time(body: str) -> None:
    began = time.process_time()
    mistakes = load(f"workflow_id: huge\nnodes:\n{body}").mistakes
    assert 0 < len(mistakes) <= MAX_MISTAKES
    assert max(len(str(mistake)) for mistake in mistakes) < 400
    assert time.process_time() - began < 20  # a second or two where nothing else runs
