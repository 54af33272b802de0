"""Path and query parameters and bodies of requests about platforms."""

import re
from collections.abc import Iterable
from typing import Annotated, Any, Literal, Self

from fastapi import Path
from pydantic import AfterValidator, Field, WithJsonSchema, model_validator
from pydantic_core import PydanticCustomError

from anabranch.api.answers.errors import InvalidRequest, Mistake
from anabranch.api.requests.models import LIMIT_DESCRIPTION
from anabranch.contract.platform import Platform
from anabranch.errors import InputError
from anabranch.outbound.url import read_exempt
from anabranch.platform.orders import MAX_BATCH, MAX_REFERENCES, DataType, Line
from anabranch.storage.addresses import parse_folder, require_folder
from anabranch.storage.locations import require_tier
from anabranch.strict_model import StrictModel

__all__ = [
    "HASH_LENGTH",
    "AnyId",
    "AssetId",
    "AuditQuery",
    "BatchRequest",
    "ClearanceRequest",
    "DecisionRequest",
    "DryRunQuery",
    "PageQuery",
    "PlatformRequest",
    "ReasonRequest",
    "ReleaseId",
    "ReleasesQuery",
    "RequestsQuery",
    "RollbackReleaseRequest",
]

HASH = r"^[0-9a-f]{32}$"
ID = r"^([0-9a-f]{8,64}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})$"
HASH_LENGTH = 32


def _shaped(pattern: str, takes: str) -> tuple[AfterValidator, WithJsonSchema]:
    """The check of an id, whose message says which ids there are, and its schema."""

    def check(given: str) -> str:
        if not re.fullmatch(pattern, given):
            raise PydanticCustomError("id", "{said}", {"said": f"this is not {takes}"})
        return given

    return AfterValidator(check), WithJsonSchema({"type": "string", "pattern": pattern})


IS_HASH = _shaped(HASH, "the id of an asset or a release, which has 32 hexadecimal digits")
IS_ID = _shaped(
    ID,
    "the id of a request (a UUID), of an asset or a release (32 hexadecimal digits) or of a job (64, or a unique prefix"
    " of at least 8)",
)
Hash = Annotated[str, *IS_HASH]
AssetId = Annotated[str, *IS_HASH, Path(description="The id of an asset.")]
ReleaseId = Annotated[str, *IS_HASH, Path(description="The id of a release.")]
AnyId = Annotated[
    str, *IS_ID, Path(description="The id of a request, an asset, a release or a job, or a unique prefix of a job's.")
]


class DryRunQuery(StrictModel):
    """Whether to do it."""

    dry_run: bool = Field(False, description="Show what would be done.")


class ReasonRequest(StrictModel):
    """Why it is done."""

    reason: Annotated[str, Field(max_length=1000)] | None = None


class DecisionRequest(ReasonRequest):
    """Why it is decided so, and on which revision."""

    revision: int | None = Field(
        None, ge=1, lt=2**31, strict=True, description="The one that was reviewed; without it, the newest."
    )


class RollbackReleaseRequest(ReasonRequest):
    """What to show again."""

    number: int | None = Field(
        None,
        ge=1,
        lt=2**31,
        strict=True,
        description="Of a publication of its first item; without it, the newest revision below the one that is shown.",
    )
    revision: int | None = Field(
        None, ge=1, lt=2**31, strict=True, description="The one to show, in place of a `number`; also a later one."
    )
    expected: int | None = Field(
        None,
        ge=1,
        lt=2**31,
        strict=True,
        description="The `number` that the release shows now: a request that is repeated is refused.",
    )

    @model_validator(mode="after")
    def _name_one(self) -> Self:
        if self.number is not None and self.revision is not None:
            raise ValueError("number and revision name what to show: give one of them")
        return self


class ClearanceRequest(ReasonRequest):
    """Who may read a release."""

    clearance: Literal["uncleared", "internal", "public"]


class BatchRequest(ReasonRequest):
    """An action on several releases, each by itself."""

    action: Literal["approve", "reject", "revoke"]
    release_ids: list[Hash] = Field(min_length=1, max_length=MAX_BATCH)
    revisions: dict[str, Annotated[int, Field(ge=1, lt=2**31, strict=True)]] = Field(
        default_factory=dict,
        max_length=MAX_BATCH,
        description="Of releases, by id: the revision that was reviewed; without it, the newest.",
    )

    @model_validator(mode="after")
    def _know_releases(self) -> Self:
        if others := sorted(self.revisions.keys() - set(self.release_ids)):
            raise ValueError(f"revisions names {others[0][:40]!r}, which is none of release_ids")
        if self.revisions and self.action == "revoke":
            raise ValueError("revoke acts on all revisions of a release, so revisions can't be given")
        return self


