"""Steps from a value to what is in it: fields, keys and positions, and whether they are there."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from mooring.cel.budget import Exceeded, Frame
from mooring.cel.values import NOTHING, Defaulting, Extension, Fault, Maybe, TypeName, Uint, key_of

Run = Callable[[Frame], Any]

NAMES: dict[type, str] = {
    bool: "bool", int: "int", Uint: "uint", float: "double", str: "string", bytes: "bytes", list: "list",
    type(None): "null_type", Maybe: "optional_type", TypeName: "type",
}  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class AccessStep:
    """One step of a path. It costs 1; where the key is computed that has its own cost, which includes the step's."""

    key: Any
    """What it is, where it is a constant."""
    run: Run | None = None
    """How to compute it, where it is none."""
    cost: int = 1
    is_optional: bool = False
    """`a.?b`: from here on everything is optional."""
    is_test: bool = False
    """`has(a.b)`."""


def path_of(root: Run, steps: Sequence[AccessStep], cost: int) -> Run:
    """A function that goes the whole way; `cost` is what that costs besides the steps."""
    if all(step.run is None and not step.is_optional and not step.is_test for step in steps):
        return _plain_path(root, [step.key for step in steps], cost)
    return _general_path(root, steps, cost)


def _plain_path(root: Run, keys: Sequence[Any], cost: int) -> Run:
    """Hot: most paths consist of names alone, and most variables of a comprehension are used as they are."""

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
    def run(frame: Frame) -> Any:
        value = root(frame)
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
    """What the key leads to, or a Fault."""
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
    """What the key leads to; None: there is no such thing."""
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
    if key.__class__ in (int, Uint):
        return int(key)
    return int(key) if key.__class__ is float and key == int(key) else None


def told(key: Any) -> str:
    return str(key).lower() if key.__class__ is bool else str(key)


def type_name(value: Any) -> str:
    """As errors name it."""
    if isinstance(value, Extension):
        return value.type.name
    return "map" if isinstance(value, dict) else NAMES[value.__class__]
