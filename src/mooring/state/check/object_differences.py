"""Compares the objects that two clusters have, by their versions."""

from collections.abc import Iterator

from mooring.cluster.cluster import Cluster
from mooring.model.meta import KubeObject
from mooring.model.node import Node
from mooring.state.check.difference import Findings, StateDifference, in_batches


def compare_objects(running: Cluster, fresh: Cluster) -> Findings:
    """The objects that plugins look up, and nodes, by their versions."""
    for kind in running.objects:
        yield from _compare_kind(kind, running, fresh)
    names = list(running.nodes.row_book.keys() | fresh.nodes.row_book.keys())
    yield from in_batches(names, lambda name: _object(Node, name, _node(running, name), _node(fresh, name)))


def _compare_kind(kind: type[KubeObject], running: Cluster, fresh: Cluster) -> Findings:
    ours, theirs = running.objects[kind], fresh.objects[kind]
    yield from in_batches(
        list(ours.keys() | theirs.keys()), lambda key: _object(kind, key, ours.get(key), theirs.get(key))
    )


def _node(cluster: Cluster, name: str) -> Node | None:
    row = cluster.nodes.row_book.get(name)
    return None if row is None else cluster.nodes.nodes[row]


def _object(
    kind: type[KubeObject], key: str, believed: KubeObject | None, fresh: KubeObject | None
) -> Iterator[StateDifference]:
    if believed is not fresh and version_of(believed) != version_of(fresh):
        yield StateDifference("object", kind, key, "version", version_of(believed), version_of(fresh))


def version_of(item: KubeObject | None) -> str:
    """Identity and version of an object, in words."""
    return (
        "there is none"
        if item is None
        else f"{item.metadata.resource_version or 'unversioned'} of {item.uid or item.key}"
    )
