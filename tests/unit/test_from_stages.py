from datetime import timedelta
from types import ModuleType
from typing import Any, ClassVar

import pytest
from pydantic import BaseModel, Field
from structlog.testing import capture_logs

from anabranch import ContractViolationError, DefinitionError, InputError, Job, TaskSpec, register_job
from anabranch.engine.advancing.evaluator import plan
from anabranch.engine.advancing.lanes import OpenLane
from anabranch.engine.advancing.transitions import Facts, LaneEnded
from anabranch.engine.model import JobState, NodeState, Purpose
from anabranch.engine.registry import Registry, load_plugins
from anabranch.workflows.definition import Workflow
from anabranch.workflows.nodes import Spread, StageNode
from anabranch.workflows.stages import classes_in, declare
from anabranch.workflows.yaml.load import load_yaml

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
    assert isinstance(first, StageNode)
    assert isinstance(second, StageNode)
    assert (first.name, first.timeout, first.planned) == ("list", timedelta(minutes=2), True)
    assert (second.name, second.spread, second.after, second.max_running) == ("stage2", Spread.FAN_OUT, ("list",), 4)
    assert declared.ignored == ("generate_job_id",)


def test_what_is_the_engines_own_business_is_ignored_with_a_warning() -> None:
    module, registry = ModuleType("printed"), Registry()
    vars(module)["ALL_JOBS"] = {"printed": Printed}
    registry.handlers |= dict.fromkeys(("list_files", "process"), load_plugins().handlers["echo"])
    with capture_logs() as logs:
        registry.add(module)
        registry.resolve()
    warned = [line for line in logs if line["event"] == "job.method_ignored"]
    assert [(line["log_level"], line["method"]) for line in warned] == [("warning", "generate_job_id")]


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
    with pytest.raises(InputError, match="n is refused: it should be greater"):
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


def test_a_job_may_say_how_many_tasks_of_each_stage_run_at_once() -> None:
    stages = [{"number": 1, "task_type": "x"}, {"number": 2, "task_type": "x", "max_parallel_tasks": 2}]
    limited = type("Limited", (), {"job_type": "limited", "stages": stages, "max_parallel_tasks": 5})
    found = [node for node in declare(limited).workflow.nodes if isinstance(node, StageNode)]
    assert [node.max_running for node in found] == [5, 2]


def test_a_fan_in_may_depend_on_several_stages() -> None:
    class Several(Job):
        job_type = "several"
        stages: ClassVar[list[dict[str, object]]] = [
            {"number": 1, "task_type": "x"},
            {"number": 2, "task_type": "x"},
            {"number": 3, "task_type": "x", "parallelism": "fan_in", "depends_on_stage": [2, 1]},
        ]

    flow = declare(Several).workflow
    assert flow.node("stage3").after == ("stage2", "stage1")
    states = {"stage1": NodeState.COMPLETED, "stage2": NodeState.RUNNING, "stage3": NodeState.PENDING}
    planned = plan(flow, Facts("job", {}, states, state=JobState.RUNNING), LaneEnded("stage2", Purpose.WORK, 0))
    assert isinstance(planned, tuple)
    lane = planned[-1]
    assert isinstance(lane, OpenLane)
    assert lane.shape.collected == ("stage2", "stage1")


