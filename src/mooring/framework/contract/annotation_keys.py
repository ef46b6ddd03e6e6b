"""Which annotations plugins read: keys that they declare, and how plugins are found that read some and declare none.

Annotations are free text, and people put secrets into them. So dumps and recordings keep only those that a decision reads. A
plugin declares its keys on its class, `annotations = ("example.com/watts", "power.example.com/*")`.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any

WILDCARD = "*"
_ATTRIBUTE = "annotations"
_OF_SHAPE = "shape_annotations"


@dataclass(frozen=True, slots=True)
class AnnotationKeys:
    """A set of keys, written as patterns: an exact key, or the beginning of keys with a * at its end."""

    exact: frozenset[str] = frozenset()
    prefixes: tuple[str, ...] = ()

    @classmethod
    def of(cls, patterns: Iterable[str]) -> "AnnotationKeys":
        """The keys of the patterns. Raises ValueError for a pattern that is empty, or has a * elsewhere than at its end."""
        exact, prefixes = set(), set()
        for pattern in patterns:
            if not isinstance(pattern, str) or not pattern or WILDCARD in pattern[:-1]:
                raise ValueError(f"{pattern!r} is no annotation key: write a key, or its beginning with a * at the end")
            if pattern.endswith(WILDCARD):
                prefixes.add(pattern.removesuffix(WILDCARD))
            else:
                exact.add(pattern)
        return cls(frozenset(exact), tuple(sorted(prefixes)))

    def __contains__(self, key: str) -> bool:
        return key in self.exact or key.startswith(self.prefixes)

    def __or__(self, other: "AnnotationKeys") -> "AnnotationKeys":
        return AnnotationKeys.of([*self.patterns(), *other.patterns()])

    def __bool__(self) -> bool:
        return bool(self.exact or self.prefixes)

    def patterns(self) -> list[str]:
        """The patterns, sorted."""
        return sorted((*self.exact, *(f"{prefix}{WILDCARD}" for prefix in self.prefixes)))

    def missing_in(self, kept: "AnnotationKeys") -> list[str]:
        """The patterns whose keys are not all among those that were kept."""
        return [pattern for pattern in self.patterns() if pattern.removesuffix(WILDCARD) not in kept._covering(pattern)]

    def _covering(self, pattern: str) -> "AnnotationKeys":
        """The keys that can cover a pattern: a prefix is covered by prefixes alone."""
        return AnnotationKeys(prefixes=self.prefixes) if pattern.endswith(WILDCARD) else self


def declared_keys(plugin: object) -> AnnotationKeys:
    """The keys that a plugin class declares; none for a factory that is no class. Raises ValueError for another form."""
    keys: list[str] = []
    for attribute in (_ATTRIBUTE, _OF_SHAPE):
        declared = getattr(plugin, attribute, ())
        if isinstance(declared, str) or not isinstance(declared, Iterable):
            raise ValueError(
                f"{attribute} is {declared!r}: write a tuple of keys, such as {attribute} = ({declared!r},)"
            )
        keys += declared
    return AnnotationKeys.of(keys)


def reads_annotations(plugin: type) -> bool:
    """Whether the code of a plugin class, or of what its module defines, names an attribute `annotations`: then it probably
    reads some."""
    root = _root(plugin)
    own = [each for each in plugin.__mro__ if _root(each) == root]
    methods = [each for cls in own for each in vars(cls).values() if isinstance(each, FunctionType)]
    scopes = {id(each.__globals__): each.__globals__ for each in methods}.values()
    beside = [each for scope in scopes for each in scope.values() if isinstance(each, FunctionType | type)]
    found = [*own, *(each for each in beside if _root(each) == root)]
    return any(_ATTRIBUTE in names for each in found for code in _codes(each) for names in _names(code))


def _root(item: Any) -> str:
    """The package, or the module that is in none, where a class or function is defined."""
    return str(item.__module__).partition(".")[0]


def _codes(item: Any) -> Iterator[CodeType]:
    """The code of a function, a property, a class method, or of all these in a class."""
    if isinstance(item, type):
        for inner in vars(item).values():
            if not isinstance(inner, type):
                yield from _codes(inner)
        return
    for function in (item, getattr(item, "__func__", None), getattr(item, "fget", None)):
        if isinstance(function, FunctionType):
            yield function.__code__


def _names(code: CodeType) -> Iterator[tuple[str, ...]]:
    """The names of attributes and variables that code uses, and those of the functions inside of it."""
    yield code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
