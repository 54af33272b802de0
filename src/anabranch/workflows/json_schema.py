"""The JSON Schema of a workflow file, for editors that complete and check while one types; the loader says the rest."""

from collections.abc import Mapping, Sequence
from typing import get_args

from anabranch.canonical import Json
from anabranch.workflows.bounds import MAX_ATTEMPTS, MAX_SECONDS, MAX_TASKS, MAX_WHOLE, PRIORITIES
from anabranch.workflows.definition import DEFAULT_TIMEOUT, Backoff, Fold, Kind, OnFailure, Retry
from anabranch.workflows.inputs import FORMATS, InputType
from anabranch.workflows.validation import ID, NAME
from anabranch.workflows.yaml_keys import (
    BRANCH_KEYS,
    DEPENDS_KEYS,
    INPUT_KEYS,
    NESTED,
    NODE_KEYS,
    RETRY_KEYS,
    RUNNING,
    WORKFLOW_KEYS,
)

__all__ = ["workflow_schema"]

Schema = dict[str, Json]

_SHORT_TYPES = ("str", "int", "float", "bool", "list", "dict")
_REQUIRED: dict[Kind, tuple[str, ...]] = {
    Kind.TASK: ("handler",),
    Kind.FAN_OUT: ("source", "task"),
    Kind.CONDITIONAL: ("branches",),
    Kind.WORKFLOW: ("workflow",),
}
_EXPRESSION = r"\{\{"
_TIME = r"[T ].*(?:[Zz]|[+-][0-9]{2}(?::?[0-9]{2})?)$"
_EITHER: Schema = {
    "anyOf": [{"required": ["duration_seconds"]}, {"required": ["until"]}],
    "not": {"required": ["duration_seconds", "until"]},
}
_SAID = {
    Kind.TASK: "One task: a handler and its parameters.",
    Kind.START: "Where the work begins; it may be left out.",
    Kind.END: "Where the work ends; it may be left out, or hold the job's result.",
    Kind.CONDITIONAL: "Takes the first branch whose condition holds; the others are skipped.",
    Kind.FAN_OUT: "A task for each item of an array.",
    Kind.FAN_IN: "Collects the results of the fan_out right before it.",
    Kind.GATE: "Waits for a person's approval or a signal from elsewhere, which is its output.",
    Kind.WAIT: "Waits for some time, or until a time.",
    Kind.WORKFLOW: "Runs a job of another workflow.",
}


def workflow_schema() -> Schema:
    """The schema, in draft 2020-12."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Anabranch workflow",
        **_object("A DAG of nodes that jobs run.", WORKFLOW_KEYS, _workflow(), ("workflow_id", "nodes")),
        "$defs": {
            **{str(kind): _kind(kind) for kind in Kind},
            "node": _node(Kind.TASK),
            "start_node": _node(Kind.START),
            "end_node": _node(Kind.END),
            "nested": _object("The job that is run for each item.", NESTED, _nested(), ("workflow",)),
            "running": _object("The task that is run for each item.", RUNNING, _running(), ("handler",)),
            "input": _object("What a job may be given.", INPUT_KEYS, _input(), can_be_null=True),
            "retry": _object("How often a task is tried, and how long it waits.", RETRY_KEYS, _retry()),
            "depends_on": _object("Which nodes it waits for.", DEPENDS_KEYS, _depends_on()),
            "branch": _branch_object(),
            "names": _names("A node, or a list of nodes."),
        },
    }


def _object(
    said: str,
    keys: Sequence[str],
    known: Mapping[str, Json],
    required: Sequence[str] = (),
    *,
    can_be_null: bool = False,
) -> Schema:
    """A mapping with the keys of one of the loader's tables, and no others."""
    return {
        "description": said,
        "type": ["object", "null"] if can_be_null else "object",
        "properties": {key: known[key] for key in keys},
        "required": list(required),
        "additionalProperties": False,
    }


def _node(usual: Kind) -> Schema:
    """A node whose type decides its keys; without a type it is the usual one."""
    rules: list[Json] = [
        {
            "if": {"properties": {"type": {"const": str(kind)}}, "required": [] if kind is usual else ["type"]},
            "then": {"$ref": f"#/$defs/{kind}"},
        }
        for kind in Kind
    ]
    kinds = _words("What the node is.", list(Kind), default=str(usual))
    return {
        "type": "object" if usual is Kind.TASK else ["object", "null"],
        "properties": {"type": kinds},
        "allOf": rules,
    }


