"""Copies of objects with new names, by the rules for every field that holds text.

A field of text without a rule is an error, so a field that is new in the model cannot leak: somebody has to decide.
"""

from collections.abc import Iterator
from functools import cache
from typing import Any, TypeVar, get_args, get_type_hints

import msgspec

from mooring.inputs.dumps.name_book import NameBook
from mooring.inputs.dumps.public_words import public_owner
from mooring.inputs.dumps.rename_rules import NUMERIC_OPERATORS, RULES, Rule, word
from mooring.model import storage
from mooring.model.meta import KubeObject, OwnerReference, Requirement, Wire
from mooring.model.pod_spec import Toleration
from mooring.model.workloads import Namespace, PriorityClass

W = TypeVar("W", bound=Wire)

# ---- structs whose fields depend on each other


def _requirement(book: NameBook, item: Requirement) -> Requirement:
    """`metadata.name` is a field of nodes, and its values are their names. Numbers that are compared stay."""
    values = item.values
    if item.operator in NUMERIC_OPERATORS:
        book.compared_keys.add(item.key)
        book.numbers.update(values or ())
    if values is not None:
        is_name = item.key == "metadata.name"
        values = [book.name(text) if is_name else book.value_of(item.key, text) for text in values]
    return Requirement(key=book.key(item.key), operator=word(book, item.operator), values=values)


def _toleration(book: NameBook, item: Toleration) -> Toleration:
    if item.operator in NUMERIC_OPERATORS:
        book.compared_keys.add(item.key)
        book.numbers.add(item.value)
    key, value = book.key(item.key), book.value(item.value)
    operator, effect = word(book, item.operator), word(book, item.effect)
    return msgspec.structs.replace(item, key=key, value=value, operator=operator, effect=effect)


def _topology(book: NameBook, item: storage.TopologyRequirement) -> storage.TopologyRequirement:
    values = None if item.values is None else [book.value_of(item.key, text) for text in item.values]
    return storage.TopologyRequirement(key=book.key(item.key), values=values)


def _owner(book: NameBook, item: OwnerReference) -> OwnerReference:
    """The kinds of custom resources are names too."""
    api_version, kind = item.api_version, item.kind
    if not public_owner(api_version, kind):
        api_version, kind = f"{book.name(api_version.partition('/')[0])}/v1", book.name(kind)
    name, uid = book.name(item.name), book.name(item.uid)
    return OwnerReference(api_version=api_version, kind=kind, name=name, uid=uid, controller=item.controller)


SPECIAL: dict[type[Wire], Rule] = {
    Requirement: _requirement,
    Toleration: _toleration,
    storage.TopologyRequirement: _topology,
    OwnerReference: _owner,
}


# ---- renaming


def renamed(book: NameBook, item: W) -> W:
    """A copy with new names; while the book is open, it only notes the names."""
    special = SPECIAL.get(type(item))
    if special is not None:
        copy: W = special(book, item)
        return copy
    fields = {name: getattr(item, name) for name in item.__struct_fields__}
    own = _own_name(book, item) if isinstance(item, KubeObject) else None
    if own is not None:
        fields["metadata"] = msgspec.structs.replace(fields["metadata"], name="")
    for name, rule in rules_of(type(item)):
        held = fields[name]
        if held is not None and held != "":
            fields[name] = rule(book, held)
    if own is not None:
        fields["metadata"] = msgspec.structs.replace(fields["metadata"], name=own)
    return type(item)(**fields)


def _own_name(book: NameBook, item: KubeObject) -> str | None:
    """Namespaces and classes may have a name that every cluster has; claims may be named after a pod and its volume. None
    for kinds whose names are like any others."""
    match item:
        case Namespace() | PriorityClass() | storage.StorageClass():
            return book.public_name(item.name)
        case storage.PersistentVolumeClaim():
            return book.claim(item.name)
        case storage.CSIDriver():
            return book.driver(item.name)
    return None


@cache
def rules_of(struct: type[Wire]) -> tuple[tuple[str, Rule], ...]:
    """The rules for the fields of a struct. Raises LookupError for text without a rule."""
    if struct in SPECIAL:
        return ()
    written, found = RULES.get(struct, {}), []
    for name, hint in get_type_hints(struct).items():
        rule = written.get(name)
        if rule is None and holds_text(hint):
            raise LookupError(f"{struct.__name__}.{name} holds text, and no rule says whether to rename it")
        if rule is not None:
            found.append((name, rule))
        if any(_structs(hint)):
            found.append((name, _inner))
    return tuple(found)


def _inner(book: NameBook, value: Any) -> Any:
    """The value with the structs in it renamed."""
    if isinstance(value, Wire):
        return renamed(book, value)
    if isinstance(value, list):
        return [_inner(book, each) for each in value]
    if isinstance(value, dict):
        return {key: _inner(book, each) for key, each in value.items()}
    return value


def holds_text(hint: Any) -> bool:
    return hint in (str, Any) or any(map(holds_text, get_args(hint)))


def structs_in(struct: type[Wire]) -> list[type[Wire]]:
    """The structs that the fields of a struct hold."""
    return [each for hint in get_type_hints(struct).values() for each in _structs(hint)]


def _structs(hint: Any) -> Iterator[type[Wire]]:
    if isinstance(hint, type) and issubclass(hint, Wire):
        yield hint
    for part in get_args(hint):
        yield from _structs(part)
