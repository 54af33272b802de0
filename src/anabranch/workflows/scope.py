"""What the expressions of a place may name, and every mistake in them."""

from collections.abc import Iterator, Mapping, Sequence

from anabranch.canonical import Json
from anabranch.workflows.definition import Workflow
from anabranch.workflows.expressions import (
    Condition,
    ExpressionError,
    Reference,
    Template,
    TypeName,
    check,
    check_all,
    find_mistakes,
    parse_condition,
    read_template,
)
from anabranch.workflows.expressions.templates import Fixed
from anabranch.workflows.inputs import Input
from anabranch.workflows.mistakes import MAX_MISTAKES, Mistake, Path, article, nearest
from anabranch.workflows.nodes import (
    ConditionalNode,
    EndNode,
    FanInNode,
    FanOutNode,
    Folding,
    GateNode,
    Kind,
    Node,
    OnFailure,
    WaitNode,
)
from anabranch.workflows.values import Fold

__all__ = ["Before", "Scope", "find_expression_mistakes", "find_template_mistakes"]

EVERY_FAN_IN: Mapping[str, TypeName] = {"count": "integer", "failed": "any", "skipped": "any"}


class Before:
    """Which nodes run before which: a bit for each node, so that ten thousand in a row stay cheap."""

    def __init__(self, ordered: Sequence[Node]) -> None:
        """Of nodes in an order that runs each after those it waits for."""
        self._bits = {node.name: 1 << number for number, node in enumerate(ordered)}
        self._masks: dict[str, int] = {}
        for node in ordered:
            mask = 0
            for name in node.parents:
                mask |= self._bits.get(name, 0) | self._masks.get(name, 0)
            self._masks[node.name] = mask

    def holds(self, earlier: str, later: str) -> bool:
        """Whether one runs before the other."""
        return bool(self._masks[later] & self._bits[earlier])


