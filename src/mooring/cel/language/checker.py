"""The type checker: sets the type of each node, and the overloads of each call that its arguments allow.

Rules and messages are those of cel-go's checker. Costs depend on overloads, so that it must find the same ones.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from mooring.cel.language.syntax import (
    MAX_DEPTH,
    CallExpression,
    Fold,
    Ident,
    ListLiteral,
    Literal,
    MapLiteral,
    Select,
    SyntaxFault,
    SyntaxNode,
    TreeWalk,
)
from mooring.cel.library import Library, Overload
from mooring.cel.values import BOOL, DYN, ERROR, INT, Type, Uint, is_dynamic, list_of, map_of, optional_of, unwrapped

# ---- Type variables of the checker: what each stands for, and whether a type may be used where another is wanted.
#
# The rules are those of cel-go's checker (checker/types.go: isAssignable), with its order of cases.


_PLAIN = frozenset(("bool", "int", "uint", "double", "string", "bytes", "list", "map", "type"))


class Substitutions:
    """The types that type variables stand for. A unification that fails leaves no trace, because the checker tries overload
    by overload."""

    def __init__(self) -> None:
        self._bound: dict[str, Type] = {}
        self._trail: list[tuple[str, Type | None]] = []
        """Bindings in order, each with the one before it, to undo them."""
        self._count = 0

    def new_variable(self) -> Type:
        self._count += 1
        return Type(f"_var{self._count}", (), True)

    def fresh(self, overload: Overload) -> tuple[Sequence[Type], Type]:
        """Parameters and result of an overload, with fresh variables: two calls of a function must not share them."""
        if not overload.is_generic:
            return overload.params, overload.result
        own: dict[str, Type] = {}
        return [self._renamed(param, own) for param in overload.params], self._renamed(overload.result, own)

    def _renamed(self, kind: Type, own: dict[str, Type]) -> Type:
        """The type with this call's own variables instead of the declared ones."""
        if kind.is_variable:
            if kind.name not in own:
                own[kind.name] = self.new_variable()
            return own[kind.name]
        return Type(kind.name, tuple(self._renamed(each, own) for each in kind.params)) if kind.params else kind

    def substituted(self, kind: Type) -> Type:
        """The type with all variables replaced that stand for something."""
        while kind.is_variable and kind.name in self._bound:
            kind = self._bound[kind.name]
        return Type(kind.name, tuple(map(self.substituted, kind.params))) if kind.params else kind

    def settled(self, kind: Type) -> Type:
        """The type for error messages, and that of a whole expression: all variables are replaced, by `dyn` if they stand for
        nothing."""
        kind = self.substituted(kind)
        if kind.is_variable:
            return DYN
        return Type(kind.name, tuple(map(self.settled, kind.params))) if kind.params else kind

    def unify(self, one: Type, other: Type) -> bool:
        return self.unify_all((one,), (other,))

    def unify_all(self, types: Sequence[Type], others: Sequence[Type]) -> bool:
        """Whether `types` may be used where `others` are wanted; binds variables if so."""
        mark = len(self._trail)
        if len(types) == len(others) and all(map(self._assign, types, others)):
            return True
        while len(self._trail) > mark:
            name, before = self._trail.pop()
            if before is None:
                del self._bound[name]
            else:
                self._bound[name] = before
        return False

    def _assign(self, one: Type, other: Type) -> bool:
        """cel-go's isAssignable, case by case in its order: variables, dynamic types, null, then names and parameters."""
        if other.is_variable:
            is_valid, is_bound = self._substitute(one, other)
            if is_valid or is_bound:
                return is_valid
        if one.is_variable:
            return self._substitute(other, one)[0]
        if is_dynamic(one) or is_dynamic(other):
            return True
        if "null" in (one.name, other.name):
            return _is_nullable(one) and _is_nullable(other)
        if one.name != other.name:
            return False
        if one.name == "type":
            return True
        return len(one.params) == len(other.params) and all(map(self._assign, one.params, other.params))

    def _substitute(self, kind: Type, variable: Type) -> tuple[bool, bool]:
        """Whether the variable may stand for the type, and whether it stood for something before."""
        if kind == variable:
            return True, True
        bound = self._bound.get(variable.name)
        if bound is not None:
            if kind == bound:
                return True, True
            if not self._assign(kind, bound):
                return False, True
            # Both fit: the variable stands for the one that allows more, such as dyn, from now on.
            general = self.more_general(kind, bound)
            if not self._mentions(general, variable):
                self._bind(variable, general)
            return True, True
        if self._mentions(kind, variable):
            return False, False
        self._bind(variable, kind)
        return True, False

    def _bind(self, variable: Type, kind: Type) -> None:
        self._trail.append((variable.name, self._bound.get(variable.name)))
        self._bound[variable.name] = kind

    def _mentions(self, kind: Type, variable: Type) -> bool:
        """Whether the variable occurs in the type: binding it would make an infinite type."""
        if kind == variable:
            return True
        if kind.is_variable:
            bound = self._bound.get(kind.name)
            return bound is not None and self._mentions(bound, variable)
        return any(self._mentions(each, variable) for each in kind.params)

    def more_general(self, one: Type, other: Type) -> Type:
        """The one of two types that unify which allows more: `dyn` rather than `int`."""
        return one if _is_no_more_specific(one, other) else other


