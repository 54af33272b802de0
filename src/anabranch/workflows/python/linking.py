"""Which node comes after which, by the values that they use; and which nodes belong to the branches of a choice.

A node belongs to a branch if only the value of that branch needs it. What is used outside, other than optionally, runs
whatever is chosen. A choice waits for all that its branches use from outside, so that a node in a branch has no other
edge that could start it.
"""

from collections.abc import Iterable, Mapping

from anabranch.workflows.python.tracing import TracedNode, Value, nodes_in

__all__ = ["Links"]

Keys = dict[str, None]  # a set that keeps the order in which its members were found


class Links:
    """The edges between the nodes of a trace."""

    def __init__(self, nodes: Mapping[str, TracedNode], output: Value) -> None:
        self.nodes = nodes
        self.misused: dict[str, str] = {}  # nodes that use one from inside a lambda of a choice, by the latter
        self._uses = {
            key: nodes_in([node.keys, *(branch.condition for branch in node.branches)]) for key, node in nodes.items()
        }
        self._chosen = {key: [nodes_in(branch.value) for branch in node.branches] for key, node in nodes.items()}
        self._last = {key for key, is_optional in nodes_in(output).items() if not is_optional}
        self.members = {
            (key, number): self._find_members(key, number)
            for key, node in nodes.items()
            for number in range(len(node.branches))
        }
        self._parents: dict[str, tuple[list[str], list[str]]] = {}
        self._open: set[str] = set()  # nodes whose parents are being looked for
        self._bits = {key: 1 << number for number, key in enumerate(nodes)}
        self._ancestors: dict[str, int] = {}  # a bit for each, so that thousands of nodes stay cheap
        for key in nodes:
            self._find_ancestors(key)
        for (choice, number), members in self.members.items():
            if nodes[choice].branches[number].made is not None:
                self.misused |= dict.fromkeys(members & self._last, choice)

    def parents(self, key: str) -> tuple[list[str], list[str]]:
        """The nodes that one waits for: all of the first, any of the second."""
        if key not in self._parents:
            if key in self._open:  # by `after` and a choice it comes before itself, which the validation reports
                return [], []
            self._open.add(key)
            self._parents[key] = self._find_parents(key)
            self._open.remove(key)
        return self._parents[key]

    def branch(self, choice: str, number: int) -> list[str]:
        """What a branch of a choice leads to: its own nodes, or, where it has none, what comes after the choice."""
        after = [key for key in self.nodes if choice in (parents := self.parents(key))[0] or choice in parents[1]]
        own = self.members[choice, number]
        others = set().union(*(members for (key, _), members in self.members.items() if key == choice))
        return [key for key in after if key in own or not (own or key in others)]

    def written_order(self) -> list[str]:
        """The nodes as one would write them: as they were made, but each choice before its branches."""
        place = {key: (number, 0) for number, key in enumerate(self.nodes)}
        for choice, node in self.nodes.items():
            members = set().union(*(self.members[choice, number] for number in range(len(node.branches))))
            first = min((place[key][0] for key in members), default=place[choice][0])
            place[choice] = min(place[choice], (first, -len(members)))
        return sorted(self.nodes, key=place.__getitem__)

    def _find_members(self, choice: str, number: int) -> set[str]:
        branch = self.nodes[choice].branches[number]
        if branch.made is not None:
            return set(branch.made)
        found = self._closure(self._chosen[choice][number]) - self._closure(self._uses[choice])
        while leaving := [key for key in found if self._is_needed_outside(key, found, (choice, number))]:
            found -= self._closure(leaving)
        return found

    def _is_needed_outside(self, key: str, members: set[str], branch: tuple[str, int]) -> bool:
        return key in self._last or any(
            self._uses[other].get(key) is False
            or any(key in chosen for number, chosen in enumerate(self._chosen[other]) if (other, number) != branch)
            for other in self.nodes
            if other not in members
        )

    def _closure(self, keys: Iterable[str]) -> set[str]:
        """These nodes, and all that must come before them."""
        found: set[str] = set()
        left = list(keys)
        while left:
            key = left.pop()
            if key not in found:
                found.add(key)
                left += self._used_by(key)
        return found

    def _used_by(self, key: str) -> Keys:
        """All that comes before a node by what it says, and the values that a choice is between."""
        node = self.nodes[key]
        chosen = (used for chosen in self._chosen[key] for used in chosen)
        return dict.fromkeys((*node.after, *node.after_any, *self._uses[key], *chosen))

    def _find_parents(self, key: str) -> tuple[list[str], list[str]]:
        found = _Found()
        node = self.nodes[key]
        for used, is_optional in self._needed_by(key).items():
            self._resolve(key, used, is_optional, found)
        for other in node.after:
            found.add(self._ways(other) if self.nodes[other].branches else {other: None})
        for choice, number in self._homes(key)[:1]:
            if not any(parent in self.members[choice, number] for parent in (*found.strong, *found.weak)):
                found.strong[choice] = None
        strong, weak = (list(found.strong), []) if node.keeps_edges else self._reduce(found, node.after_any)
        if node.after_any:
            return [*strong, *weak], list(node.after_any)
        ways = [parent for parent in strong if parent in found.groups[0]] if len(found.groups) == 1 else []
        rest = [parent for parent in strong if parent not in ways]
        return ([*rest, *weak], ways) if rest and len(ways) > 1 else ([*strong, *weak], [])

    def _needed_by(self, key: str) -> dict[str, bool]:
        """What a node uses; a choice also all that its branches use from outside."""
        needed = dict(self._uses[key])
        for number, chosen in enumerate(self._chosen[key]):
            members = self.members[key, number]
            outside = {*chosen, *(used for member in members for used in self._used_by(member))} - members - {key}
            needed |= {other: False for other in self.nodes if other in outside}
        return needed

    def _resolve(self, key: str, used: str, is_optional: bool, found: "_Found") -> None:
        """Add the parents that a used node stands for."""
        outer = [
            (choice, number) for choice, number in self._homes(used)
            if key not in self.members[choice, number] and key != choice
        ]  # fmt: skip
        if self.nodes[used].branches:
            found.add(self._ways(used))
        elif outer and is_optional:
            found.add(self._ways(outer[-1][0]))
        elif is_optional:
            found.weak[used] = None
        else:
            found.strong[used] = None
            if outer:
                self.misused[used] = key

    def _homes(self, key: str) -> list[tuple[str, int]]:
        """The branches that a node belongs to, the innermost first."""
        found = [branch for branch, members in self.members.items() if key in members]
        return sorted(found, key=lambda branch: len(self.members[branch]))

    def _ways(self, choice: str) -> Keys:
        """The nodes of which one is done when a choice is: the last of each branch, or the choice itself."""
        found: Keys = {}
        for number, chosen in enumerate(self._chosen[choice]):
            members = self.members[choice, number]
            inside = [key for key in chosen if key in members] or self._sinks(members)
            for key in inside if members else (choice,):
                if self.nodes[key].type != "end":
                    found |= self._ways(key) if self.nodes[key].branches and key != choice else {key: None}
        return found

    def _sinks(self, members: set[str]) -> list[str]:
        used = {other for key in members for other in self._closure([key]) - {key}}
        return [key for key in self.nodes if key in members and key not in used]

    def _reduce(self, found: "_Found", any_of: Iterable[str]) -> tuple[list[str], list[str]]:
        """Without those that come before another of them, or before all of `any_of`."""
        strong = [key for key in found.strong if not self._is_before_others(key, found.strong, found, any_of)]
        both = {**found.weak, **found.strong}
        weak = [key for key in found.weak if key not in strong and not self._is_before_others(key, both, found, any_of)]
        return strong, weak

    def _is_before_others(self, key: str, others: Keys, found: "_Found", any_of: Iterable[str]) -> bool:
        if any_of and all(self._is_before(key, other) for other in any_of):
            return True
        beside = {other for group in found.groups if key in group for other in group}
        return any(self._is_before(key, other) for other in others if other != key and other not in beside)

    def _is_before(self, key: str, other: str) -> bool:
        return bool(self._find_ancestors(other) & self._bits[key])

    def _find_ancestors(self, key: str) -> int:
        if key not in self._ancestors:
            found = self._ancestors[key] = 0  # until it is known: for a node that comes before itself
            for parent in (parent for parents in self.parents(key) for parent in parents):
                found |= self._bits[parent] | self._find_ancestors(parent)
            self._ancestors[key] = found
        return self._ancestors[key]


class _Found:
    """Parents of a node: those it needs, those whose values may be missing, and the ways of choices among the first."""

    def __init__(self) -> None:
        self.strong: Keys = {}
        self.weak: Keys = {}
        self.groups: list[Keys] = []

    def add(self, ways: Keys) -> None:
        self.strong |= ways
        if len(ways) > 1 and ways not in self.groups:
            self.groups.append(ways)
