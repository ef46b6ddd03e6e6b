"""Writes kubeconfig files for the embedded API server: a file of its own, or a context in the user's file.

In the user's file all other entries keep their text; only comments are lost. An extension of the context, which kubectl
keeps, marks the context as Mooring's and names the context that was current before. A context that a killed cluster left
behind is removed by the next cluster.
"""

import base64
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from mooring.apiclient.kubeconfig.files import KubeconfigError, check_kubeconfig
from mooring.kit.private_files import PATIENCE_S, FileLocked, locked, write_private


@dataclass(frozen=True, slots=True)
class Login:
    """One server and one user. Without a token the user is anonymous."""

    server: str
    authority_pem: bytes = field(default=b"", repr=False)
    token: str = field(default="", repr=False)
    context: str = "mooring"
    namespace: str = ""


def write_kubeconfig(path: Path, login: Login) -> None:
    """Write a file with one context, which is the current one. Its mode is 0600, and it is replaced in one step."""
    write_private(path, kubeconfig_text(login).encode())


def kubeconfig_text(login: Login) -> str:
    entries = {section: [entry] for section, entry in kubeconfig_entries(login).items()}
    whole = {"apiVersion": "v1", "kind": "Config", "current-context": login.context, **entries}
    return yaml.safe_dump(whole, sort_keys=False, width=1 << 20)


def kubeconfig_entries(login: Login) -> dict[str, dict[str, Any]]:
    """The entries of clusters, users and contexts for a login."""
    name = login.context
    cluster: dict[str, Any] = {"server": login.server}
    if login.authority_pem:
        cluster["certificate-authority-data"] = base64.b64encode(login.authority_pem).decode()
    context: dict[str, Any] = {"cluster": name, "user": name}
    if login.namespace:
        context["namespace"] = login.namespace
    return {
        "clusters": {"name": name, "cluster": cluster},
        "users": {"name": name, "user": {"token": login.token} if login.token else {}},
        "contexts": {"name": name, "context": context},
    }


# ---- a kubeconfig as a tree of YAML nodes


CURRENT = "current-context"
SECTIONS = ("clusters", "users", "contexts")
_NEW = {"apiVersion": "v1", "kind": "Config"}
_MEANINGLESS = frozenset(("apiVersion", "kind", "preferences", CURRENT, *SECTIONS))
"""Keys that a file may have although it contains no cluster."""

_ONE_LINE = 1 << 20
"""The width of YAML lines, so that certificates are not wrapped."""


class Tree:
    """A kubeconfig as YAML nodes, in which entries are added and removed while all others keep their text.

    Values would not do: the token `012` is a number to YAML, and would be written as another number. `text` must be a
    kubeconfig; an empty text starts a new file.
    """

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
        """The entry of that name as values, with every scalar as text; empty if there is none."""
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
        """Whether the file contains nothing of use."""
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
    """The value of a key. Of a key that occurs twice the last counts, as for the loader."""
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


# ---- a context in the user's own file


MARKER = "mooring.dev/up"
"""The name of the extension that marks a context."""

_CONNECT_S = 1.0
"""How long to try whether a marked cluster still runs. It is on loopback, but a file may have been copied."""


@dataclass(frozen=True, slots=True)
class KubeconfigMark:
    """The content of the extension that marks a context."""

    cluster_id: str
    previous: str
    """The context that was current before; empty if there was none."""


def add_context(path: Path, login: Login, cluster_id: str, patience_s: float = PATIENCE_S) -> str:
    """Add a context for the login and make it current. Returns its name: the login's, with a number if that is taken.

    Raises KubeconfigError, and leaves the file unchanged then.
    """
    with _changed(path, patience_s) as tree:
        _drop_stale(tree, login.server)
        name = _free_name(tree, login.context)
        entries = kubeconfig_entries(replace(login, context=name))
        entries["contexts"]["context"]["extensions"] = [_extension(KubeconfigMark(cluster_id, tree.current_context))]
        for section in SECTIONS:
            tree.append(section, entries[section])
        tree.current_context = name
    return name


