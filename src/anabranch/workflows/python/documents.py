"""A trace as a document: what a workflow file would hold."""

from collections import Counter
from dataclasses import replace

from anabranch.canonical import Json, JsonObject
from anabranch.workflows.expressions.spelling import spell, spell_short
from anabranch.workflows.expressions.syntax import Call, Comparison, Constant, Expression, Lookup, Reference
from anabranch.workflows.python.linking import Links
from anabranch.workflows.python.symbols import Symbol, expression_of, pieces_of, rebuild
from anabranch.workflows.python.tracing import Branch, Trace, TracedNode, Value, nodes_in

__all__ = ["TracedDocument"]

NULL = Constant(None)
_CONDITIONS = ("==", "!=", "<", "<=", ">", ">=", "in", "not_in", "contains", "starts_with", "ends_with")


class TracedDocument:
    """The nodes and the output of a traced function, and the place of each node."""

    def __init__(self, trace: Trace, output: Value) -> None:
        self._trace = trace
        self._links = Links(trace.nodes, output)
        self._names = _give_names(trace)
        self.nodes: JsonObject = {}
        for key in self._links.written_order():
            self.nodes[self._names[key]] = self._node(trace.nodes[key])
        self.places = {self._names[key]: node.place for key, node in trace.nodes.items()}
        self.output = self._fill(output)
        for used, user in self._links.misused.items():
            message = f"{self._names[used]} is made inside a lambda of choose, and used outside it"
            trace.note(trace.nodes[user].place, message, "Use what choose returns, or expr.optional(…).")

    def _node(self, node: TracedNode) -> Json:
        said = {key: self._condition(value) if key == "when" else self._fill(value) for key, value in node.keys.items()}
        if node.branches:
            said |= self._branches(node)
        kind = {} if node.type == "task" else {"type": node.type}
        return {**kind, **said, **self._depends_on(node)}

    def _depends_on(self, node: TracedNode) -> JsonObject:
        before: list[list[Json]] = [
            [self._names[key] for key in keys if _is_cleanup(self._trace.nodes[key]) or not _is_cleanup(node)]
            for keys in self._links.parents(node.key)
        ]
        all_of, any_of = before
        if any_of:
            return {"depends_on": {"all_of": all_of, "any_of": any_of}}
        return {"depends_on": all_of} if all_of else {}

    def _branches(self, node: TracedNode) -> JsonObject:
        conditions = [
            self._resolve(branch.condition._expression) for branch in node.branches if branch.condition is not None
        ]
        tests = [_as_comparison(condition) for condition in conditions]
        subject = tests[0].left if tests[0] is not None else NULL
        is_short = all(test is not None and test.left == subject for test in tests)
        said = [
            spell_short(test) if is_short and test else spell(condition)
            for test, condition in zip(tests, conditions, strict=True)
        ]
        ways = [self._next(node, number) for number in range(len(node.branches))]
        branches: list[Json] = [{"condition": text, "next": way} for text, way in zip(said, ways, strict=False)]
        last: Json = {"default": True, "next": ways[-1]}
        field: JsonObject = {"condition_field": f"{{{{ {spell(subject)} }}}}"} if is_short else {}
        return {**field, "branches": [*branches, last]}

    def _next(self, node: TracedNode, number: int) -> Json:
        """The nodes of a branch; one that leads nowhere ends."""
        if found := self._links.branch(node.key, number):
            return [self._names[key] for key in found]
        name = _unique(f"{self._names[node.key]}_end", {*self._names.values(), *self.nodes})
        self.nodes[name] = {"type": "end", "depends_on": self._names[node.key]}
        return name

    def _fill(self, value: Value) -> Json:
        match value:
            case Symbol():
                return f"{{{{ {spell(self._resolve(value._expression))} }}}}"
            case str():
                return "".join(map(self._piece, pieces_of(value)))
            case list():
                return [self._fill(part) for part in value]
            case dict():
                return {key: self._fill(part) for key, part in value.items()}
            case _:
                return value  # type: ignore[no-any-return]  # a number, a boolean or null

    def _piece(self, piece: str | Expression) -> str:
        if isinstance(piece, str):
            return piece.replace("{{", "{{ '{{' }}")
        return f"{{{{ {spell(self._resolve(piece))} }}}}"

    def _condition(self, value: Value) -> Json:
        return spell(self._resolve(value._expression)) if isinstance(value, Symbol) else value

    def _resolve(self, expression: Expression) -> Expression:
        return rebuild(expression, self._lookup)

    def _lookup(self, lookup: Lookup) -> Expression:
        reference = lookup.reference
        if reference.root != "nodes":
            return lookup
        node = self._trace.nodes[str(reference.path[0])]
        if node.branches:
            return self._choice(node, reference)
        return replace(lookup, reference=replace(reference, path=(self._names[node.key], *reference.path[1:])))

    def _choice(self, node: TracedNode, wanted: Reference) -> Expression:
        """The value of a choice, or a part of it: that of the branch that was taken, as the others are missing.

        A value that is there in any case comes last; if there were two, the expression could not say which is meant.
        """
        own: list[Expression] = []
        passed: list[Expression] = []
        for number, branch in enumerate(node.branches):
            if (found := self._alternative(node, branch, wanted)) is not None:
                is_passed = self._is_passed(branch.value, self._links.members[node.key, number])
                (passed if is_passed else own).append(found)
        if len({spell(found) for found in passed}) > 1:
            message = "two of these values are there whatever is chosen, and an expression can't say which is meant"
            self._trace.note(node.place, message, "Choose between calls that nothing else needs, or in a handler.")
        values = [*own, *(found for found in passed[:1] if found != NULL)] or [NULL]
        is_optional = wanted.optional or not passed or passed[0] == NULL  # the engine looks up all that it may need
        made = _optional(values[-1]) if is_optional else values[-1]
        for value in reversed(values[:-1]):
            made = Call("default", (value, made))
        return made

    def _is_passed(self, value: Value, members: set[str]) -> bool:
        """Whether a value is there, or null on purpose, also if its branch with these nodes is not taken."""
        used = nodes_in(value)
        if any(key in members for key in used if not self._trace.nodes[key].branches):
            return False
        inner = [branch.value for key in used for branch in self._trace.nodes[key].branches]
        return not inner or any(self._is_passed(part, members) for part in inner)

    def _alternative(self, node: TracedNode, branch: Branch, wanted: Reference) -> Expression | None:
        """What one branch gives; None: nothing comes after it."""
        if isinstance(branch.value, dict):
            self._trace.note(node.place, "an object can't be chosen", "Choose the values of nodes, or in a handler.")
            return NULL
        if any(self._trace.nodes[key].type == "end" for key in nodes_in(branch.value)):
            return None
        expression = expression_of(branch.value)
        path = wanted.path[2:]
        if isinstance(expression, Lookup):
            reference = expression.reference
            expression = replace(expression, reference=replace(reference, path=(*reference.path, *path)))
        elif path and expression != NULL:
            self._trace.note(node.place, f"a part {str(path[0])!r} is used of what is chosen, and one choice has none")
        return self._resolve(expression)


