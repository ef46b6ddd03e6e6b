"""The building blocks of plans: functions that evaluate a kind of node, made once by the planner (cel/expression.py)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from mooring.cel.budget import WORK, Exceeded, Frame
from mooring.cel.values import (
    NO_OVERLOAD,
    NOTHING,
    Defaulting,
    Extension,
    Fault,
    Maybe,
    TypeName,
    Uint,
    key_of,
    keys_of,
)

# ---- Access to what is in a value: `device.attributes["x"].b`, optional access, and tests for presence.
#
# A chain of fields and indexes is planned as one path, because that is how cel-go evaluates and charges it.


Run = Callable[[Frame], Any]
"""Evaluates a planned part of an expression. An error is returned as a Fault, never raised."""

NAMES: dict[type, str] = {
    bool: "bool", int: "int", Uint: "uint", float: "double", str: "string", bytes: "bytes", list: "list",
    type(None): "null_type", Maybe: "optional_type", TypeName: "type",
}  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class AccessStep:
    """One step of a path: a field, a key or an index."""

    key: Any
    """The key, if it is a constant."""
    run: Run | None = None
    """Computes the key, if it is not."""
    cost: int = 1
    """Cost of the step without the cost of its key, in CEL cost units: 1, or 0 if the computed key is a path, which has
    charged it already."""
    is_optional: bool = False
    """`a.?b`: this and all following steps are optional."""
    is_test: bool = False
    """`has(a.b)`: the path evaluates to whether the step exists."""


def path_of(root: Run, steps: Sequence[AccessStep], cost: int) -> Run:
    """A function that evaluates the whole path; `cost` is charged in addition to the steps."""
    if all(step.run is None and not step.is_optional and not step.is_test for step in steps):
        return _plain_path(root, steps, cost)
    return lambda frame: _walked(frame, root(frame), steps, cost)


def _plain_path(root: Run, steps: Sequence[AccessStep], cost: int) -> Run:
    """A path of constant keys. Hot: most paths are such, and most variables of a comprehension have no step at all."""
    keys = [step.key for step in steps]

    def alone(frame: Frame) -> Any:
        frame.cost += cost
        if frame.cost > frame.limit:
            raise Exceeded
        return root(frame)

    def run(frame: Frame) -> Any:
        value = root(frame)
        if value.__class__ is Maybe:
            return _walked(frame, value, steps, cost)
        taken = cost
        for key in keys:
            if value.__class__ is Fault:
                break
            taken += 1
            value = at(value, key)
        frame.charge(taken)
        return value

    return run if keys else alone


def _walked(frame: Frame, value: Any, steps: Sequence[AccessStep], cost: int) -> Any:
    """The value at the end of a path that begins with an optional, or has computed keys, optional steps or a test. Each step
    is charged before the next, as cel-go does: the limit may be reached halfway.

    There are three ways out: an error, a missing optional, and the answer of a test. Each charges `cost`, as cel-go does.
    """
    # An optional at the start makes the whole path optional; a missing value ends it at once.
    is_optional = value.__class__ is Maybe
    if is_optional:
        if not value.has_value:
            frame.charge(cost)
            return False if steps[-1].is_test else value
        value = value.value
    for step in steps:
        if value.__class__ is Fault:
            break
        is_optional = is_optional or step.is_optional
        key = step.key if step.run is None else step.run(frame)
        if key.__class__ is Fault:
            value = key
            break
        if is_optional or step.is_test:
            found = find(value, key)
            if isinstance(found, Fault):
                value = found
                break
            if step.is_test:
                frame.charge(step.cost + cost)
                return found is not None
            if found is None:
                frame.charge(cost)
                return NOTHING
            value = found.value
        else:
            value = at(value, key)
        frame.charge(step.cost)
    frame.charge(cost)
    return Maybe(value, True) if is_optional and value.__class__ is not Fault else value


def at(value: Any, key: Any) -> Any:
    """The value under a key or an index, or a Fault in cel-go's words."""
    if isinstance(value, dict):
        try:
            return value[key_of(key)]
        except KeyError:
            return Fault(f"no such key: {told(key)}")
        except TypeError:
            return Fault(f"unsupported key type: {told(key)}")
    if value.__class__ is list:
        place = _place(key)
        if place is None:
            return Fault(f"unsupported index type '{type_name(key)}' in list")
        return value[place] if 0 <= place < len(value) else Fault(f"index out of bounds: {told(key)}")
    return Fault(f"no such key: {told(key)}")


