"""The walk over a checked tree that adds up the most that an expression can cost. `estimates.py` has the rules of calls.

Lengths decide: a loop costs its body for each element that its range can have. Lengths come from literals, from the
results of calls, from what is known about variables (`LengthsAt`), and from types that have one value only.
"""

from collections.abc import Sequence
from typing import NamedTuple

from mooring.cel.costs import CALL, LIST_LITERAL, MAP_LITERAL
from mooring.cel.estimates import UNKNOWN, LengthBounds, LengthsAt, Operand, Path, added, multiplied, rule_of
from mooring.cel.language.macros import ACCU
from mooring.cel.language.syntax import (
    CallExpression,
    Fold,
    Ident,
    ListLiteral,
    Literal,
    MapLiteral,
    Select,
    SyntaxNode,
    TreeWalk,
)
from mooring.cel.values import Type, unwrapped

_READ = 1
"""The cost of reading a variable, and of each field of a map or an object."""
_SCALARS = frozenset(("bool", "double", "int", "uint", "google.protobuf.Duration", "google.protobuf.Timestamp"))
_ONE = LengthBounds(1, 1)


class _Entries(NamedTuple):
    """The lengths of the keys and of the values of a list or a map."""

    is_list: bool
    key: LengthBounds
    value: LengthBounds

    def joined(self, other: "_Entries | None") -> "_Entries | None":
        if other is None:
            return None
        return _Entries(self.is_list, self.key.joined(other.key), self.value.joined(other.value))


class _Local(NamedTuple):
    """A variable of a comprehension or of `cel.bind`."""

    path: Path
    size: LengthBounds | None
    entries: _Entries | None = None


def worst_cost(root: SyntaxNode, size_at: LengthsAt) -> int:
    """The most that a checked tree can cost. Call it with a stack that is deep enough for the parser."""
    return _CostWalk(size_at).cost(root)


