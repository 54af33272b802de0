"""What makes a plain function one of a sandbox: JSON in, JSON out, and errors of libraries as errors of ours."""

from collections.abc import Callable, Mapping
from functools import wraps

from pydantic import BaseModel, validate_call

from anabranch.errors import Permanent

__all__ = ["sandbox_function"]

Explain = Callable[[Exception, Mapping[str, object]], Permanent]


def sandbox_function(
    errors: tuple[type[Exception], ...], explain: Explain
) -> Callable[[Callable[..., BaseModel]], Callable[..., object]]:
    """Check the arguments and return the result as JSON; `explain` turns these errors and the arguments into ours."""

    def decorate(work: Callable[..., BaseModel]) -> Callable[..., object]:
        checked = validate_call(work)

        @wraps(work)
        def call(**given: object) -> object:
            try:
                return checked(**given).model_dump(mode="json")
            except errors as error:
                raise explain(error, given) from error

        return call

    return decorate
