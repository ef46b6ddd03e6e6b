"""Type variables of the checker: what each stands for, and whether a type may be used where another is wanted.

The rules are those of cel-go's checker (checker/types.go: isAssignable), with its order of cases.
"""

from collections.abc import Sequence

from mooring.cel.library import Overload
from mooring.cel.values import DYN, Type, is_dynamic

_PLAIN = frozenset(("bool", "int", "uint", "double", "string", "bytes", "list", "map", "type"))


class Substitutions:
    """What type variables stand for. A unification that fails leaves no trace: the checker tries overload by overload."""

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

    def _renamed(self, type: Type, own: dict[str, Type]) -> Type:
        """The type with this call's own variables instead of the declared ones."""
        if type.is_variable:
            if type.name not in own:
                own[type.name] = self.new_variable()
            return own[type.name]
        return Type(type.name, tuple(self._renamed(each, own) for each in type.params)) if type.params else type

    def substituted(self, type: Type) -> Type:
        """The type with all variables replaced that stand for something."""
        while type.is_variable and type.name in self._bound:
            type = self._bound[type.name]
        return Type(type.name, tuple(map(self.substituted, type.params))) if type.params else type

    def settled(self, type: Type) -> Type:
        """As `substituted`, with `dyn` for variables that stand for nothing: for error messages."""
        type = self.substituted(type)
        if type.is_variable:
            return DYN
        return Type(type.name, tuple(map(self.settled, type.params))) if type.params else type

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

    def _substitute(self, type: Type, variable: Type) -> tuple[bool, bool]:
        """(whether the variable may stand for the type, whether it stood for something before)."""
        if type == variable:
            return True, True
        bound = self._bound.get(variable.name)
        if bound is not None:
            if type == bound:
                return True, True
            if not self._assign(type, bound):
                return False, True
            # Both fit: the variable stands for the one that allows more, such as dyn, from now on.
            general = self.more_general(type, bound)
            if not self._mentions(general, variable):
                self._bind(variable, general)
            return True, True
        if self._mentions(type, variable):
            return False, False
        self._bind(variable, type)
        return True, False

    def _bind(self, variable: Type, type: Type) -> None:
        self._trail.append((variable.name, self._bound.get(variable.name)))
        self._bound[variable.name] = type

    def _mentions(self, type: Type, variable: Type) -> bool:
        """Whether the variable occurs in the type: binding it would make an infinite type."""
        if type == variable:
            return True
        if type.is_variable:
            bound = self._bound.get(type.name)
            return bound is not None and self._mentions(bound, variable)
        return any(self._mentions(each, variable) for each in type.params)

    def more_general(self, one: Type, other: Type) -> Type:
        """Of two types that unify, the one that allows more: `dyn` rather than `int`."""
        return one if _is_no_more_specific(one, other) else other


def _is_no_more_specific(one: Type, other: Type) -> bool:
    """Whether the first type allows at least what the second does."""
    if is_dynamic(one) or one.is_variable:
        return True
    if is_dynamic(other) or other.is_variable or one.name != other.name or len(one.params) != len(other.params):
        return False
    return one.name == "type" or all(map(_is_no_more_specific, one.params, other.params))


def _is_nullable(type: Type) -> bool:
    """Parity: null may be used for values of types that are not CEL's own, such as timestamps."""
    return type.name not in _PLAIN
