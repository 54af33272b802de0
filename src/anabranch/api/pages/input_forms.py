"""Fields of a form from the JSON Schema of a workflow's inputs, and the call of the API that the form makes."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fastapi.encoders import jsonable_encoder

__all__ = ["Field", "read_fields", "spell_curl", "spell_python"]

MAX_STEPS = 8  # of references that a schema leads through
Schema = Mapping[str, Any]


@dataclass(frozen=True)
class Field:
    """A field: `widget` is what shows it, `reads_as` what its text becomes in JSON."""

    name: str
    widget: str
    reads_as: str
    description: str
    required: bool
    default: Any  # JSON
    choices: Sequence[Any] = ()
    minimum: float | None = None
    maximum: float | None = None
    max_length: int | None = None
    format: str = ""

    @property
    def shown(self) -> str:
        """The default as the text of the field."""
        if self.default is None:
            return ""
        if self.reads_as == "list" and isinstance(self.default, list):
            return "\n".join(map(str, self.default))
        return self.default if isinstance(self.default, str) else json.dumps(self.default, ensure_ascii=False)

    @property
    def rules(self) -> str:
        """The rules that the value must follow, in words."""
        said = [{"list": "one entry a line", "json": "JSON"}.get(self.reads_as, "")]
        if self.minimum is not None:
            said.append(f"at least {self.minimum:g}")
        if self.maximum is not None:
            said.append(f"at most {self.maximum:g}")
        if self.max_length is not None:
            said.append(f"at most {self.max_length} characters")
        return ", ".join(filter(None, said))


def read_fields(schema: Schema) -> list[Field]:
    """The fields of a form, those that are required first."""
    required = schema.get("required", ())
    found = [_read(name, part, schema, name in required) for name, part in schema.get("properties", {}).items()]
    return sorted(found, key=lambda field: not field.required)


def spell_curl(url: str, body: Schema) -> str:
    """The call as a command."""
    text = json.dumps(jsonable_encoder(body), ensure_ascii=False).replace("'", "'\\''")
    return f"curl -X POST {url}/api/jobs \\\n  -H 'Content-Type: application/json' \\\n  -d '{text}'"


def spell_python(url: str, workflow: str, parameters: Schema) -> str:
    """The call as Python."""
    return (
        "from anabranch.client import Client\n\n"
        f"with Client({url!r}) as client:\n"
        f"    job = client.submit({workflow!r}, {dict(parameters)!r})\n"
        "    print(job.job_id)"
    )


def _read(name: str, given: Schema, whole: Schema, required: bool) -> Field:
    part = _resolve(given, whole)
    widget, reads_as = _choose(part)
    return Field(
        name,
        widget,
        reads_as,
        str(given.get("description", part.get("description", ""))),
        required,
        given.get("default", part.get("default")),
        [part["const"]] if "const" in part else part.get("enum", ()),
        part.get("minimum", part.get("exclusiveMinimum")),
        part.get("maximum", part.get("exclusiveMaximum")),
        part.get("maxLength"),
        part.get("format", ""),
    )


def _resolve(part: Schema, whole: Schema) -> Schema:
    """A part without references, and without the choice to leave it out."""
    for _ in range(MAX_STEPS):
        if "$ref" in part:
            part = whole.get("$defs", {}).get(str(part["$ref"]).rpartition("/")[2], {})
        elif kinds := [one for one in part.get("anyOf", ()) if one.get("type") != "null"]:
            if len(kinds) > 1:
                return {}
            part = kinds[0]
        else:
            break
    return part


def _choose(part: Schema) -> tuple[str, str]:
    kind = part.get("type")
    if "enum" in part or "const" in part:
        choices = part.get("enum", [part.get("const")])
        return "select", "text" if all(isinstance(choice, str) for choice in choices) else "json"
    if kind == "boolean":
        return "checkbox", "boolean"
    if kind in ("integer", "number"):
        return "number" if kind == "integer" else "decimal", "number"
    if kind == "array" and part.get("items", {}).get("type", "string") == "string":
        return "lines", "list"
    if kind == "string":
        return "text", "text"
    return "lines", "json"
