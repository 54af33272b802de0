"""Several mistakes told as one."""

from collections.abc import Sequence

from anabranch.errors import Permanent

__all__ = ["raise_all"]


def raise_all(mistakes: Sequence[Permanent]) -> None:
    """Raise what is wrong: one mistake as it is, several as one that names them all."""
    if not mistakes:
        return
    if len(mistakes) == 1:
        raise mistakes[0]
    told = "; ".join(f"{mistake.message} [{mistake.code}]" for mistake in mistakes)
    remedies = dict.fromkeys(mistake.remedy for mistake in mistakes)
    raise Permanent(f"{len(mistakes)} things are wrong: {told}", code="raster.invalid", remedy=" ".join(remedies))
