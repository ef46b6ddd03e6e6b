"""Calls of the Python interface: their arguments are checked before anything is done, and what is wrong is one InputError."""

import inspect
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, wraps
from numbers import Integral, Real
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from mooring.api.validation.problem import Problem, show
from mooring.framework.config import ConfigError
from mooring.framework.config.feature_gates import GateError
from mooring.framework.profile.registry import RegistryError
from mooring.inputs.input_errors import InputError

F = TypeVar("F", bound=Callable[..., Any])

_NUMBERS: Mapping[Any, type] = {int: Integral, float: Real}
"""Annotations that stand for more than their own class: numbers of NumPy are numbers too."""


def asks(**forms: str) -> Callable[[F], F]:
    """A call whose arguments must have the types of its annotations. `forms` says what each argument must be, for messages.

    Errors of lower layers (configuration, feature gates, plugins) become an InputError as well.
    """

    def decorate(function: F) -> F:
        @wraps(function)
        def asked(*args: Any, **kwargs: Any) -> Any:
            if problems := [*_problems(function, forms, args, kwargs)]:
                raise InputError(problems)
            try:
                return function(*args, **kwargs)
            except ConfigError as error:
                raise InputError(
                    [Problem("", str(problem), where="configuration") for problem in error.problems]
                ) from None
            except (GateError, RegistryError) as error:
                raise InputError(str(error)) from None

        return asked  # type: ignore[return-value]

    return decorate


def at_least_one(name: str, number: int | None) -> None:
    """Raises InputError for a number below 1."""
    if number is not None and number < 1:
        raise InputError([Problem(name, show(number), "at least 1")])


def _problems(
    function: Callable[..., Any], forms: Mapping[str, str], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Iterable[Problem]:
    """A problem for each argument that is not what its annotation says. An unknown argument is a TypeError, as in Python."""
    signature, hints = _annotated(function)
    for name, value in signature.bind(*args, **kwargs).arguments.items():
        is_many = signature.parameters[name].kind is inspect.Parameter.VAR_POSITIONAL
        for each in value if is_many else [value]:
            if name in hints and not fits(each, hints[name]):
                yield Problem(name, show(each), forms[name])


@cache
def _annotated(function: Callable[..., Any]) -> tuple[inspect.Signature, dict[str, Any]]:
    return inspect.signature(function), get_type_hints(function)


def fits(value: object, hint: Any) -> bool:
    """Whether a value has the type of an annotation. Items of iterators are not looked at: that would use them up."""
    origin, parts = get_origin(hint), get_args(hint)
    if hint is Any:
        return True
    if origin in (Union, types.UnionType):
        return any(fits(value, part) for part in parts)
    if origin is type:
        return isinstance(value, type) and any(issubclass(value, get_origin(part) or part) for part in parts)
    if origin is tuple:
        return isinstance(value, tuple) and len(value) == len(parts) and all(map(fits, value, parts))
    if origin is not None and issubclass(origin, Mapping):
        return isinstance(value, Mapping) and all(fits(k, parts[0]) and fits(v, parts[1]) for k, v in value.items())
    if origin is not None and issubclass(origin, Iterable):
        return _lists(value, parts[0], is_sized=issubclass(origin, Sequence))
    if isinstance(value, bool):
        return hint is bool
    return isinstance(value, _NUMBERS.get(hint, origin or hint))


def _lists(value: object, item: Any, is_sized: bool) -> bool:
    """Whether a value has several items. A text and a dictionary have some as well, but are never meant."""
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        return False
    if not hasattr(value, "__len__"):
        return not is_sized
    return all(fits(each, item) for each in value)
