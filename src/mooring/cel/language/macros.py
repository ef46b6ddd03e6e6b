"""Macros: calls that the parser rewrites before types are checked, most of them into comprehensions.

The expansions are cel-go's, node by node, because costs are counted on the expanded tree.
"""

from collections.abc import Callable, Sequence

from mooring.cel.language.syntax import (
    CallExpression,
    Fold,
    Ident,
    ListLiteral,
    Literal,
    MapLiteral,
    Select,
    SyntaxFault,
    SyntaxNode,
)

ACCU = "@result"
UNUSED = "#unused"
_SORTED = "@__sortBy_input__"
"""Names of variables that no expression can use, because they are not identifiers."""

AND, OR, NOT, CONDITIONAL, ADD, EQUALS = "_&&_", "_||_", "!_", "_?_:_", "_+_", "_==_"
NOT_STRICTLY_FALSE = "@not_strictly_false"
MAP_INSERT = "cel.@mapInsert"
SORT_BY_KEYS = "@sortByAssociatedKeys"

Nodes = Sequence[SyntaxNode]
Macro = Callable[[int, SyntaxNode, Nodes], SyntaxNode]
"""Position, target and arguments in, expansion out."""
Form = Callable[[int, SyntaxNode], tuple[SyntaxNode, SyntaxNode, SyntaxNode, SyntaxNode]]
"""Position and predicate in; start, condition, step and result of a comprehension out."""

_NO_NAME = "argument is not an identifier"


def expand(call: CallExpression) -> SyntaxNode:
    """The expansion of a macro; any other call is returned as it is. Raises SyntaxFault."""
    if call.target is None:
        return _has(call) if call.function == "has" and len(call.args) == 1 else call
    if call.function == "bind" and len(call.args) == 3 and isinstance(call.target, Ident) and call.target.name == "cel":
        name = _name(call.args[0], "cel.bind() variable names must be simple identifiers")
        return _bound(call.position, name, call.args[1], call.args[2])
    macro = _RECEIVER.get((call.function, len(call.args)))
    return macro(call.position, call.target, call.args) if macro is not None else call


def _has(call: CallExpression) -> SyntaxNode:
    """`has(a.b)`: the argument must be a selection."""
    selected = call.args[0]
    if not isinstance(selected, Select) or selected.is_test:
        raise SyntaxFault("invalid argument to has() macro", selected.position)
    return Select(call.position, selected.operand, selected.name, is_test=True)


def _name(node: SyntaxNode, fault: str) -> str:
    if not isinstance(node, Ident):
        raise SyntaxFault(fault, node.position)
    return node.name


def _variables(args: Nodes, how_many: int, fault: str = "argument must be a simple name") -> tuple[str, str]:
    """The names of the one or two iteration variables; the second is empty for one."""
    names = [_name(each, fault) for each in args[:how_many]]
    for node, name in zip(args, names, strict=False):
        if name in (ACCU, "__result__"):
            raise SyntaxFault("iteration variable overwrites accumulator variable", node.position)
    if how_many == 2 and names[0] == names[1]:
        raise SyntaxFault(f"duplicate variable name: {names[0]}", args[1].position)
    return (names[0], names[1]) if how_many == 2 else (names[0], "")


def _bound(at: int, name: str, value: SyntaxNode, result: SyntaxNode) -> SyntaxNode:
    """`cel.bind(name, value, result)`: a comprehension over nothing, whose accumulator is the name."""
    return Fold(at, ListLiteral(at, ()), UNUSED, "", name, value, Literal(at, False), Ident(at, name), result)


def _call(at: int, function: str, *args: SyntaxNode) -> SyntaxNode:
    return CallExpression(at, function, None, args)


def _accu(at: int) -> SyntaxNode:
    return Ident(at, ACCU)


def _quantifier(how_many: int, form: Form) -> Macro:
    """`list.all(x, …)` with one variable, or `map.all(key, value, …)` with two."""

    def macro(at: int, target: SyntaxNode, args: Nodes) -> SyntaxNode:
        var, var2 = _variables(args, how_many)
        init, condition, step, result = form(at, args[how_many])
        return Fold(at, target, var, var2, ACCU, init, condition, step, result)

    return macro


def _all(at: int, holds: SyntaxNode) -> tuple[SyntaxNode, SyntaxNode, SyntaxNode, SyntaxNode]:
    goes_on = _call(at, NOT_STRICTLY_FALSE, _accu(at))
    return Literal(at, True), goes_on, _call(at, AND, _accu(at), holds), _accu(at)


def _exists(at: int, holds: SyntaxNode) -> tuple[SyntaxNode, SyntaxNode, SyntaxNode, SyntaxNode]:
    goes_on = _call(at, NOT_STRICTLY_FALSE, _call(at, NOT, _accu(at)))
    return Literal(at, False), goes_on, _call(at, OR, _accu(at), holds), _accu(at)


