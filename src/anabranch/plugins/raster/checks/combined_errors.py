"""Several errors, raised as one."""

from collections.abc import Sequence

from anabranch.errors import Permanent

__all__ = ["raise_all"]


def raise_all(errors: Sequence[Permanent]) -> None:
    """Raise one error as it is, several as one that lists them all; do nothing without any."""
    if not errors:
        return
    if len(errors) == 1:
        raise errors[0]
    listed = "; ".join(f"{error.message} [{error.code}]" for error in errors)
    remedies = dict.fromkeys(error.remedy for error in errors)
    raise Permanent(f"{len(errors)} errors: {listed}", code="raster.invalid", remedy=" ".join(remedies))