def find(value: Any, key: Any) -> Maybe | Fault | None:
    """The value under a key or an index for optional access and tests: a Maybe, or None if there is none."""
    if isinstance(value, Defaulting):
        return Maybe(value[key], True)
    if isinstance(value, dict):
        found = value.get(key_of(key), NOTHING)
        return None if found is NOTHING else Maybe(found, True)
    if value.__class__ is list:
        place = _place(key)
        if place is None:
            return Fault(f"unsupported index type '{type_name(key)}' in list")
        return Maybe(value[place], True) if 0 <= place < len(value) else None
    return None


def _place(key: Any) -> int | None:
    """An index of a list. Parity: a double without a fraction is one, too."""
    if key.__class__ in (int, Uint):
        return int(key)
    return int(key) if key.__class__ is float and key == int(key) else None


def told(key: Any) -> str:
    """A key in an error message."""
    return str(key).lower() if key.__class__ is bool else str(key)


def type_name(value: Any) -> str:
    """The name of a value's type, as in error messages and in `type(x)`."""
    if isinstance(value, Extension):
        return value.type.name
    return "map" if isinstance(value, dict) else NAMES[value.__class__]


@dataclass(frozen=True, slots=True, eq=False)
class EvaluationPlan:
    """A planned node: how to evaluate it, and its value if that is already known."""

    run: Run
    is_constant: bool = False
    value: Any = None
    """The value of a constant."""
    bare: Run | None = None
    """Evaluates a path without the cost of its variable. Parity: cel-go does not charge the variable that a conditional
    chooses."""


@dataclass(frozen=True, slots=True, eq=False)
class Loop:
    """The loop of a comprehension. Variables live in slots of the frame, by number."""

    accu: int
    var: int
    var2: int | None
    condition: EvaluationPlan
    step: Run

    def run(self, frame: Frame, elements: list[Any] | dict[Any, Any]) -> None:
        """Run the loop of a macro over the elements of a list or the entries of a map. The accumulator is kept in a slot of
        the frame; the loop stops early when the condition is false."""
        if self.condition.is_constant and not self.condition.value:
            return  # the expansion of `cel.bind`, which only names a value
        slots, goes_on, step = frame.slots, self.condition.run, self.step
        for first, second in self._pairs(elements):
            slots[self.var] = first
            if self.var2 is not None:
                slots[self.var2] = second
            if goes_on(frame) is False:
                break
            slots[self.accu] = step(frame)

    def _pairs(self, elements: list[Any] | dict[Any, Any]) -> Any:
        """The values of both variables: index and element of a list, or key and value of a map. With one variable it is
        the element or the key."""
        if isinstance(elements, dict):
            return zip(keys_of(elements), elements.values(), strict=True)
        return enumerate(elements) if self.var2 is not None else zip(elements, elements, strict=True)


def no_overload(function: str, values: Sequence[Any]) -> Fault:
    """The error of a call without a matching overload. Parity: only functions name their arguments, operators do not."""
    if not function[0].isalpha():
        return NO_OVERLOAD
    return Fault(f"no such overload: {function}({', '.join(type_name(value) for value in values)})")


def fresh(init: EvaluationPlan) -> Run:
    """The start value of a comprehension. A constant list or map is copied, because steps change the result in place."""
    value = init.value
    if init.is_constant and isinstance(value, list | dict):
        return lambda frame: value.copy()
    return init.run


def appending(accu: int, listed: Run) -> Run:
    """The step `result + [x]`, in place."""

    def run(frame: Frame) -> Any:
        so_far, more = frame.slots[accu], listed(frame)
        frame.charge(2)  # cel-go's costs of reading the result and of `+`
        for value in (so_far, more):
            if value.__class__ is Fault:
                return value
        if so_far.__class__ is not list:
            return NO_OVERLOAD
        so_far += more
        return so_far

    return run