@pytest.mark.parametrize(
    ("stages", "message"),
    [
        ([], "no nodes"),
        ([{"number": 1}], "task_type"),
        ([{"number": 1, "task_type": "x", "colour": "red"}], "colour"),
        ([{"number": 1, "task_type": "x", "parallelism": "wide"}], "parallelism"),
        ([{"number": 1, "task_type": "x"}, {"number": 1, "task_type": "y"}], "duplicate stage number 1"),
        ([{"number": 1, "task_type": "x", "parallelism": "fan_in"}], "fan_in needs a stage before it"),
        (
            [
                *({"number": n, "task_type": "x"} for n in (1, 2)),
                {"number": 3, "task_type": "x", "depends_on_stage": [1, 2]},
            ],
            "stage 3 is no fan_in, and depends on several",
        ),
        ([{"number": 1, "task_type": "x", "parallelism": "dynamic"}], "needs a planner or count_param"),
        ([{"number": 1, "task_type": "x", "parallelism": "dynamic", "count_param": "m"}], "'m', which is not an input"),
        ([{"number": 1, "task_type": "x", "name": "two words"}], "can't be a node's name"),
        ([{"number": 2, "task_type": "x", "depends_on_stage": 3}], "depends on stage 3"),
        (
            [{"number": 1, "task_type": "x", "timeout_seconds": -1}],
            "timeout_seconds is a number of seconds above 0",
        ),
        ([{"number": 1, "stage_number": 1, "task_type": "x"}], "number and stage_number say the same"),
        ([{"number": 1, "task_type": "x", "timeout_minutes": 1, "timeout_seconds": 60}], "say the same"),
        ([{"number": 1, "task_type": "x", "timeout_minutes": None}], "stage 1"),
        (["list", 3], "stage 2"),
    ],
)
def test_g4_a_wrong_declaration_is_refused_and_named(stages: list[dict[str, Any]], message: str) -> None:
    wrong = type("Wrong", (), {"job_type": "wrong", "stages": stages, "parameters_schema": {"n": {"type": "int"}}})
    with pytest.raises(DefinitionError) as error:
        declare(wrong)
    assert message in error.value.message
    assert any(word in error.value.message for word in ("wrong", "stage 2", "stage 3"))


def test_e15_a_class_can_ask_for_a_new_job_each_time() -> None:
    stages = [{"number": 1, "task_type": "x"}]
    assert declare(type("Look", (), {"job_type": "look", "stages": stages, "rerun": True})).workflow.rerun
    assert not declare(type("Work", (), {"job_type": "work", "stages": stages})).workflow.rerun


@pytest.mark.parametrize(
    "answer",
    [
        None,
        "tasks",
        [1],
        [{"index": 1}, {"index": 1}],
        [{"x": {1}}],
        [{"index": 1.5}],
        [{"index": True}],
        [{"parameters": {}, "priority": 1}],
    ],
)
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


ANSWER = {"stage": 1, "params": {"n": 2}, "job_id": JOB, "previous_results": [{"result": 5}]}


class ByName:
    def create_tasks_for_stage(self, previous_results: Any, stage: Any, params: Any, job_id: Any) -> Any:
        return [{"stage": stage, "params": params, "job_id": job_id, "previous_results": previous_results}]


class ByPosition:
    @staticmethod
    def create_tasks_for_stage(number: Any, given: Any, job: Any, before: Any = None) -> Any:
        return [{"stage": number, "params": given, "job_id": job, "previous_results": before}]


class Mixed:
    @classmethod
    def create_tasks_for_stage(cls, stage: Any, job_params: Any, *, previous_results: Any, job_id: Any = "") -> Any:
        return [{"stage": stage, "params": job_params, "job_id": job_id, "previous_results": previous_results}]


class Keywords:
    def create_tasks_for_stage(self, stage: Any, params: Any, **kwargs: Any) -> Any:
        return [{"stage": stage, "params": params, **kwargs}]


class Rest:
    def create_tasks_for_stage(self, *args: Any) -> Any:
        return [dict(zip(("stage", "params", "job_id", "previous_results"), args, strict=True))]


class PositionOnly:
    def create_tasks_for_stage(self, stage: Any, params: Any, job_id: Any, previous: Any, /, more: int = 1) -> Any:
        return [{"stage": stage, "params": params, "job_id": job_id, "previous_results": previous}]


@pytest.mark.parametrize("planner", [ByName, ByPosition, Mixed, Keywords, Rest, PositionOnly])
def test_a_planner_gets_what_it_takes_by_name_and_by_position(planner: type) -> None:
    declared = declare(type("Any", (planner,), {"job_type": "any", "stages": [{"number": 1, "task_type": "x"}]}))
    (item,) = declared.plan(declared.workflow.nodes[0], {"n": 2}, JOB, [{"result": 5}])
    assert isinstance(item, dict)
    assert item["parameters"] == ANSWER