def _is_cleanup(node: TracedNode) -> bool:
    """Whether it comes after all others by itself, whatever it uses."""
    return node.keys.get("finally") is True


def _optional(expression: Expression) -> Expression:
    match expression:
        case Lookup():
            return replace(expression, reference=replace(expression.reference, optional=True))
        case Call("default", (first, second)):
            return Call("default", (first, _optional(second)))
        case _:
            return expression


def _as_comparison(condition: Expression) -> Comparison | None:
    """A condition that can be said of a subject, its left side."""
    match condition:
        case Comparison(operator=operator) if operator in _CONDITIONS:
            return condition
        case Lookup() | Call():
            return Comparison("==", condition, Constant(True))
        case _:
            return None


def _give_names(trace: Trace) -> dict[str, str]:
    """The names of nodes by key: those that were chosen, and others numbered around them."""
    names = {key: node.name for key, node in trace.nodes.items() if node.is_named}
    for name, times in Counter(names.values()).items():
        if times > 1:
            node = [node for node in trace.nodes.values() if node.is_named and node.name == name][-1]
            trace.note(node.place, f"another node has the name {name!r} already", "Choose another.")
    for key, node in trace.nodes.items():
        if not node.is_named:
            names[key] = _unique(node.name, set(names.values()))
    return names


def _unique(name: str, taken: set[str]) -> str:
    numbered = (f"{name}_{number}" if number > 1 else name for number in range(1, len(taken) + 2))
    return next(found for found in numbered if found not in taken)
