"""A workflow written as YAML and loaded again is the same workflow."""

import pytest

from anabranch import InputError
from anabranch.engine.registry import load_plugins
from anabranch.workflows.yaml.load import load_yaml
from anabranch.workflows.yaml.write import write_yaml

REGISTRY = load_plugins()
WRITTEN = [name for name, declared in REGISTRY.declarations.items() if declared.origin.endswith(".yaml")]
EVERYTHING = """
workflow_id: everything
name: All of it
version: 2
priority: 3
rerun: true
inputs:
  a: {type: string, default: null, choices: [x, "no", "1"], description: "Odd: text #1"}
  b: {type: number, min: 1, max: 2.5, required: true}
nodes:
  START: {next: each}
  each:
    type: fan_out
    source: [1, "{{ inputs.b }}"]
    task:
      handler: echo
      params: {t: "2024-05-01", u: "yes", n: 2.0, "y": null}
      queue: heavy
      retry: {max_attempts: 3, initial_delay_seconds: 0.5}
      queue_timeout_seconds: 1.5
    tolerate: 2.5 %
    max_items: 10
    next: total
  total: {type: fan_in, aggregation: sum, queue: light, next: [hold, until, lots]}
  lots: {type: fan_out, source: [], task: {workflow: weigh, params: {}}, tolerate: 2, on_failure: continue}
  hold: {type: gate, timeout_seconds: 60, when: inputs.b > 3, description: "Wait: here."}
  until: {type: wait, until: "2030-01-31T12:00:00Z"}
  after: {handler: sleep, depends_on: {all_of: [until], any_of: [hold, lots]}, next: route}
  route:
    type: conditional
    condition_field: "{{ inputs.b }}"
    branches:
      - {condition: 5, next: [END, done]}
      - {condition: null, next: done}
      - {default: true, next: done}
  done: {handler: echo, limit: "key-{{ inputs.a? }}", priority: 1}
  END: {output: {text: "{{ nodes.total.output.sum }} '{{ '{{' }}'"}}
output: {x: [{y: "{{ nodes.done.output? }}"}]}
"""


@pytest.mark.parametrize("name", WRITTEN)
def test_every_shipped_workflow_is_written_and_loaded_as_the_same(name: str) -> None:
    found = REGISTRY.declaration(name).workflow
    loaded = load_yaml(write_yaml(found, {}), name).require()
    assert [node.name for node in loaded.nodes] == found.names
    assert write_yaml(loaded, {}) == write_yaml(found, {})


def test_everything_that_a_file_can_say_is_written() -> None:
    found = load_yaml(EVERYTHING, "text").require()
    written = write_yaml(found, {})
    assert load_yaml(written, "written").require() == found
    assert load_yaml(written, "written").require().hash == found.hash


def test_what_the_handler_decides_is_left_out() -> None:
    found = REGISTRY.declaration("echo").workflow
    assert "timeout_seconds" in write_yaml(found, {})
    assert "timeout_seconds" not in write_yaml(found, REGISTRY.handlers)


def test_stages_have_no_yaml() -> None:
    with pytest.raises(InputError, match="class with stages"):
        write_yaml(REGISTRY.declaration("hello_world").workflow, {})