def _read_folder(text: str) -> str:
    try:
        require_tier(text)
    except InputError as error:
        raise ValueError(f"{error.message}. {error.remedy}") from error
    return str(parse_folder(require_folder(text) or ""))


def _refuse_blank_ends(text: str) -> str:
    if text != text.strip():
        said = {"said": f"it begins or ends with a blank; write {text.strip()!r}"}
        raise PydanticCustomError("blank_ends", "{said}", said)
    return text


RefName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,39}$")]
Title = Annotated[Line, AfterValidator(_refuse_blank_ends)]
CallbackHost = Annotated[str, Field(max_length=255), AfterValidator(read_exempt)]


class PlatformRequest(StrictModel):
    """A platform to make or change."""

    title: Title
    required_refs: list[RefName] = Field(min_length=1, max_length=10)
    optional_refs: list[RefName] = Field(default_factory=list)
    version_ref: RefName | None = None
    workflows: dict[DataType, Line] = Field(min_length=1)
    approval: Literal["none", "one_approver", "other_approver"] = "one_approver"
    callback_hosts: list[CallbackHost] = Field(default_factory=list, max_length=50)
    max_unresolved: int | None = Field(None, ge=1, lt=2**31, strict=True)
    sources: list[Annotated[str, Field(max_length=1_100), AfterValidator(_read_folder)]] | None = Field(
        None,
        max_length=100,
        description="The folders of tiers that its jobs may read. Without it they stay as they are; those of a new "
        "platform are the folder of its own name, like `bronze://ddh`.",
    )

    @model_validator(mode="after")
    def _check_references(self) -> Self:
        names = [*self.required_refs, *self.optional_refs, *([self.version_ref] if self.version_ref else [])]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"the references {', '.join(twice)} are named twice")
        if len(names) > MAX_REFERENCES:
            raise ValueError(f"a platform has at most {MAX_REFERENCES} references, with its version")
        return self


class PageQuery(StrictModel):
    """Where a page begins, and its size."""

    limit: int = Field(50, ge=1, le=500, description=LIMIT_DESCRIPTION)
    before: int | None = Field(None, ge=1, lt=2**63, description="The cursor of the page before.")


def _refuse_duplicates(pairs: list[str]) -> list[str]:
    if len({pair.partition("=")[0] for pair in pairs}) < len(pairs):
        raise PydanticCustomError("ref_twice", "Each reference is given once")
    return pairs


class ReleasesQuery(PageQuery):
    """Which releases to list."""

    asset_id: Hash | None = None
    processing_status: Literal["queued", "processing", "completed", "failed"] | None = None
    approval_status: Literal["pending_review", "approved", "rejected", "revoked", "expired"] | None = Field(
        None, description="With `pending_review`, those that failed are left out: nobody can decide them."
    )
    latest: bool = Field(False, description="Only the newest published release of each asset.")
    ref: Annotated[
        list[Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*=[^\x00-\x1f\x7f]+$", max_length=250)]],
        AfterValidator(_refuse_duplicates),
    ] = Field(
        default_factory=list,
        description="`NAME=VALUE` of a reference or of the version; may be repeated for another one.",
    )

    def require_known(self, platforms: Iterable[Platform]) -> None:
        """Refuse references that none of the platforms has."""
        known = sorted({name for one in platforms for name in one.references})
        unknown = [name for pair in self.ref if (name := pair.partition("=")[0]) not in known]
        if unknown:
            said = f"there is no reference {', '.join(map(repr, unknown))}; known: {', '.join(known) or 'none'}"
            raise InvalidRequest([Mistake(where="query.ref", detail=said)])

    def wanted(self) -> dict[str, Any]:  # JSON
        """The filter."""
        said = self.model_dump(include={"asset_id", "processing_status", "approval_status"}, exclude_none=True)
        refs = dict(pair.split("=", 1) for pair in self.ref)
        return {**said, **({"refs": refs} if refs else {}), **({"latest": True} if self.latest else {})}


class AuditQuery(PageQuery):
    """Which lines of the audit to list."""

    asset_id: Hash | None = None


class RequestsQuery(PageQuery):
    """Which requests to list."""

    release_id: Hash | None = None