def _kind(kind: Kind) -> Schema:
    known = {**_every_node(), **_nested(), **_special()}
    made = _object(_SAID[kind], NODE_KEYS[kind], known, _REQUIRED.get(kind, ()), can_be_null=True)
    return {**made, **_EITHER} if kind is Kind.WAIT else made


def _branch_object() -> Schema:
    default: Schema = {"properties": {"default": {"const": True}}, "required": ["default"]}
    either: list[Json] = [{"required": ["condition"]}, default]
    return {**_object("A way out.", BRANCH_KEYS, _branch(), ("next",)), "anyOf": either}


def _workflow() -> Schema:
    return {
        "workflow_id": _text("Its id, by which jobs are submitted.", pattern=f"^{ID.pattern}$"),
        "name": _text("A name for people."),
        "version": _whole("The version of this definition.", default=1),
        "description": _text("What it does, in a sentence."),
        "priority": _whole("How urgent its tasks are: 1 comes first.", *PRIORITIES, default=5),
        "inputs": {
            "description": "What a job may be given, by name.",
            "type": "object",
            "propertyNames": {"pattern": f"^{NAME.pattern}$"},
            "additionalProperties": {"$ref": "#/$defs/input"},
        },
        "nodes": {
            "description": "The steps, by name.",
            "type": "object",
            "minProperties": 1,
            "propertyNames": {"pattern": f"^{NAME.pattern}$"},
            "properties": {"START": {"$ref": "#/$defs/start_node"}, "END": {"$ref": "#/$defs/end_node"}},
            "additionalProperties": {"$ref": "#/$defs/node"},
        },
        "output": _any("The job's result: a mapping with expressions.", "object"),
    }


def _input() -> Schema:
    return {
        "type": _words("What it may be.", (*get_args(InputType), *_SHORT_TYPES), default="any"),
        "required": {"description": "Whether a job must give it.", "type": "boolean", "default": False},
        "default": {"description": "Its value where a job gives none."},
        "min": _any("The least number, or the least length of text or an array.", "number"),
        "max": _any("The greatest number, or the greatest length of text or an array.", "number"),
        "choices": {"description": "The values it may have.", "type": "array", "minItems": 1},
        "enum": {"description": "Another word for choices.", "type": "array", "minItems": 1},
        "format": {
            "description": "What a string is: an address of storage, or one line of text that can be shown.",
            "enum": list(FORMATS),
        },
        "description": _text("What it is, in a sentence."),
    }


def _every_node() -> Schema:
    return {
        "type": {"description": "What the node is."},
        "description": _text("What it does, in a sentence."),
        "next": {"description": "What comes after it: a node, or a list.", "$ref": "#/$defs/names"},
        "depends_on": {
            "description": "What it waits for: a node or a list, of which all must be done; or all_of and any_of.",
            "anyOf": [{"$ref": "#/$defs/names"}, {"$ref": "#/$defs/depends_on"}],
        },
        "when": _any("A condition; where it is false, the node is skipped.", "string", "boolean"),
        "on_failure": _words("What its failure means for the job.", list(OnFailure), default="fail"),
    }


def _running() -> Schema:
    waiting = "How long a task may wait for a worker, in seconds."
    return {
        "handler": _text("The handler that does the work.", minLength=1),
        "queue": _text("The queue of its tasks, in place of the handler's.", minLength=1),
        "params": _any("The handler's parameters; text in them may hold expressions.", "object"),
        "retry": {"description": "How often a task is tried, in place of the handler's.", "$ref": "#/$defs/retry"},
        "priority": _whole("How urgent its tasks are, in place of the workflow's: 1 comes first.", *PRIORITIES),
        "timeout_seconds": _seconds(
            "How long one attempt may run, in place of the handler's.", default=DEFAULT_TIMEOUT.total_seconds()
        ),
        "queue_timeout_seconds": _seconds(waiting),
        "heartbeat_timeout_seconds": _seconds("How long a handler that reports progress may be silent, in seconds."),
        "limit": _text(
            "A key whose tasks are limited together, by `anabranch limits`; it may be an expression.", minLength=1
        ),
        "total_timeout_seconds": _seconds("How long all attempts of a task together may take, in seconds."),
    }


def _nested() -> Schema:
    return {**_running(), "workflow": _text("The id of the workflow that is run.", pattern=f"^{ID.pattern}$")}