class Short:
    job_type = "short"
    stages: ClassVar = [{"number": 1, "task_type": "x"}]

    def create_tasks_for_stage(self, stage: int) -> list[TaskSpec]:
        return [TaskSpec(index=f"{stage}")]


def test_a_planner_may_take_less() -> None:
    declared = declare(Short)
    assert len(declared.plan(declared.workflow.nodes[0], {}, JOB, [])) == 1


def test_g4_a_planner_that_takes_what_nobody_gives_is_refused() -> None:
    def create(
        self: object, stage: int, params: object, job_id: str, previous_results: object, database: str
    ) -> None: ...

    with pytest.raises(DefinitionError, match="'database', which nobody gives it"):
        declare(type("Wrong", (Short,), {"create_tasks_for_stage": create}))


@pytest.mark.parametrize("schema", [["n"], {"n": "int"}, int, "n"])
def test_g4_a_schema_that_is_none_is_refused(schema: object) -> None:
    with pytest.raises(DefinitionError, match="neither a dict of inputs nor a pydantic model"):
        declare(type("Wrong", (Short,), {"parameters_schema": schema}))


def test_g4_a_class_that_can_not_be_made_is_refused() -> None:
    def init(self: object, url: str) -> None: ...

    with pytest.raises(DefinitionError, match="'url'"):
        declare(type("Wrong", (Short,), {"__init__": init}))


def test_g9_a_validator_may_change_the_parameters_or_leave_them() -> None:
    def checked(answer: object) -> dict[str, Any]:
        validate = staticmethod(lambda params: answer)
        return declare(type("Checked", (Short,), {"validate_job_parameters": validate})).check({"n": 1})

    assert checked(None) == {"n": 1}
    assert checked({"n": 2}) == {"n": 2}
    with pytest.raises(ContractViolationError, match="returned list"):
        checked([1])


class Aliased(BaseModel):
    blob_name: str = Field(alias="blobName")


def test_a_model_with_an_alias_is_stored_as_it_was_given() -> None:
    declared = declare(type("A", (Short,), {"parameters_schema": Aliased}))
    given = declared.check({"blobName": "a.tif"})
    assert given == {"blobName": "a.tif"}
    assert len(declared.plan(declared.workflow.nodes[0], given, JOB, [])) == 1


REVIEW = {"approved": {"type": "boolean", "required": True}}


def declare_stages(*stages: dict[str, Any]) -> Workflow:
    numbered = [{"number": number, "name": f"s{number}", **stage} for number, stage in enumerate(stages, 1)]
    return declare(
        type("Reviewed", (Job,), {"job_type": "reviewed", "stages": numbered, "max_parallel_tasks": 2})
    ).workflow


def test_a_stage_can_be_a_gate_as_a_file_declares_it() -> None:
    work = {"task_type": "echo"}
    gate = {"type": "gate", "timeout_minutes": 5, "answer": REVIEW, "on_failure": "continue"}
    found = declare_stages(work, gate, {**work, "type": "task"}).node("s2")
    file = "{workflow_id: a, nodes: {s1: {handler: echo}, s2: {type: gate, depends_on: s1, timeout_seconds: 300,"
    file += " on_failure: continue, answer: {approved: {type: boolean, required: true}}}}}"
    assert found == load_yaml(file, "a.yaml").require().node("s2")


@pytest.mark.parametrize(
    ("stages", "message"),
    [
        ([{"type": "gate", "answr": REVIEW}], "a gate has no key 'answr'"),
        ([{"type": "gate", "task_type": "echo"}], "a gate has no key 'task_type'"),
        ([{"type": "gate", "answer": {"n": {"type": "odd"}}}], "type is one of"),
        ([{"type": "door"}], "stage 1: type is task or gate, not 'door'"),
        ([{"type": "gate"}, {"task_type": "a", "parallelism": "match_previous"}], "stage 1 is a gate"),
        ([{"type": "gate"}, {"task_type": "a", "uses_lineage": True}], "stage 1 is a gate"),
    ],
)
def test_mistakes_in_a_gate_of_stages_are_named(stages: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        declare_stages(*stages)
