"""How patches merge a list: what tells its items apart, as the tags in upstream's types.go say."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ListRule:
    """How the items of a list are told apart, for each of the two ways of merging."""

    patch_key: str | None = None
    """For strategic merge patches: a field of the items, empty for plain values, None if the list is replaced whole."""
    apply_keys: tuple[str, ...] | None = None
    """For server-side apply: fields of the items, none for plain values, None if the list is one value."""
    atomic_items: bool = False
    """For server-side apply: an item is owned as a whole."""


def by(key: str, *others: str, atomic_items: bool = False) -> ListRule:
    """Items are told apart by `key`; server-side apply looks at the other keys as well."""
    return ListRule(key, (key, *others), atomic_items)


BY_NAME = by("name")
BY_TYPE = by("type")
VALUES = ListRule("", ())
"""A list of plain values without repetition."""