def inserting(accu: int, args: Sequence[Run]) -> Run:
    """The step that inserts an entry, or the entries of a map, into the result, in place."""

    def run(frame: Frame) -> Any:
        so_far, values = frame.slots[accu], [arg(frame) for arg in args]
        frame.charge(2)
        for value in (so_far, *values):
            if value.__class__ is Fault:
                return value
        entries = values[0].items() if len(values) == 1 else ((key_of(values[0]), values[1]),)
        for key, value in entries:
            if key in so_far:
                return Fault(f"insert failed: key {key} already exists")
            so_far[key] = value
        return so_far

    return run


def logical(terms: Sequence[Run], decisive: bool) -> Run:
    """`a && b` and `a || b`. A decisive term wins even if another term is an error, as the specification says."""

    def run(frame: Frame) -> Any:
        fault: Fault | None = None
        for term in terms:
            value = term(frame)
            if value is decisive:
                return decisive
            if value.__class__ is not bool and fault is None:
                fault = value if value.__class__ is Fault else NO_OVERLOAD
        return not decisive if fault is None else fault

    return run


def conditional(condition: Run, then: Run, otherwise: Run) -> Run:
    """`a ? b : c`; only one of the two is evaluated."""

    def run(frame: Frame) -> Any:
        WORK.spend(1)
        chosen = condition(frame)
        if chosen is True:
            return then(frame)
        if chosen is False:
            return otherwise(frame)
        return chosen if chosen.__class__ is Fault else NO_OVERLOAD

    return run


def alternative(optional: Run, other: Run, is_value: bool) -> Run:
    """`a.or(b)` and `a.orValue(b)`: b is evaluated only if a has no value."""

    def run(frame: Frame) -> Any:
        value = optional(frame)
        if value.__class__ is Fault:
            return value
        if value.__class__ is not Maybe:
            return NO_OVERLOAD
        if value.has_value:
            return value.value if is_value else value
        return other(frame)

    return run


def not_strictly_false(condition: Run) -> Run:
    """The condition of `all` and `exists`: the loop goes on after an error, because a later element may be decisive."""

    def run(frame: Frame) -> Any:
        value = condition(frame)
        frame.charge(1)
        return value is not False

    return run


def listed(values: list[Any], optional: frozenset[int]) -> Any:
    """A list literal; optional elements (`[?a]`) without a value are left out."""
    made = []
    for i, value in enumerate(values):
        if value.__class__ is Fault:
            return value
        if i not in optional:
            made.append(value)
        elif value.__class__ is not Maybe:
            return Fault(f"cannot initialize optional list element from non-optional value {value}")
        elif value.has_value:
            made.append(value.value)
    return made


def mapped(entries: Sequence[tuple[Any, Any, bool]]) -> Any:
    """A map literal of (key, value, whether the entry is optional)."""
    made: dict[Any, Any] = {}
    for key, value, is_optional in entries:
        if key.__class__ is Fault or value.__class__ is Fault:
            return key if key.__class__ is Fault else value
        if isinstance(key, list | dict) or key is None:
            return Fault("unsupported key type")
        if is_optional:
            if value.__class__ is not Maybe:
                return Fault(f"cannot initialize optional entry '{key}' from non-optional value {value}")
            if not value.has_value:
                continue
            value = value.value
        made[key_of(key)] = value
    return made


_GO_NAMES = {int: "types.Int", bool: "types.Bool", str: "types.String", float: "types.Double", bytes: "types.Bytes"}


def not_iterable(value: Any, has_two: bool) -> Fault:
    """The error of a comprehension over a value that is neither list nor map. Parity: it names the type of Go."""
    name = _GO_NAMES.get(value.__class__) or f"cel.{value.__class__.__name__}"
    return Fault(
        f"unsupported comprehension range type: {name}" if has_two else f"got '{name}', expected iterable type"
    )