def _is_no_more_specific(one: Type, other: Type) -> bool:
    """Whether the first type allows at least what the second does."""
    if is_dynamic(one) or one.is_variable:
        return True
    if is_dynamic(other) or other.is_variable or one.name != other.name or len(one.params) != len(other.params):
        return False
    return one.name == "type" or all(map(_is_no_more_specific, one.params, other.params))


def _is_nullable(kind: Type) -> bool:
    """Parity: null may be used for values of types that are not CEL's own, such as timestamps."""
    return kind.name not in _PLAIN


_LITERALS = {bool: "bool", int: "int", Uint: "uint", float: "double", str: "string", bytes: "bytes", type(None): "null"}


@dataclass(frozen=True, slots=True, eq=False)
class Declarations:
    """The names that an expression may use."""

    library: Library
    variables: Mapping[str, Type]
    fields: Mapping[str, Mapping[str, Type]] = field(default_factory=dict)
    """Fields by the name of the type that has them, such as the type of `device`."""
    types: Mapping[str, Type] = field(default_factory=dict)
    """Names of types, as in `type(1) == int`."""
    validators: Mapping[str, Callable[[CallExpression], None]] = field(default_factory=dict)
    """By function: a check of the literals in its calls, which raises SyntaxFault."""


def check(root: SyntaxNode, declarations: Declarations) -> Type:
    """The type of the expression. Sets `type` and `overloads` in the tree. Raises SyntaxFault."""
    checker = _Checker(declarations)
    return checker.known.settled(checker.check(root))