class _CostWalk(TreeWalk[int]):
    """One walk over one tree. Nodes are known by their identity; the tree lives longer than the walk."""

    def __init__(self, size_at: LengthsAt) -> None:
        self._size_at = size_at
        self._costs: dict[int, int] = {}
        """Macros can use a node twice, and nested macros a node 2^n times: each is visited once."""
        self._sizes: dict[int, LengthBounds] = {}
        self._entries: dict[int, _Entries] = {}
        self._paths: dict[int, Path] = {}
        self._locals: dict[str, list[_Local]] = {}

    def cost(self, node: SyntaxNode) -> int:
        known = self._costs.get(id(node))
        if known is None:
            known = self._costs[id(node)] = self.of(node)
        return known

    # ---- paths and lengths

    def _path(self, node: SyntaxNode) -> Path:
        if isinstance(node, Ident):
            local = self._local(node.name)
            return (node.name,) if local is None else local.path
        return self._paths.get(id(node), ())

    def _local(self, name: str) -> _Local | None:
        stack = self._locals.get(name)
        return stack[-1] if stack else None

    def _size(self, node: SyntaxNode) -> LengthBounds | None:
        """The length of a value: computed, written, known by its path, or one because of its type."""
        known = self._sizes.get(id(node))
        if known is None:
            known = _written_size(node)
        if known is None:
            known = self._size_at(self._path(node), node.type)
        if known is None and unwrapped(node.type)[0].name in _SCALARS:
            known = _ONE
        if known is None and isinstance(node, Ident) and (local := self._local(node.name)) is not None:
            known = local.size
        return known

    def _entries_of(self, node: SyntaxNode) -> _Entries | None:
        found = self._entries.get(id(node))
        if found is None and isinstance(node, Ident) and (local := self._local(node.name)) is not None:
            return local.entries
        return found

    def _operand(self, node: SyntaxNode) -> Operand:
        """The facts about a node that a rule reads. The cost comes first: with it the path and the length become known."""
        cost = self.cost(node)
        path = self._path(node)
        is_own = bool(path) and path[0] == ACCU
        return Operand(node, node.type, () if is_own else path, self._size(node) or UNKNOWN, cost)

    # ---- nodes

    def _literal(self, node: Literal) -> int:
        return 0

    def _ident(self, node: Ident) -> int:
        return _READ

    def _select(self, node: Select) -> int:
        """Parity: a test for a field costs what its operand costs, and a field of a value of unknown type nothing."""
        if node.qualified is not None:
            return _READ
        cost = self.cost(node.operand)
        if node.is_test:
            return cost
        self._paths[id(node)] = (*self._path(node.operand), node.name)
        return added(cost, 0 if _is_dynamic(node.operand.type) else _READ)

    def _list(self, node: ListLiteral) -> int:
        costs = [self.cost(element) for element in node.elements]
        self._entries[id(node)] = _Entries(True, _ONE, self._joined_sizes(node.elements))
        return added(LIST_LITERAL, *costs)

    def _map(self, node: MapLiteral) -> int:
        costs = [added(self.cost(key), self.cost(value)) for key, value, _ in node.entries]
        keys = self._joined_sizes([key for key, _, _ in node.entries])
        values = self._joined_sizes([value for _, value, _ in node.entries])
        self._entries[id(node)] = _Entries(False, keys, values)
        return added(MAP_LITERAL, *costs)

    def _joined_sizes(self, nodes: Sequence[SyntaxNode]) -> LengthBounds:
        sizes = [self._size(node) or UNKNOWN for node in nodes]
        if not sizes:
            return LengthBounds(0, 0)
        return LengthBounds(min(size.least for size in sizes), max(size.most for size in sizes))

    # ---- calls

    def _call(self, node: CallExpression) -> int:
        if node.function == "dyn":
            return self._renamed(node, node.args[0], CALL)
        args = [self._operand(operand) for operand in node.operands()]
        if node.function in ("_&&_", "_||_"):
            return added(*(arg.cost for arg in args))
        if node.function == "_?_:_":
            return self._conditional(node, args)
        return added(*(arg.cost for arg in args), self._called(node, args))

    def _renamed(self, node: SyntaxNode, like: SyntaxNode, more: int) -> int:
        """A node whose value is that of another one."""
        cost = self.cost(like)
        self._keep(node, self._size(like), self._entries_of(like))
        return added(cost, more)

    def _keep(self, node: SyntaxNode, size: LengthBounds | None, entries: _Entries | None) -> None:
        if size is not None:
            self._sizes[id(node)] = size
        if entries is not None:
            self._entries[id(node)] = entries

    def _conditional(self, node: CallExpression, args: Sequence[Operand]) -> int:
        one, other = (self._entries_of(arg) for arg in node.args[1:])
        self._keep(node, args[1].size.joined(args[2].size), one.joined(other) if one else None)
        return added(args[0].cost, max(args[1].cost, args[2].cost))

    def _called(self, node: CallExpression, args: Sequence[Operand]) -> int:
        """The highest cost of all overloads that the types allow. The length of the result covers all of them."""
        if not node.overloads:
            return CALL
        highest, size = 0, None
        for overload in node.overloads:
            found = rule_of(node.function, overload.id)(args, self._size_at)
            highest = max(highest, found[0])
            if found[1] is not None:
                size = found[1] if size is None else size.joined(found[1])
            if overload.id in ("index_list", "index_map"):
                size = self._indexed(node, overload.id)
            size = self._size(node) if size is None else size
        if node.function == "_+_":
            one, other = (self._entries_of(arg) for arg in node.args)
            self._keep(node, None, one.joined(other) if one else None)
        self._keep(node, size, None)
        return highest

    def _indexed(self, node: CallExpression, overload: str) -> LengthBounds | None:
        """An element of a list or a value of a map: its path is known, and its length may be."""
        step = "@items" if overload == "index_list" else "@values"
        self._paths[id(node)] = (*self._path(node.args[0]), step)
        entries = self._entries_of(node.args[0])
        return None if entries is None else entries.value

    # ---- comprehensions

    def _bind(self, node: Fold) -> int:
        """`cel.bind(name, value, result)`."""
        cost = added(self.cost(node.range), self.cost(node.init))
        self._push(node.accu, self._as_local(node.init))
        cost = added(cost, self.cost(node.result))
        self._locals[node.accu].pop()
        self._keep(node, self._size(node.result), self._entries_of(node.result))
        return cost

    def _fold(self, node: Fold) -> int:
        if _is_bind(node):
            return self._bind(node)
        cost = added(self.cost(node.range), self.cost(node.init))
        self._push(node.accu, self._as_local(node.init))
        for name, local in self._iterated(node):
            self._push(name, local)
        body = added(self.cost(node.condition), self.cost(node.step))
        for name in filter(None, (node.var, node.var2)):
            self._locals[name].pop()
        cost = added(cost, self.cost(node.result))
        self._locals[node.accu].pop()
        count = self._size(node.range) or UNKNOWN
        if isinstance(node.init, Literal):
            self._keep(node, self._size(node.init), None)
        elif isinstance(node.init, ListLiteral | MapLiteral):
            self._keep(node, count, self._entries_of(node.step))
        return added(cost, multiplied(count.most, body))

    def _as_local(self, node: SyntaxNode) -> _Local:
        return _Local(self._path(node), self._size(node), self._entries_of(node))

    def _push(self, name: str, local: _Local) -> None:
        self._locals.setdefault(name, []).append(local)

    def _iterated(self, node: Fold) -> list[tuple[str, _Local]]:
        """The variables of a comprehension. A single one is an element of a list or a key of a map; of two, the first is the
        index or the key, and the second the element or the value."""
        entries, path = self._entries_of(node.range), self._path(node.range)
        is_list = entries.is_list if entries else node.range.type.name == "list"
        key = _Local((*path, "@indices" if is_list else "@keys"), entries.key if entries else None)
        value = _Local((*path, "@items" if is_list else "@values"), entries.value if entries else None)
        if node.var2:
            return [(node.var, key), (node.var2, value)]
        return [(node.var, value if is_list else key)]


def _is_bind(node: Fold) -> bool:
    """Whether a comprehension over nothing only names a value."""
    is_empty = isinstance(node.range, ListLiteral) and not node.range.elements
    never = isinstance(node.condition, Literal) and node.condition.value is False
    return is_empty and never and node.accu != ACCU


def _is_dynamic(kind: Type) -> bool:
    return kind.name in ("dyn", "any", "*error*", "optional_type")


def _written_size(node: SyntaxNode) -> LengthBounds | None:
    """The length of a literal."""
    if isinstance(node, ListLiteral):
        return LengthBounds(len(node.elements), len(node.elements))
    if isinstance(node, MapLiteral):
        return LengthBounds(len(node.entries), len(node.entries))
    if isinstance(node, Literal):
        length = len(node.value) if isinstance(node.value, str | bytes) else 1
        return LengthBounds(length, length)
    return None