class Scope:
    """What expressions of one place may name: of a node, or of the workflow's output, which comes after all."""

    def __init__(
        self, workflow: Workflow, node: str | None = None, before: Before | None = None, *, has_item: bool = False
    ) -> None:
        self.workflow = workflow
        self.node = node
        self.before = before
        self.has_item = has_item
        self.reasons: dict[str, str] = {}
        self._hints = 0

    def type_of(self, reference: Reference) -> TypeName | None:
        """The type of what a reference names; None: nothing."""
        match reference.root:
            case "inputs":
                return self._type_of_input(reference)
            case "nodes":
                return None if self._reason(str(reference.path[0])) is not None else self._type_of_output(reference)
            case "index":
                return "integer" if self.has_item else None
            case "item":
                return "any" if self.has_item else None
            case "job":
                return None if reference.path == ("ending",) and not self._is_cleanup else "string"
            case _:
                return None

    def hint(self, reference: Reference) -> str:
        """What may have been meant; why something that exists can't be named here is kept as the better message."""
        said = f"there is no {Reference(reference.root, reference.path)}"
        self._hints += 1
        if self._hints > MAX_MISTAKES:
            return ""
        if reference.root in ("item", "index"):
            self.reasons[said] = f"there is no {reference.root} here"
            return "item and index are known in the params of a fan_out's task only."
        if reference.root == "object":
            return "Only the inputs of a schedule can name the object that it found; give it to an input."
        if reference.root == "job":
            self.reasons[said] = "how the job ends is not known here"
            return "Nodes with finally know it."
        name = str(reference.path[0])
        if reference.root == "inputs":
            return nearest(name, list(self.workflow.inputs or ())) or "Declare it in inputs."
        if (fields := self._fields(name)) is not None and self._reason(name) is None:
            return nearest(str(reference.path[2]), list(fields)) or f"The output of {name} has {', '.join(fields)}."
        message, hint = self._reason(name) or ("", "")
        if message:
            self.reasons[said] = message
        return hint if message else nearest(name, self.workflow.names)

    def _reason(self, name: str) -> tuple[str, str] | None:
        """Why the output of a node can't be used here, and what to do: None when it can."""
        try:
            named = self.workflow.node(name)
        except KeyError:
            return "", ""
        if named.kind is Kind.START:
            return f"{name} is a start and has no output", "Use inputs."
        if named.cleanup and not self.node:
            return f"{name} has finally: it runs once the output is made", "Use what runs before."
        if name == self.node:
            return "a node can't use its own output", ""
        if not self.node or not self.before or self.before.holds(name, self.node):
            return None
        if self.before.holds(self.node, name):
            return f"{name} runs after this node", "Use what runs before."
        return f"{name} does not run before this node", "Name it in depends_on, or name this node in its next."

    def _fields(self, name: str) -> Mapping[str, TypeName] | None:
        """The types of the fields of a node's output, where they are known; that of a failed node has others."""
        node = self.workflow.node(name) if name in self.workflow.names else None
        if node is None or node.on_failure is OnFailure.CONTINUE:
            return None
        match node:
            case GateNode(answer=answer) if answer is not None:
                return {field: _type_if_there(declared) for field, declared in answer.items()}
            case FanOutNode():
                return {"items": "array", "count": "integer", "failed": "integer"}
            case FanInNode(folding=folding) if folding:
                return {**{part.name: _type_of_fold(part) for part in folding}, **EVERY_FAN_IN}
            case _:
                return None

    def _type_of_output(self, reference: Reference) -> TypeName | None:
        fields = self._fields(str(reference.path[0]))
        if fields is None or len(reference.path) < 3:
            return "any"
        kind = fields.get(str(reference.path[2]))
        is_there = len(reference.path) == 3 and not self._is_cleanup  # what did not complete is null to cleanup nodes
        return kind if kind is None or is_there else "any"

    @property
    def _is_cleanup(self) -> bool:
        return self.node is not None and self.workflow.node(self.node).cleanup

    def _type_of_input(self, reference: Reference) -> TypeName | None:
        if self.workflow.inputs is None:
            return "any"
        declared = self.workflow.inputs.get(str(reference.path[0]))
        if declared is None:
            return None
        return _type_if_there(declared) if len(reference.path) == 1 else "any"


def _type_if_there(declared: Input) -> TypeName:
    return declared.type if declared.required or declared.default is not None else "any"


def _type_of_fold(part: Folding) -> TypeName:
    return "array" if part.fold in (Fold.COLLECT, Fold.CONCAT) else "any"


def find_expression_mistakes(node: Node, workflow: Workflow, before: Before | None) -> Iterator[Mistake]:
    """Every mistake in the expressions of a node."""
    at: Path = ("nodes", node.name)
    plain = Scope(workflow, node.name, before)
    item = Scope(workflow, node.name, before, has_item=isinstance(node, FanOutNode))
    yield from _work_mistakes(node, at, plain, item)
    if node.when is not None:
        yield from _condition_mistakes(node.when, (*at, "when"), plain)
    match node:
        case FanOutNode():
            yield from _source_mistakes(node.source, (*at, "source"), plain)
        case ConditionalNode():
            yield from _choice_mistakes(node, at, plain)
        case EndNode(output=output) if output is not None:
            yield from find_template_mistakes(output, (*at, "output"), plain)
        case WaitNode():
            yield from _typed_mistakes(node.duration_seconds, (*at, "duration_seconds"), plain, ("number", "integer"))
            yield from _typed_mistakes(node.until, (*at, "until"), plain, ("string",))
        case _:
            pass


def _work_mistakes(node: Node, at: Path, plain: Scope, item: Scope) -> Iterator[Mistake]:
    if node.work is None:
        return
    task: Path = (*at, "task") if isinstance(node, FanOutNode) else at
    if node.work.params is not None:
        yield from find_template_mistakes(node.work.params, (*task, "params"), item)
    yield from _typed_mistakes(node.work.limit, (*task, "limit"), plain, ("string",))