class _Checker(TreeWalk[Type]):
    """Checks one tree, from the leaves up. `_scopes` has the types of the variables of enclosing comprehensions."""

    def __init__(self, declarations: Declarations) -> None:
        self._declared = declarations
        self._scopes: list[dict[str, Type]] = []
        self._depth = 0
        self._mixed = 0
        """Above 0 inside the arguments of `format`, whose list may have elements of several types."""
        self.known = Substitutions()

    def check(self, node: SyntaxNode) -> Type:
        """The type of a node. The depth is limited, because macros can nest expansions in expansions."""
        if not node.is_checked:
            self._depth += 1
            if self._depth > 2 * MAX_DEPTH:  # twice, because macros nest what they expand to
                raise SyntaxFault(f"expression recursion limit exceeded: {MAX_DEPTH}", node.position)
            node.type = self.of(node)
            node.is_checked = True
            self._depth -= 1
        return node.type

    def _literal(self, node: Literal) -> Type:
        return Type(_LITERALS[node.value.__class__])

    # ---- names

    def _lookup(self, name: str) -> Type | None:
        """The type of a name: inner scopes first, then variables, then names of types."""
        for scope in reversed(self._scopes):
            if name in scope:
                return scope[name]
        found = self._declared.variables.get(name)
        if found is None and name in self._declared.types:
            return Type("type", (self._declared.types[name],))
        return found

    def _ident(self, node: Ident) -> Type:
        found = self._lookup(node.name)
        if found is None:
            raise _undeclared(node.name, node)
        return found

    def _select(self, node: Select) -> Type:
        """`a.b`: the name of a type (`net.IP`), or a field of a value."""
        name = _qualified(node)
        if name is not None and name in self._declared.types and not node.is_test:
            node.qualified = name
            return Type("type", (self._declared.types[name],))
        found = self._field(node.operand, node.name, node)
        return BOOL if node.is_test else found

    def _field(self, operand: SyntaxNode, name: str, at: SyntaxNode) -> Type:
        target, is_optional = unwrapped(self.known.substituted(self.check(operand)))
        found = self._field_of(target, name, at)
        return optional_of(found) if is_optional else found

    def _field_of(self, target: Type, name: str, at: SyntaxNode) -> Type:
        """The type of a field: of a map its values' type, of a declared type that of the field; otherwise unknown."""
        if target.name == "map":
            return target.params[1]
        fields = self._declared.fields.get(target.name)
        if fields is not None:
            if name not in fields:
                raise SyntaxFault(f"undefined field '{name}'", at.position)
            return fields[name]
        if target.is_variable:
            self.known.unify(DYN, target)
        elif not is_dynamic(target):
            raise SyntaxFault(f"type '{target}' does not support field selection", at.position)
        return DYN

    # ---- calls

    def _call(self, node: CallExpression) -> Type:
        """The type of a call. `a.?b` is a call in the tree, but selects a field."""
        if node.function == "_?._":
            name = node.args[1]
            assert isinstance(name, Literal)
            found, _ = unwrapped(self._field(node.args[0], name.value, node))
            return optional_of(found)
        self._check_args(node)
        if node.target is not None and not self._is_of_namespace(node):
            self.check(node.target)
        overloads = self._declared.library.overloads(node.function)
        if overloads is None:
            raise _undeclared(node.function, node)
        if node.function in ("_&&_", "_||_"):
            return self._logical(node, overloads)
        return self._resolved(node, overloads)

    def _check_args(self, node: CallExpression) -> None:
        """Arguments before the target, as cel-go checks them: the order decides which error is reported."""
        self._mixed += node.function == "format"
        for arg in node.args:
            self.check(arg)
        self._mixed -= node.function == "format"
        if node.function in self._declared.validators:
            self._declared.validators[node.function](node)

    def _is_of_namespace(self, node: CallExpression) -> bool:
        """Whether the target is a namespace: in `sets.contains(a, b)` the function is named `sets.contains`. Rewrites the
        node if so."""
        prefix = _qualified(node.target)
        if prefix is None or self._declared.library.overloads(f"{prefix}.{node.function}") is None:
            return False
        node.function, node.target = f"{prefix}.{node.function}", None
        return True

    def _logical(self, node: CallExpression, overloads: Sequence[Overload]) -> Type:
        """`&&` and `||` have any number of terms, so that no overload fits them."""
        for arg in node.args:
            if not self.known.unify(arg.type, BOOL):
                raise SyntaxFault(f"expected type 'bool' but found '{self.known.substituted(arg.type)}'", arg.position)
        node.overloads = overloads
        return BOOL

    def _resolved(self, node: CallExpression, overloads: Sequence[Overload]) -> Type:
        """The result of a call. All overloads that the types allow stay candidates for run time; if their results differ,
        the result is `dyn`."""
        types = [operand.type for operand in node.operands()]
        result: Type | None = None
        node.overloads = found = []
        for overload in overloads:
            if overload.is_member is not (node.target is not None) or len(overload.params) != len(types):
                continue
            params, own = self.known.fresh(overload)
            if self.known.unify_all(types, params):
                found.append(overload)
                own = self.known.substituted(own)
                result = own if result is None or result == own or is_dynamic(result) else DYN
        if result is None:
            raise self._no_overload(node, types)
        return result

    def _no_overload(self, node: CallExpression, types: Sequence[Type]) -> SyntaxFault:
        shown = [str(self.known.settled(each)) for each in types]
        told = f"({', '.join(shown)})" if node.target is None else f"{shown[0]}.({', '.join(shown[1:])})"
        return SyntaxFault(f"found no matching overload for '{node.function}' applied to '{told}'", node.position)

    # ---- lists, maps and comprehensions

    def _list(self, node: ListLiteral) -> Type:
        """The type of the elements is their common type; of an empty list it is open."""
        joined: Type | None = None
        for i, element in enumerate(node.elements):
            joined = self._joined(joined, self._element(element, i in node.optional), element)
        return list_of(joined if joined is not None else self.known.new_variable())

    def _map(self, node: MapLiteral) -> Type:
        keys: Type | None = None
        values: Type | None = None
        for key, value, is_optional in node.entries:
            keys = self._joined(keys, self.check(key), key)
            values = self._joined(values, self._element(value, is_optional), value)
        if keys is None or values is None:
            return map_of(self.known.new_variable(), self.known.new_variable())
        return map_of(keys, values)

    def _element(self, node: SyntaxNode, is_optional: bool) -> Type:
        """The type of an element; an optional element (`[?a]`) must be an optional, and counts as the type inside."""
        found = self.check(node)
        if not is_optional:
            return found
        held, has_option = unwrapped(found)
        if not has_option and not is_dynamic(held):
            raise SyntaxFault(f"expected type '{optional_of(held)}' but found '{held}'", node.position)
        return held

    def _joined(self, before: Type | None, now: Type, node: SyntaxNode) -> Type:
        """The common type of elements so far and the next. Parity: Kubernetes requires elements of one type
        (HomogeneousAggregateLiterals), except in the arguments of `format`; `dyn` and `int` are two."""
        if before is None:
            return now
        fits = self.known.unify(before, now)
        if self._mixed and not fits:
            return DYN
        if not fits or (not self._mixed and self.known.substituted(before) != self.known.substituted(now)):
            shown = self.known.settled(before), self.known.settled(now)
            raise SyntaxFault(f"expected type '{shown[0]}' but found '{shown[1]}'", node.position)
        return self.known.more_general(before, now)

    def _fold(self, node: Fold) -> Type:
        """A comprehension: the step must have the type of the accumulator, the condition must be a bool."""
        ranged = self.known.substituted(self.check(node.range))
        accu = self.check(node.init)
        self._scopes.append({node.accu: accu})
        self._scopes.append(self._iterated(node, ranged))
        self.check(node.condition)
        self._assert(node.condition, BOOL)
        self.check(node.step)
        self._assert(node.step, accu)
        self._scopes.pop()
        result = self.check(node.result)
        self._scopes.pop()
        return self.known.substituted(result)

    def _iterated(self, node: Fold, ranged: Type) -> dict[str, Type]:
        """The types of the iteration variables. ERROR is for the second variable that a macro of one does not have."""
        if ranged.name == "list":
            first, second = (INT, ranged.params[0]) if node.var2 else (ranged.params[0], ERROR)
        elif ranged.name == "map":
            first, second = ranged.params
        elif ranged.name in ("dyn", "*error*") or ranged.is_variable:
            self.known.unify(DYN, ranged)
            first = second = DYN
        else:
            text = f"expression of type '{ranged}' cannot be range of a comprehension (must be list, map, or dynamic)"
            raise SyntaxFault(text, node.range.position)
        return {node.var: first, node.var2: second} if node.var2 else {node.var: first}

    def _assert(self, node: SyntaxNode, wanted: Type) -> None:
        if not self.known.unify(wanted, node.type):
            shown = self.known.settled(wanted), self.known.settled(node.type)
            raise SyntaxFault(f"expected type '{shown[0]}' but found '{shown[1]}'", node.position)


def _qualified(node: SyntaxNode | None) -> str | None:
    """The dotted name of `a.b.c`; None if the node is not a chain of names."""
    parts: list[str] = []
    while isinstance(node, Select) and not node.is_test:
        parts.append(node.name)
        node = node.operand
    return ".".join(reversed([*parts, node.name])) if isinstance(node, Ident) else None


def _undeclared(name: str, node: SyntaxNode) -> SyntaxFault:
    return SyntaxFault(f"undeclared reference to '{name}' (in container '')", node.position)
