"""A kubeconfig as a tree of YAML nodes: entries come and go, and the text of all others stays as it is written.

Values would not do: a token `012` is a number to YAML, and would come out as another one.
"""

from typing import Any

import yaml

CURRENT = "current-context"
SECTIONS = ("clusters", "users", "contexts")
_NEW = {"apiVersion": "v1", "kind": "Config"}
_MEANINGLESS = frozenset(("apiVersion", "kind", "preferences", CURRENT, *SECTIONS))
"""What a file may have though nobody has put anything into it."""

_ONE_LINE = 1 << 20


class Tree:
    """`text` must be that of a kubeconfig; an empty one begins a new file."""

    def __init__(self, text: bytes) -> None:
        root = yaml.compose(text)
        self._root = root if isinstance(root, yaml.MappingNode) else _node(_NEW)

    def text(self) -> str:
        written: str = yaml.serialize(self._root, width=_ONE_LINE, allow_unicode=True)
        return written

    @property
    def current_context(self) -> str:
        found = _plain(_value(self._root, CURRENT))
        return found if isinstance(found, str) else ""

    @current_context.setter
    def current_context(self, name: str) -> None:
        _put(self._root, CURRENT, yaml.compose(yaml.safe_dump(name)))

    def names(self, section: str) -> list[str]:
        return [_name(entry) for entry in self._entries(section)]

    def find(self, section: str, name: str) -> dict[str, Any]:
        """The entry of that name as values, every scalar as text; empty: there is none."""
        found = next((_plain(entry) for entry in self._entries(section) if _name(entry) == name), None)
        return found if isinstance(found, dict) else {}

    def append(self, section: str, entry: dict[str, Any]) -> None:
        held = _value(self._root, section)
        if not isinstance(held, yaml.SequenceNode):  # kubectl writes null for none
            held = yaml.SequenceNode("tag:yaml.org,2002:seq", [], flow_style=False)
            _put(self._root, section, held)
        held.value.append(_node(entry))

    def remove(self, section: str, name: str) -> None:
        held = _value(self._root, section)
        if isinstance(held, yaml.SequenceNode):
            held.value = [entry for entry in held.value if _name(entry) != name]

    def is_empty(self) -> bool:
        """Whether nobody would miss the file."""
        keys = {key.value for key, _ in self._root.value}
        return keys <= _MEANINGLESS and not self.current_context and not any(map(self._entries, SECTIONS))

    def _entries(self, section: str) -> list[yaml.Node]:
        held = _value(self._root, section)
        return list(held.value) if isinstance(held, yaml.SequenceNode) else []


def _node(value: dict[str, Any]) -> yaml.MappingNode:
    made = yaml.compose(yaml.safe_dump(value, sort_keys=False, width=_ONE_LINE))
    assert isinstance(made, yaml.MappingNode)
    return made


def _value(mapping: yaml.MappingNode, key: str) -> yaml.Node | None:
    """Of a key that is there twice the last counts, as for the loader."""
    return next((value for held, value in reversed(mapping.value) if held.value == key), None)


def _put(mapping: yaml.MappingNode, key: str, value: yaml.Node | None) -> None:
    for place in reversed(range(len(mapping.value))):
        if mapping.value[place][0].value == key:
            mapping.value[place] = (mapping.value[place][0], value)
            return
    mapping.value.append((yaml.ScalarNode("tag:yaml.org,2002:str", key), value))


def _name(entry: yaml.Node) -> str:
    found = _value(entry, "name") if isinstance(entry, yaml.MappingNode) else None
    return str(found.value) if isinstance(found, yaml.ScalarNode) else ""


def _plain(node: yaml.Node | None) -> Any:
    if isinstance(node, yaml.MappingNode):
        return {str(key.value): _plain(value) for key, value in node.value}
    if isinstance(node, yaml.SequenceNode):
        return [_plain(item) for item in node.value]
    return str(node.value) if node is not None and not node.tag.endswith(":null") else None