def remove_context(path: Path, name: str, cluster_id: str, removes_empty: bool = False) -> None:
    """Remove the context, if it still belongs to this cluster. Raises KubeconfigError.

    `removes_empty` removes the file too, if it contains nothing else.
    """
    if not path.exists():
        return
    with _changed(path, PATIENCE_S, removes_empty) as tree:
        mark = _mark_of(tree.find("contexts", name))
        if mark is not None and mark.cluster_id == cluster_id:
            _drop(tree, name, mark)


@contextmanager
def _changed(path: Path, patience_s: float, removes_empty: bool = False) -> Iterator[Tree]:
    """The locked file as a tree, which is written when the block ends without an error."""
    try:
        with locked(path, patience_s):
            tree = Tree(check_kubeconfig(path) if path.exists() else b"")
            before = tree.text()
            yield tree
            if removes_empty and tree.is_empty():
                path.resolve().unlink()
            elif tree.text() != before:
                write_private(path, tree.text().encode())
    except FileLocked as fault:
        raise KubeconfigError(path, "", str(fault)) from None
    except OSError as fault:
        raise KubeconfigError(path, "", f"cannot be changed: {fault.strerror}") from None


def _extension(mark: KubeconfigMark) -> dict[str, Any]:
    return {"name": MARKER, "extension": {"cluster-id": mark.cluster_id, "previous-context": mark.previous}}


def _mark_of(entry: dict[str, Any]) -> KubeconfigMark | None:
    """The mark of a context; None if Mooring did not create it."""
    context = entry.get("context")
    extensions = context.get("extensions") if isinstance(context, dict) else None
    for item in extensions if isinstance(extensions, list) else ():
        held = item.get("extension") if isinstance(item, dict) and item.get("name") == MARKER else None
        if isinstance(held, dict):
            return KubeconfigMark(str(held.get("cluster-id") or ""), str(held.get("previous-context") or ""))
    return None


def _marked(tree: Tree) -> Iterator[tuple[str, KubeconfigMark]]:
    for name in tree.names("contexts"):
        mark = _mark_of(tree.find("contexts", name))
        if mark is not None:
            yield name, mark


def _drop_stale(tree: Tree, our_server: str) -> None:
    """Remove contexts of clusters that were killed and could not remove them.

    Marks are read again in each step, because removing one context changes the `previous` of others.
    """
    for name, _ in list(_marked(tree)):
        mark = _mark_of(tree.find("contexts", name))
        cluster = tree.find("clusters", name).get("cluster")
        server = str(cluster.get("server")) if isinstance(cluster, dict) else ""
        # This process listens at its own address, so another cluster with that address has ended.
        if mark is not None and (_address(server) == _address(our_server) or not _listens(server)):
            _drop(tree, name, mark)


def _drop(tree: Tree, name: str, mark: KubeconfigMark) -> None:
    """Remove a context. Its previous context becomes current, or becomes the previous of a later context of Mooring."""
    for section in SECTIONS:
        tree.remove(section, name)
    previous = mark.previous if mark.previous in tree.names("contexts") else ""
    if tree.current_context == name:
        tree.current_context = previous
    for other, held in list(_marked(tree)):
        if held.previous == name:
            _mark_anew(tree, other, replace(held, previous=previous))


def _mark_anew(tree: Tree, name: str, mark: KubeconfigMark) -> None:
    entry = tree.find("contexts", name)
    others = [item for item in entry["context"]["extensions"] if item.get("name") != MARKER]
    entry["context"]["extensions"] = [*others, _extension(mark)]
    tree.remove("contexts", name)
    tree.append("contexts", entry)


def _free_name(tree: Tree, wanted: str) -> str:
    taken = {name for section in SECTIONS for name in tree.names(section)}
    name, number = wanted, 1
    while name in taken:
        number += 1
        name = f"{wanted}-{number}"
    return name


def _address(server: str) -> tuple[str, int]:
    """Host and port of a URL; the embedded server always has a port."""
    try:
        parts = urlsplit(server)
        return parts.hostname or "", parts.port or 0
    except ValueError:
        return "", 0


def _listens(server: str) -> bool:
    host, port = _address(server)
    if not host or not port:
        return False
    try:
        with socket.create_connection((host, port), _CONNECT_S):
            return True
    except OSError:
        return False
