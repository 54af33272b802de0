from datetime import timedelta
from typing import Any, ClassVar

import pytest
from pydantic import BaseModel, Field

from anabranch import ContractViolationError, DefinitionError, InputError, Job, TaskSpec, register_job
from anabranch.engine.from_stages import classes_in, declare
from anabranch.engine.workflow import Spread, Workflow

JOB = "ab" * 32


class Printed:
    """As the older documents print it."""

    JOB_TYPE = "printed"
    BATCH_THRESHOLD = 50
    STAGES: ClassVar = [
        {"stage_number": 1, "stage_name": "list", "task_type": "list_files", "timeout_minutes": 2},
        {"stage_number": 2, "task_type": "process", "parallelism": "fan_out", "max_parallel_tasks": 4},
    ]
    PARAMETERS: ClassVar = {"n": {"type": "int", "default": 3}}

    @staticmethod
    def create_tasks_for_stage(
        stage: int, job_params: dict[str, Any], job_id: str, previous_results: list[Any] | None = None
    ) -> list[dict[str, Any]]:
        if stage == 1:
            return [{"task_id": f"{job_id[:8]}-s1-list", "task_type": "other", "parameters": {"n": job_params["n"]}}]
        assert previous_results is not None
        files = previous_results[0]["result"]["files"]
        return [{"task_id": f"{job_id[:8]}-s2-{name}", "parameters": {"name": name}} for name in files]

    @staticmethod
    def generate_job_id(params: dict[str, Any]) -> str:
        return "ours"


def test_both_spellings_become_the_same_workflow() -> None:
    declared = declare(Printed)
    first, second = declared.workflow.nodes
    assert (first.name, first.timeout, first.planned) == ("list", timedelta(minutes=2), True)
    assert (second.name, second.spread, second.after, second.max_running) == ("stage2", Spread.FAN_OUT, ("list",), 4)
    assert declared.ignored == ("generate_job_id",)


def test_a_printed_task_id_gives_the_index() -> None:
    declared = declare(Printed)
    node = declared.workflow.nodes[1]
    previous = [{"result": {"files": ["a.tif", "b-c.tif"]}}]
    items = declared.plan(node, {"n": 3}, JOB, previous)  # type: ignore[arg-type]  # JSON of the stage before
    assert [item["key"] for item in items if isinstance(item, dict)] == ["a.tif", "b-c.tif"]


def test_a_task_may_name_its_own_handler() -> None:
    declared = declare(Printed)
    (item,) = declared.plan(declared.workflow.nodes[0], {"n": 3}, JOB, [])
    assert item == {"key": "list", "handler": "other", "parameters": {"n": 3}, "metadata": None}


def test_a_workflow_survives_its_pinned_form() -> None:
    workflow = declare(Printed).workflow
    again = Workflow.from_json(__import__("json").loads(workflow.text))
    assert again == workflow
    assert again.hash == workflow.hash


class Sized(BaseModel):
    n: int = Field(3, ge=1)


@register_job
class Modelled(Job):
    """Checked by a pydantic model, then by its own rule."""

    job_type = "modelled"
    parameters_schema = Sized
    stages: ClassVar = [{"number": 1, "task_type": "x"}]

    def create_tasks_for_stage(self, stage: int, params: Sized) -> list[TaskSpec]:
        return [TaskSpec({"i": i}) for i in range(params.n)]

    @staticmethod
    def validate_job_parameters(params: dict[str, Any]) -> dict[str, Any]:
        if params["n"] == 13:
            raise ValueError("13 is not lucky")
        return params


def test_g9_a_pydantic_model_checks_the_parameters() -> None:
    declared = declare(Modelled)
    assert declared.check({}) == {"n": 3}
    with pytest.raises(InputError, match="n: Input should be greater"):
        declared.check({"n": 0})
    with pytest.raises(InputError, match="13 is not lucky"):
        declared.check({"n": 13})


def test_a_planner_gets_the_model_and_indexes_are_places() -> None:
    declared = declare(Modelled)
    items = declared.plan(declared.workflow.nodes[0], {"n": 2}, JOB, [])
    assert [item["key"] for item in items if isinstance(item, dict)] == ["0", "1"]


def test_jobs_are_found_by_decorator_and_by_list() -> None:
    found = classes_in({"A": Modelled, "ALL_JOBS": {"printed": Printed, "modelled": Modelled}})
    assert found == [Modelled, Printed]


@pytest.mark.parametrize(
    ("stages", "message"),
    [
        ([], "no nodes"),
        ([{"number": 1}], "task_type"),
        ([{"number": 1, "task_type": "x", "colour": "red"}], "colour"),
        ([{"number": 1, "task_type": "x", "parallelism": "wide"}], "parallelism"),
        ([{"number": 1, "task_type": "x"}, {"number": 1, "task_type": "y"}], "stands twice"),
        ([{"number": 1, "task_type": "x", "parallelism": "fan_in"}], "needs one stage before it"),
        ([{"number": 1, "task_type": "x", "parallelism": "dynamic"}], "needs a planner or count_param"),
        ([{"number": 1, "task_type": "x", "parallelism": "dynamic", "count_param": "m"}], "'m', which is not an input"),
        ([{"number": 1, "task_type": "x", "name": "two words"}], "can't be a node's name"),
        ([{"number": 2, "task_type": "x", "depends_on_stage": 3}], "depends on stage 3"),
        ([{"number": 1, "task_type": "x", "timeout_seconds": -1}], "timeouts must be positive"),
    ],
)
def test_g4_a_wrong_declaration_is_refused_and_named(stages: list[dict[str, Any]], message: str) -> None:
    wrong = type("Wrong", (), {"job_type": "wrong", "stages": stages, "parameters_schema": {"n": {"type": "int"}}})
    with pytest.raises(DefinitionError) as error:
        declare(wrong)
    assert message in error.value.message
    assert "wrong" in error.value.message or "stage 2" in error.value.message


@pytest.mark.parametrize("answer", [None, "tasks", [1], [{"index": 1}, {"index": 1}], [{"x": {1}}]])
def test_a_planner_that_answers_nonsense_broke_its_contract(answer: object) -> None:
    wrong = type(
        "Wrong",
        (),
        {
            "job_type": "wrong",
            "stages": [{"number": 1, "task_type": "x"}],
            "create_tasks_for_stage": lambda self, stage, params: answer,
        },
    )
    declared = declare(wrong)
    with pytest.raises((ContractViolationError, ValueError)):
        declared.plan(declared.workflow.nodes[0], {}, JOB, [])
