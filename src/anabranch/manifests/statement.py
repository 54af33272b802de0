"""What a manifest says: an in-toto Statement with the provenance of SLSA as its predicate."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Annotated, Literal, Self

from pydantic import ConfigDict, Field

from anabranch.canonical import Json, JsonObject, canonical, decode, sha256
from anabranch.redaction import hide_secrets
from anabranch.strict_model import StrictModel

__all__ = ["FileHash", "Origin", "Statement", "build_statement"]

BUILD_TYPE = "urn:anabranch:publication:1"
BUILDER = "urn:anabranch:installation"
MAX_PARAMETERS_CHARS = 8_000
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class _Part(StrictModel):
    model_config = ConfigDict(extra="ignore", populate_by_name=True)  # the formats may grow


class Digest(_Part):
    """The hash of a file, a source or a definition."""

    sha256: Sha256


class FileHash(_Part):
    """Something by its name and its hash."""

    name: str
    digest: Digest


class BuildDefinition(_Part):
    """What was asked for: the workflow with its parameters, what it published as, and what went in."""

    build_type: str = Field(BUILD_TYPE, alias="buildType")
    external_parameters: JsonObject = Field(alias="externalParameters")
    internal_parameters: JsonObject = Field(alias="internalParameters")
    resolved_dependencies: list[FileHash] = Field(alias="resolvedDependencies")


class Builder(_Part):
    """What did it: the versions of handlers and libraries."""

    id: str = BUILDER
    version: dict[str, str]


class RunMetadata(_Part):
    """The job, and when it started."""

    invocation_id: str = Field(alias="invocationId")
    started_on: datetime | None = Field(None, alias="startedOn")


class RunDetails(_Part):
    """By what, and in which job."""

    builder: Builder
    metadata: RunMetadata


class Provenance(_Part):
    """How the subjects were made."""

    build_definition: BuildDefinition = Field(alias="buildDefinition")
    run_details: RunDetails = Field(alias="runDetails")


class Statement(_Part):
    """The published files with their hashes, and how they were made."""

    type: Literal["https://in-toto.io/Statement/v1"] = Field("https://in-toto.io/Statement/v1", alias="_type")
    subject: list[FileHash]
    predicate_type: Literal["https://slsa.dev/provenance/v1"] = Field(
        "https://slsa.dev/provenance/v1", alias="predicateType"
    )
    predicate: Provenance

    @property
    def job_id(self) -> str:
        """The job that published it."""
        return self.predicate.run_details.metadata.invocation_id

    @property
    def published_as(self) -> JsonObject:
        """The collection and the item."""
        return self.predicate.build_definition.internal_parameters

    def published(self, as_: JsonObject) -> Self:
        """The same statement about another item."""
        build = self.predicate.build_definition.model_copy(update={"internal_parameters": as_})
        return self.model_copy(update={"predicate": self.predicate.model_copy(update={"build_definition": build})})


@dataclass(frozen=True)
class Origin:
    """The job that made something: its workflow, and the versions of each handler that took part."""

    job_id: str
    workflow: str | None = None
    workflow_hash: str | None = None
    created_at: datetime | None = None
    started_at: datetime | None = None
    parameters: JsonObject = field(default_factory=dict)
    handlers: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @cached_property
    def named_parameters(self) -> tuple[JsonObject, list[FileHash]]:
        """The parameters without secrets; large ones by their hash. Computed once for all that the job publishes."""
        parameters = canonical(_hide_secrets(self.parameters))
        if len(parameters) <= MAX_PARAMETERS_CHARS:
            return {"parameters": decode(parameters)}, []
        return {}, [_hash("parameters", sha256(parameters))]


def build_statement(
    origin: Origin,
    published_as: JsonObject,
    files: Mapping[str, str],
    sources: Mapping[str, str],
    libraries: Mapping[str, str],
) -> Statement:
    """The statement about files that a job publishes; files and sources are hashes by name.

    Large parameters are named by their hash, for each item of a publication has a manifest of its own.
    """
    parameters, named = origin.named_parameters
    inputs: JsonObject = {"workflow": origin.workflow, **parameters}
    dependencies = [*(_hash(name, digest) for name, digest in sorted(sources.items())), *named]
    if origin.workflow_hash:
        dependencies.append(_hash(f"workflow:{origin.workflow}", origin.workflow_hash))
    versions = {name: ", ".join(sorted(found)) for name, found in sorted(origin.handlers.items())}
    return Statement(
        subject=[_hash(name, digest) for name, digest in sorted(files.items())],
        predicate=Provenance(
            build_definition=BuildDefinition(
                external_parameters=inputs,
                internal_parameters=published_as,
                resolved_dependencies=dependencies,
            ),
            run_details=RunDetails(
                builder=Builder(version={**versions, **libraries}),
                metadata=RunMetadata(invocation_id=origin.job_id, started_on=origin.started_at),
            ),
        ),
    )


def _hide_secrets(value: Json) -> Json:
    """Parameters without secrets: a manifest is given to others."""
    if isinstance(value, dict):
        return {name: _hide_secrets(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_hide_secrets(part) for part in value]
    return hide_secrets(value) if isinstance(value, str) else value


def _hash(name: str, digest: str) -> FileHash:
    return FileHash(name=name, digest=Digest(sha256=digest))