def _exists_one(at: int, holds: SyntaxNode) -> tuple[SyntaxNode, SyntaxNode, SyntaxNode, SyntaxNode]:
    one_more = _call(at, ADD, _accu(at), Literal(at, 1))
    step = _call(at, CONDITIONAL, holds, one_more, _accu(at))
    return Literal(at, 0), Literal(at, True), step, _call(at, EQUALS, _accu(at), Literal(at, 1))


def _collected(target: SyntaxNode, names: tuple[str, str], step: SyntaxNode, args: Nodes) -> SyntaxNode:
    """A list or a map that takes in the value of each element: `args` are variables, a condition if any, and the value."""
    at = step.position
    init = ListLiteral(at, ()) if isinstance(step, CallExpression) and step.function == ADD else MapLiteral(at, ())
    if len(args) == (4 if names[1] else 3):
        step = _call(at, CONDITIONAL, args[-2], step, _accu(at))
    return Fold(at, target, *names, ACCU, init, Literal(at, True), step, _accu(at))


def _appended(at: int, value: SyntaxNode) -> SyntaxNode:
    """The step `result + [value]`."""
    return _call(at, ADD, _accu(at), ListLiteral(at, (value,)))


def _map(at: int, target: SyntaxNode, args: Nodes) -> SyntaxNode:
    """`list.map(x, value)` and `list.map(x, condition, value)`."""
    return _collected(target, _variables(args, 1, _NO_NAME), _appended(at, args[-1]), args)


def _filter(at: int, target: SyntaxNode, args: Nodes) -> SyntaxNode:
    """`list.filter(x, condition)` is `list.map(x, condition, x)`."""
    return _map(at, target, (*args, args[0]))


def _transform_list(at: int, target: SyntaxNode, args: Nodes) -> SyntaxNode:
    """`map.transformList(key, value, result)`."""
    return _collected(target, _variables(args, 2), _appended(at, args[-1]), args)


def _transform_map(at: int, target: SyntaxNode, args: Nodes) -> SyntaxNode:
    """`map.transformMap(key, value, result)`: keys stay."""
    names = _variables(args, 2)
    return _collected(target, names, _call(at, MAP_INSERT, _accu(at), Ident(at, names[0]), args[-1]), args)


def _transform_entry(at: int, target: SyntaxNode, args: Nodes) -> SyntaxNode:
    """`map.transformMapEntry(key, value, {new key: result})`."""
    return _collected(target, _variables(args, 2), _call(at, MAP_INSERT, _accu(at), args[-1]), args)


def _sort_by(at: int, target: SyntaxNode, args: Nodes) -> SyntaxNode:
    """`list.sortBy(x, key)`: the keys are computed first, then the list is sorted by them."""
    keys = _map(at, Ident(at, _SORTED), args)
    return _bound(at, _SORTED, target, CallExpression(at, SORT_BY_KEYS, Ident(at, _SORTED), (keys,)))


def _optional_map(at: int, target: SyntaxNode, args: Nodes) -> SyntaxNode:
    """`optional.optMap(x, value)`. Parity: the target is in the expansion twice, and is evaluated and charged twice."""
    name = _name(args[0], "optMap() variable name must be a simple identifier")
    inner = _bound(at, name, CallExpression(at, "value", target, ()), args[1])
    return _if_present(at, target, _call(at, "optional.of", inner))


def _optional_flat_map(at: int, target: SyntaxNode, args: Nodes) -> SyntaxNode:
    """`optional.optFlatMap(x, value)`: the value is an optional itself."""
    name = _name(args[0], "optFlatMap() variable name must be a simple identifier")
    return _if_present(at, target, _bound(at, name, CallExpression(at, "value", target, ()), args[1]))


def _if_present(at: int, target: SyntaxNode, then: SyntaxNode) -> SyntaxNode:
    return _call(at, CONDITIONAL, CallExpression(at, "hasValue", target, ()), then, _call(at, "optional.none"))


_QUANTIFIERS = {"all": _all, "exists": _exists, "exists_one": _exists_one, "existsOne": _exists_one}
_COLLECTORS = {"transformList": _transform_list, "transformMap": _transform_map, "transformMapEntry": _transform_entry}

_RECEIVER: dict[tuple[str, int], Macro] = {
    **{(name, 1 + many): _quantifier(many, form) for name, form in _QUANTIFIERS.items() for many in (1, 2)},
    **{(name, count): macro for name, macro in _COLLECTORS.items() for count in (3, 4)},
    **{("map", count): _map for count in (2, 3)},
    ("filter", 2): _filter,
    ("sortBy", 2): _sort_by,
    ("optMap", 2): _optional_map,
    ("optFlatMap", 2): _optional_flat_map,
}
"""Macros that are called on a value, by name and number of arguments. The longer form has a second variable (quantifiers)
or a condition (the others)."""
