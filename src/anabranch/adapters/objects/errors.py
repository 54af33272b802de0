"""Translates the errors of stores into ours; secrets in their messages are removed (S5)."""

import errno
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from anabranch.errors import AnabranchError, Changed, Conflict, Denied, Full, InputError, NotFound, Unavailable

__all__ = ["changed", "exists", "explain", "leads_out", "no_container", "not_found", "translate"]

FULL_ERRNOS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
DENIED_ERRNOS = (errno.EACCES, errno.EPERM, errno.EROFS)
PATH_ERRNOS = (errno.ELOOP, errno.ENAMETOOLONG, errno.EINVAL, errno.EISDIR)
# What a store may answer when it has too much to do; all other refusals stay what they are.
RETRYABLE_STATUSES = ("408", "425", "429")


def not_found(tier: str, key: str) -> NotFound:
    """There is no such object."""
    look = f"Send the file first, or fix the address; `anabranch storage ls {tier}://` lists what there is."
    lost = "It was removed, or this process has another work area than the one that wrote it."
    return NotFound("storage.not_found", f"there is no {tier}://{key}", remedy=lost if tier == "work" else look)


def exists(tier: str, key: str) -> Conflict:
    """There is one already."""
    return Conflict(
        "storage.exists",
        f"there is a {tier}://{key} already",
        remedy="Choose another name, or replace it with `--overwrite`.",
    )


def changed(tier: str, key: str) -> Changed:
    """It is not the one any more whose reading began."""
    return Changed(
        "storage.changed",
        f"{tier}://{key} changed while it was read",
        remedy="Wait until it is written, and try again.",
    )


def leads_out(tier: str, key: str) -> InputError:
    """It is a link, or lies behind one."""
    return InputError(
        "storage.path",
        f"{tier}://{key} is not in the tier itself: it is a link, or a folder of the store's own",
        remedy="Copy the file into the tier.",
    )


@contextmanager
def translate(tier: str, key: str) -> Iterator[None]:
    """Turn what a file system refuses into an error of ours."""
    try:
        yield
    except OSError as error:
        raise _of_system(tier, key, error) from error


def _of_system(tier: str, key: str, error: OSError) -> AnabranchError:
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return not_found(tier, key)
    reason = error.strerror or type(error).__name__
    if error.errno in FULL_ERRNOS:
        return Full(
            "storage.full", f"{tier}: there is no room: {reason}", remedy=f"Make room where the {tier} tier is."
        )
    if error.errno in DENIED_ERRNOS:
        return _denied(tier, key, reason)
    if error.errno in PATH_ERRNOS:
        return InputError(
            "storage.path", f"{tier}://{key} can't be in this tier: {reason}", remedy="Choose another name."
        )
    return _unreachable(tier, key, reason)


def no_container(tier: str) -> Unavailable:
    """The folder, bucket or container of a tier is not there."""
    return Unavailable(
        "storage.container",
        f"the container of the tier {tier} does not exist",
        remedy=f"Make it or mount it, or correct ANABRANCH_STORAGE__{tier.upper()}.",
    )


def explain(tier: str, key: str, error: Exception, secrets: Iterable[str]) -> AnabranchError:
    """What obstore raised, as an error of ours; recognized by the name of its class and its text."""
    kind, reason = type(error).__name__, _reason(str(error), secrets)
    if re.search(r"NoSuchBucket|ContainerNotFound", reason):
        return no_container(tier)
    if isinstance(error, FileNotFoundError) or reason.startswith("404"):
        return not_found(tier, key)
    if kind == "AlreadyExistsError":
        return exists(tier, key)
    if kind in ("PreconditionError", "NotModifiedError"):
        return changed(tier, key)
    refused = re.match(r"[34]\d\d", reason)
    if kind in ("PermissionDeniedError", "UnauthenticatedError") or (refused and refused[0] not in RETRYABLE_STATUSES):
        return _denied(tier, key, reason)
    return _unreachable(tier, key, reason)


def _denied(tier: str, key: str, reason: str) -> Denied:
    return Denied(
        "storage.denied",
        f"{tier}://{key} was refused: {reason}",
        remedy=f"See that its options, or the rights of its folder, allow it: ANABRANCH_STORAGE__{tier.upper()}.",
    )


def _unreachable(tier: str, key: str, reason: str) -> Unavailable:
    return Unavailable(
        "storage.unreachable",
        f"the tier {tier} could not be used for {key or 'a list'}: {reason}",
        remedy=f"See that its store answers, or correct ANABRANCH_STORAGE__{tier.upper()}.",
    )


def _reason(text: str, secrets: Iterable[str]) -> str:
    """The answer of the store in a few words, without addresses, queries and secrets."""
    said = text.partition("\n\nDebug source")[0]
    status = re.search(r"status code: (\d{3}[A-Za-z ]*)", said)
    named = re.search(r"<Code>(\w+)</Code>", said)
    reason = " ".join(found[1].strip() for found in (status, named) if found) or said.rpartition(" - ")[2]
    reason = re.sub(r"\w+://\S+", "(address)", reason.strip().split("\n")[0][:300])
    for secret in sorted(secrets, key=len, reverse=True):
        reason = reason.replace(secret, "***")
    return reason
