"""Signatures of client methods, copied from their operations."""

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["copy_signature"]

Method = TypeVar("Method", bound=Callable[..., Any])  # of any shape: the signature is the operation's


def copy_signature(operation: Callable[..., Any]) -> Callable[[Method], Method]:
    """Give a method the name, the docstring and the parameters of an operation."""
    self = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    given = inspect.signature(operation).parameters.values()

    def name(method: Method) -> Method:
        method.__name__ = method.__qualname__ = operation.__name__
        method.__doc__ = operation.__doc__
        method.__signature__ = inspect.Signature([self, *given])  # type: ignore[attr-defined]  # what `help` shows
        return method

    return name
