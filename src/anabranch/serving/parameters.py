"""Unknown parameters of routes of third-party applications, which would ignore them."""

from collections.abc import Collection, Iterator

from fastapi.dependencies.models import Dependant

from anabranch.errors import InputError

__all__ = ["body_names", "query_names", "refuse_unknown"]

MAX_SHOWN, MAX_SHOWN_CHARS = 5, 40


def refuse_unknown(given: Collection[str], known: Collection[str], code: str) -> None:
    """Refuse names that are not known."""
    if unknown := sorted(set(given) - set(known)):
        message = f"unknown parameter {', '.join(name[:MAX_SHOWN_CHARS] for name in unknown[:MAX_SHOWN])}"
        raise InputError(code, message, remedy=f"The parameters are {', '.join(sorted(known)) or 'none'}.")


def query_names(dependant: Dependant) -> frozenset[str]:
    """The names of a route's query parameters."""
    return frozenset(field.alias for part in _parts_of(dependant) for field in part.query_params)


def body_names(dependant: Dependant) -> frozenset[str]:
    """The names of the fields of a route's body, which is one model."""
    fields = dependant.body_params[0].field_info.annotation.model_fields  # type: ignore[union-attr]  # it is a model
    return frozenset(field.alias or name for name, field in fields.items())


def _parts_of(dependant: Dependant) -> Iterator[Dependant]:
    yield dependant
    for part in dependant.dependencies:
        yield from _parts_of(part)
