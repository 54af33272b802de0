"""Files of a tier as workflows list and stage them."""

import hashlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.stack import Stack, open_stack

pytestmark = pytest.mark.postgres

LIST = """
workflow_id: list_files
inputs:
  extensions: {type: array, default: []}
  min_bytes: {type: integer, default: 0}
  limit: {type: integer, default: 100}
nodes:
  only:
    handler: storage.list
    params:
      folder: "bronze://in"
      extensions: "{{ inputs.extensions }}"
      min_bytes: "{{ inputs.min_bytes }}"
      limit: "{{ inputs.limit }}"
"""
STAGE = """
workflow_id: stage_file
inputs: {tag: {type: string}}
nodes: {only: {handler: storage.stage, params: {source: "bronze://in/a.tif", tag: "{{ inputs.tag? }}"}}}
"""


@pytest.fixture
async def stack(database_url: str, tmp_path: Path) -> AsyncIterator[Stack]:
    plugins = tmp_path / "plugins"
    plugins.mkdir()
    (plugins / "list.yaml").write_text(LIST)
    (plugins / "stage.yaml").write_text(STAGE)
    async with open_stack(database_url, tmp_path, [str(plugins)]) as opened:
        for name, size in (("a.tif", 3), ("b.TIF", 5), ("c.txt", 7), ("d/e.tif", 11)):
            opened.gateway.storage.put(f"bronze://in/{name}", b"x" * size)
        opened.gateway.storage.put("bronze://other.tif", b"x")
        yield opened


async def result(stack: Stack, workflow: str, **parameters: Any) -> Any:  # as the handler answered
    job = await stack.run(workflow, **parameters)
    (task,) = await stack.tasks(job, "only")
    return task.result if task.error is None else task.error["code"]


async def test_the_files_of_a_folder_are_listed_by_extension_size_and_number(stack: Stack) -> None:
    tiffs = await result(stack, "list_files", extensions=["tif"], min_bytes=4)
    assert [file["address"] for file in tiffs["files"]] == ["bronze://in/b.TIF", "bronze://in/d/e.tif"]
    assert (tiffs["count"], tiffs["total_bytes"], tiffs["more"]) == (2, 16, False)
    first = await result(stack, "list_files", limit=2)
    assert ([file["size"] for file in first["files"]], first["more"]) == ([3, 5], True)


async def test_a_staged_file_is_known_by_its_content_and_a_replaced_one_is_refused(stack: Stack) -> None:
    digest = hashlib.sha256(b"xxx").hexdigest()
    staged = await result(stack, "stage_file")
    assert staged == {"source": "bronze://in/a.tif", "name": "a.tif", "size": 3, "sha256": digest}
    assert await result(stack, "stage_file", tag="of another") == "storage.changed"
