"""Workflow functions run: those of the how-to, and choices in every way they can go."""

import re
from pathlib import Path
from typing import Any

import pytest

from anabranch.canonical import Json
from anabranch.engine.model import JobState
from tests.support.stack import Stack, open_stack

pytestmark = pytest.mark.postgres
PAGE = Path(__file__).parents[2] / "docs" / "howto" / "python-workflows.md"
EXAMPLE = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
CHOICES = '''
from typing import Any

from anabranch import choose, expr, handler, workflow


@handler("say", quick=True)
def say(text: str) -> dict[str, str]:
    return {"text": text}


@handler("join", quick=True)
def join(texts: list[Any]) -> str:
    return "+".join(map(str, texts))


@workflow
def choices(n: int, flag: bool = False) -> Any:
    """Every kind of branch, nested, passed on and skipped."""
    always = say(text="always")
    small = say(text="small", name="small")
    inner = choose(flag, say(text="flagged", name="flagged"), None, name="inner")
    size = choose(n > 10, lambda: say(text=f"large {n}", name="large"), n > 5, inner, small, name="size")
    kept = choose(n == 0, say(text="zero", name="zero"), always, name="kept")
    optional = join.options(name="optional")(texts=[expr.default(small["text"], "not small")])
    return join(texts=[size["text"], kept["text"], always["text"], optional])
'''


async def result(stack: Stack, name: str, **inputs: Json) -> Any:
    job = await stack.run(name, **inputs)
    assert job.job.state is JobState.COMPLETED, job.job.error
    return job.job.result


async def test_the_functions_of_the_how_to_and_every_branch_of_a_choice_run(database_url: str, tmp_path: Path) -> None:
    folder = tmp_path / "plugins"
    folder.mkdir()
    for number, example in enumerate(EXAMPLE.findall(PAGE.read_text())):
        (folder / f"example_{number}.py").write_text(example)
    (folder / "choices.py").write_text(CHOICES)
    async with open_stack(database_url, tmp_path, [str(folder)]) as stack:
        assert stack.gateway.registry.refused == {}
        assert await result(stack, "measure_folder", folder="abc") == {
            "report": {"title": "Scenes of abc", "total": 76.0}, "count": 3,
        }  # fmt: skip
        assert await result(stack, "weigh_lot", lot=3) == {"weight": 30, "checked": False, "why": None}
        assert await result(stack, "weigh_lot", lot=30) == {"weight": 300, "checked": True, "why": None}
        assert await result(stack, "weigh_all", count=4) == {"result": 100}
        assert await result(stack, "square_twice", number=3) == {"result": 81}
        for n, flag, said in (
            (20, False, "large 20+always+always+not small"),
            (7, True, "flagged+always+always+not small"),
            (7, False, "None+always+always+not small"),
            (1, True, "small+always+always+small"),
            (0, False, "small+zero+always+small"),
        ):
            assert await result(stack, "choices", n=n, flag=flag) == {"result": said}
