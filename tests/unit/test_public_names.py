"""The names that plugins may import; one that leaves or changes breaks them."""

from importlib import import_module

import pytest

PUBLIC = {
    "anabranch": "AnabranchError BusinessLogicError Checkpoint Conflict Context ContractViolationError DefinitionError"
    " HandlerContext HandlerResult InputError Interrupted Job JobBase JobDeclaration NotFound Permanent Resource Retry"
    " TaskContext TaskError TaskSpec Throttled Transient Unavailable handler register_handler register_job",
    "anabranch.testing.clock": "Clock SteppedClock",
    "anabranch.testing.postgres": "Databases catalog_template catalog_url clock database_url databases"
    " empty_database_url postgres",
    "anabranch.testing.tier_suite": "TierSuite code_of",
}


@pytest.mark.parametrize(("module", "names"), PUBLIC.items())
def test_the_public_names_stay(module: str, names: str) -> None:
    found = import_module(module)
    assert sorted(found.__all__) == sorted(names.split())
    assert [name for name in found.__all__ if not hasattr(found, name)] == []
