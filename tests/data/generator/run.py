"""Calls an API with a client that was generated from its document: URL, key, an item of `scenes`, and a file of it.

It runs in the environment of openapi-python-client, and prints what it got as JSON.
"""

import json
import sys
from importlib import import_module
from typing import Any


def call(operation: str, /, **given: Any) -> Any:  # the generated package has no types that are known here
    """The parsed answer of an operation, by the module that is named for it."""
    return import_module(f"generated.api.{operation}").sync(**given)


def main(url: str, key: str, item: str, file: str) -> None:
    """Submit, look, fetch, search, and get a problem."""
    models = import_module("generated.models")
    client = import_module("generated").AuthenticatedClient(base_url=url, token=key)
    request = models.JobRequest.from_dict({"workflow": "wide", "parameters": {"n": 7}})
    submitted = call("jobs.submit_job", client=client, body=request)
    status = call("jobs.show_job", client=client, job_id=submitted.job_id)
    listed = call("jobs.list_jobs", client=client, workflow="wide", limit=1)
    published = call("items.show_published_item", client=client, collection="scenes", item=item)
    output = call("files.fetch_file", client=client, publication=published.publication, name=file)
    search = models.CatalogSearchPostRequest.from_dict({"collections": ["scenes"], "limit": 2})
    found = call("catalog.search_items_by_body", client=client, body=search)
    problem = call("jobs.show_job", client=client, job_id="f" * 64)
    answers = {
        "submitted": type(submitted).__name__,
        "same": status.job_id == submitted.job_id,
        "parameters": status.parameters.to_dict(),
        "listed": len(listed.items),
        "bytes": len(output.payload.read()),
        "found": [item.id for item in found.features],
        "problem": [type(problem).__name__, problem.status, problem.code],
    }
    sys.stdout.write(json.dumps(answers))


if __name__ == "__main__":
    main(*sys.argv[1:])
