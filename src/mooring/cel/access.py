"""Access to what is in a value: `device.attributes["x"].b`, optional access, and tests for presence.

A chain of fields and indexes is planned as one path, because that is how cel-go evaluates and charges it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from mooring.cel.budget import Exceeded, Frame
from mooring.cel.values import NOTHING, Defaulting, Extension, Fault, Maybe, TypeName, Uint, key_of

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
    """What the step costs beside the key: 1, or 0 where the computed key is a path, which has charged it already."""
    is_optional: bool = False
    """`a.?b`: this and all following steps are optional."""
    is_test: bool = False
    """`has(a.b)`: the path evaluates to whether the step exists."""


def path_of(root: Run, steps: Sequence[AccessStep], cost: int) -> Run:
    """A function that evaluates the whole path; `cost` is charged in addition to the steps."""
    if all(step.run is None and not step.is_optional and not step.is_test for step in steps):
        return _plain_path(root, [step.key for step in steps], cost)
    return _general_path(root, steps, cost)


def _plain_path(root: Run, keys: Sequence[Any], cost: int) -> Run:
    """A path of constant keys. Hot: most paths are such, and most variables of a comprehension have no step at all."""

    def alone(frame: Frame) -> Any:
        frame.cost += cost
        if frame.cost > frame.limit:
            raise Exceeded
        return root(frame)

    def run(frame: Frame) -> Any:
        value = root(frame)
        if value.__class__ is Maybe and keys:
            return _through_optional(frame, value, keys, cost)
        taken = cost
        for key in keys:
            if value.__class__ is Fault:
                break
            taken += 1
            value = at(value, key)
        frame.charge(taken)
        return value

    return run if keys else alone


def _through_optional(frame: Frame, start: Maybe, keys: Sequence[Any], cost: int) -> Any:
    """Steps into an optional: a missing key gives an empty optional instead of an error."""
    value, taken = start, cost
    if value.has_value:
        held = value.value
        for key in keys:
            found = find(held, key)
            if not isinstance(found, Maybe):
                frame.charge(taken)
                return NOTHING if found is None else found
            held, taken = found.value, taken + 1
        value = Maybe(held, True)
    frame.charge(taken)
    return value


def _general_path(root: Run, steps: Sequence[AccessStep], cost: int) -> Run:
    """A path with computed keys, optional steps or a test. Each step is charged before the next, as cel-go does: the
    limit may be reached halfway."""

    def run(frame: Frame) -> Any:
        """The three ways out: an error, a missing optional, and the answer of a test. Each charges `cost`, as cel-go
        does."""
        value = root(frame)
        # An optional at the start makes the whole path optional; a missing value ends it at once.
        is_optional = value.__class__ is Maybe and bool(steps)
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

    return run


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
    """As `at`, for optional access and tests: a Maybe, or None if there is no such key or index."""
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