def _choice_mistakes(node: ConditionalNode, at: Path, scope: Scope) -> Iterator[Mistake]:
    subject: TypeName = "any"
    if node.subject is not None:
        mistakes = list(_subject_mistakes(node.subject, (*at, "condition_field"), scope))
        yield from mistakes
        subject = "any" if mistakes else check(read_template(node.subject), scope.type_of)
    for number, branch in enumerate(node.branches):
        path = (*at, "branches", number, "condition")
        if not branch.is_default and node.subject is None and _needs_subject(branch.condition):
            hint = "Add a condition_field, or write the whole condition: inputs.n < 100."
            yield Mistake(path, "this condition needs a condition_field to compare with", hint, of_value=True)
        elif not branch.is_default:
            has_subject = node.subject is not None
            yield from _condition_mistakes(branch.condition, path, scope, has_subject=has_subject, subject=subject)


def _subject_mistakes(given: Json, path: Path, scope: Scope) -> Iterator[Mistake]:
    mistakes = list(find_template_mistakes(given, path, scope))
    if not mistakes and isinstance(read_template(given).part, Fixed):
        hint = 'Write an expression: "{{ inputs.size }}".'
        mistakes = [
            Mistake(path, "condition_field is a fixed value, so one branch is always taken", hint, of_value=True)
        ]
    yield from mistakes


def _needs_subject(condition: Json) -> bool:
    """Whether a condition means something only beside a subject."""
    try:
        return parse_condition(condition, has_subject=True).about_subject and not isinstance(condition, bool)
    except ExpressionError:
        return False


def find_template_mistakes(value: Json, path: Path, scope: Scope) -> Iterator[Mistake]:
    """Every mistake in a value with expressions."""
    mistakes = find_mistakes(value) or check_all(read_template(value), scope.type_of, hint=scope.hint)
    yield from (_located(mistake, path, scope) for mistake in mistakes)


def _condition_mistakes(
    given: Json, path: Path, scope: Scope, *, has_subject: bool = False, subject: TypeName = "any"
) -> Iterator[Mistake]:
    try:
        condition: Condition = parse_condition(given, has_subject)
    except ExpressionError as error:
        yield _located(error, path, scope)
        return
    for mistake in check_all(condition, scope.type_of, subject=subject, hint=scope.hint):
        yield _located(mistake, path, scope)


def _typed_mistakes(given: Json, path: Path, scope: Scope, kinds: Sequence[str]) -> Iterator[Mistake]:
    """The mistakes of an expression that must give one of these types, where there is one."""
    if given is None:
        return
    if mistakes := list(find_template_mistakes(given, path, scope)):
        yield from mistakes
        return
    kind = check(read_template(given), scope.type_of)
    if kind not in (*kinds, "any"):
        wanted = {"limit": "text", "until": "a time, as text"}.get(str(path[-1]), "a number of seconds")
        yield Mistake(path, f"{path[-1]} is {wanted}, and this gives {article(kind)}", of_value=True)


def _source_mistakes(given: Json, path: Path, scope: Scope) -> Iterator[Mistake]:
    if mistakes := list(find_template_mistakes(given, path, scope)):
        yield from mistakes
        return
    template: Template = read_template(given)
    kind = check(template, scope.type_of)
    if kind not in ("array", "any"):
        hint = 'Write an expression: "{{ inputs.files }}".' if isinstance(template.part, Fixed) else ""
        message = f"the source of a fan_out is an array, not {article(kind)}"
        yield Mistake(path, message, hint, of_value=True)


def _located(error: ExpressionError, path: Path, scope: Scope) -> Mistake:
    message = scope.reasons.get(error.message, error.message)
    is_in_key = message.startswith("a key ")  # it is about the last step of its path, and not about the value there
    return Mistake((*path, *error.where), message, error.hint, None if is_in_key else error.offset)