def _special() -> Schema:
    """The keys that only one or two types of nodes have."""
    share: Schema = {"type": "string", "pattern": r"^(?:100|[0-9]{1,2})(?:\.[0-9]*)? *%$"}
    fold: Schema = {
        "type": "object",
        "propertyNames": {"enum": [str(fold) for fold in Fold]},
        "additionalProperties": {"type": "string", "minLength": 1},
        "minProperties": 1,
        "maxProperties": 1,
    }
    return {
        "output": _any("The job's result: a mapping with expressions.", "object"),
        "condition_field": {"description": "What the short conditions of the branches are about: an expression."},
        "branches": {
            "description": "The ways out; the first whose condition holds is taken, and the last is the default.",
            "type": "array",
            "items": {"$ref": "#/$defs/branch"},
            "minItems": 1,
        },
        "source": _any("The array of items: an expression, or a list.", "string", "array"),
        "task": {
            "description": "The task, or the job of a workflow, that is run for each item.",
            "anyOf": [{"$ref": "#/$defs/running"}, {"$ref": "#/$defs/nested"}],
        },
        "duration_seconds": {
            "description": "How long it waits, in seconds: a number, or an expression.",
            "anyOf": [
                {"type": "number", "minimum": 0, "maximum": MAX_SECONDS},
                {"type": "string", "pattern": _EXPRESSION},
            ],
        },
        "until": _text("When it ends: a time with its zone, or an expression.", pattern=f"{_EXPRESSION}|{_TIME}"),
        "max_items": _whole("How many items there may be; more fail the node.", default=MAX_TASKS),
        "concurrency": _whole("How many of its tasks may run at once."),
        "batch_size": _whole("How many items one task is given, as a list."),
        "tolerate": {
            "description": "How many of its tasks may fail: a number, or a share such as 5 %.",
            "anyOf": [{"type": "integer", "minimum": 0, "maximum": MAX_WHOLE}, share],
            "default": 0,
        },
        "aggregation": {
            "description": "One fold of all results, or several by name, each of a field.",
            "anyOf": [
                {"enum": [str(fold) for fold in Fold]},
                {
                    "type": "object",
                    "propertyNames": {"not": {"enum": ["count", "failed"]}},
                    "additionalProperties": fold,
                },
            ],
            "default": "collect",
        },
    }


def _retry() -> Schema:
    return {
        "max_attempts": _whole("How many attempts there are: 1 is no retry.", 1, MAX_ATTEMPTS),
        "backoff": _words("How the delay grows.", list(Backoff), default=str(Retry.backoff)),
        "initial_delay_seconds": _seconds(
            "The delay before the second attempt.", zero=True, default=Retry.initial_delay.total_seconds()
        ),
        "max_delay_seconds": _seconds("The longest delay.", zero=True, default=Retry.max_delay.total_seconds()),
    }


def _depends_on() -> Schema:
    return {
        "all_of": {"description": "It waits for all of these.", "$ref": "#/$defs/names"},
        "any_of": {"description": "It waits for the first of these.", "$ref": "#/$defs/names"},
    }


def _branch() -> Schema:
    condition = "When the branch is taken: '< 100', a value, or a whole condition."
    return {
        "condition": _any(condition, "string", "number", "boolean", "null"),
        "default": {"description": "Whether it is the last branch, taken where no other is.", "type": "boolean"},
        "next": {"description": "What comes after it: a node, or a list.", "$ref": "#/$defs/names"},
    }


def _names(said: str) -> Schema:
    listed: Schema = {"type": "array", "items": {"type": "string"}, "uniqueItems": True}
    return {"description": said, "anyOf": [{"type": "string"}, listed]}


def _any(said: str, *types: str) -> Schema:
    return {"description": said, "type": types[0] if len(types) == 1 else list(types)}


def _text(said: str, **more: Json) -> Schema:
    return {"description": said, "type": "string", **more}


def _words(said: str, words: Sequence[str], *, default: str) -> Schema:
    return {"description": said, "enum": [str(word) for word in words], "default": default}


def _whole(said: str, low: int = 1, high: int = MAX_WHOLE, **more: Json) -> Schema:
    return {"description": said, "type": "integer", "minimum": low, "maximum": high, **more}


def _seconds(said: str, *, zero: bool = False, **more: Json) -> Schema:
    least: Schema = {"minimum": 0} if zero else {"exclusiveMinimum": 0}
    return {"description": said, "type": "number", **least, "maximum": MAX_SECONDS, **more}
