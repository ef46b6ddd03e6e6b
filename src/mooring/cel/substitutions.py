"""What is known of type variables, and whether one type may stand for another."""

from collections.abc import Sequence

from mooring.cel.library import Overload
from mooring.cel.values import DYN, Type, is_dynamic

_PLAIN = frozenset(("bool", "int", "uint", "double", "string", "bytes", "list", "map", "type"))


class Substitutions:
    """Type variables with what they stand for. Trials that fail leave no trace."""

    def __init__(self) -> None:
        self._bound: dict[str, Type] = {}
        self._trail: list[tuple[str, Type | None]] = []
        self._count = 0

    def new_variable(self) -> Type:
        self._count += 1
        return Type(f"_var{self._count}", (), True)

    def fresh(self, overload: Overload) -> tuple[Sequence[Type], Type]:
        """Parameters and result of an overload, with variables of this call."""
        if not overload.is_generic:
            return overload.params, overload.result
        own: dict[str, Type] = {}
        return [self._renamed(param, own) for param in overload.params], self._renamed(overload.result, own)

    def _renamed(self, type: Type, own: dict[str, Type]) -> Type:
        if type.is_variable:
            if type.name not in own:
                own[type.name] = self.new_variable()
            return own[type.name]
        return Type(type.name, tuple(self._renamed(each, own) for each in type.params)) if type.params else type

    def substituted(self, type: Type) -> Type:
        while type.is_variable and type.name in self._bound:
            type = self._bound[type.name]
        return Type(type.name, tuple(map(self.substituted, type.params))) if type.params else type

    def settled(self, type: Type) -> Type:
        """With `dyn` for variables of which nothing is known."""
        type = self.substituted(type)
        if type.is_variable:
            return DYN
        return Type(type.name, tuple(map(self.settled, type.params))) if type.params else type

    def unify(self, one: Type, other: Type) -> bool:
        return self.unify_all((one,), (other,))

    def unify_all(self, types: Sequence[Type], others: Sequence[Type]) -> bool:
        """Whether the first may be used where the others are wanted."""
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
        """Whether the variable may stand for the type, and whether it stood for something already."""
        if type == variable:
            return True, True
        bound = self._bound.get(variable.name)
        if bound is not None:
            if type == bound:
                return True, True
            if not self._assign(type, bound):
                return False, True
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
        if type == variable:
            return True
        if type.is_variable:
            bound = self._bound.get(type.name)
            return bound is not None and self._mentions(bound, variable)
        return any(self._mentions(each, variable) for each in type.params)

    def more_general(self, one: Type, other: Type) -> Type:
        return one if _is_no_more_specific(one, other) else other


def _is_no_more_specific(one: Type, other: Type) -> bool:
    if is_dynamic(one) or one.is_variable:
        return True
    if is_dynamic(other) or other.is_variable or one.name != other.name or len(one.params) != len(other.params):
        return False
    return one.name == "type" or all(map(_is_no_more_specific, one.params, other.params))


def _is_nullable(type: Type) -> bool:
    """Parity: null may stand for values of types that are not CEL's own."""
    return type.name not in _PLAIN
