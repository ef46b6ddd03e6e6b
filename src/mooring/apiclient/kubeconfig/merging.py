"""Adds one context to a kubeconfig file that belongs to its user, and takes it out again.

Everything else in the file stays as it is written, comments aside. A marker in the context, which kubectl keeps, says
that the context is ours, and which one was current before. Contexts of clusters that were killed are taken out by the
next one that comes.
"""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from mooring.apiclient.credentials.file_locks import PATIENCE_S, FileLocked, locked
from mooring.apiclient.credentials.private_files import write_private
from mooring.apiclient.kubeconfig.files import KubeconfigError, check_kubeconfig
from mooring.apiclient.kubeconfig.tree import SECTIONS, Tree
from mooring.apiclient.kubeconfig.writing import Login, kubeconfig_entries

MARKER = "mooring.dev/up"
"""The name of the extension that marks a context."""

_CONNECT_S = 1.0
"""Clusters of ours are on loopback, where a connection takes no time; a file may name anything."""


@dataclass(frozen=True, slots=True)
class KubeconfigMark:
    """What the extension of a context of ours holds."""

    cluster_id: str
    previous: str
    """The context that was current before; empty: none was."""


def add_context(path: Path, login: Login, cluster_id: str, patience_s: float = PATIENCE_S) -> str:
    """Add a context for the login and make it the current one. Returns its name: the login's, with a number if taken.

    Raises KubeconfigError; the file is left as it was then.
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
    """Take the context out, if it is still that of this cluster. Raises KubeconfigError.

    `removes_empty` removes the file as well where nothing else is in it.
    """
    if not path.exists():
        return
    with _changed(path, PATIENCE_S, removes_empty) as tree:
        mark = _mark_of(tree.find("contexts", name))
        if mark is not None and mark.cluster_id == cluster_id:
            _drop(tree, name, mark)


@contextmanager
def _changed(path: Path, patience_s: float, removes_empty: bool = False) -> Iterator[Tree]:
    """The file as a tree, which is written when the block ends."""
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


# ---- contexts of ours


def _extension(mark: KubeconfigMark) -> dict[str, Any]:
    return {"name": MARKER, "extension": {"cluster-id": mark.cluster_id, "previous-context": mark.previous}}


def _mark_of(entry: dict[str, Any]) -> KubeconfigMark | None:
    """None: someone else made the context."""
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
    """Contexts of clusters that ended without taking them out, as when they were killed.

    Each is looked at as it is now: dropping one may change what another has as its previous context.
    """
    for name, _ in list(_marked(tree)):
        mark = _mark_of(tree.find("contexts", name))
        cluster = tree.find("clusters", name).get("cluster")
        server = str(cluster.get("server")) if isinstance(cluster, dict) else ""
        # We listen at our own address, so a cluster that had it before has ended.
        if mark is not None and (_address(server) == _address(our_server) or not _listens(server)):
            _drop(tree, name, mark)


def _drop(tree: Tree, name: str, mark: KubeconfigMark) -> None:
    """Without the context the one before it counts: now, or when a later one of ours ends."""
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
    """Host and port; without a port nothing of ours is meant."""
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
