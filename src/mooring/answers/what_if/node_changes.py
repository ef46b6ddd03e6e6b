"""Nodes are added, tainted and labelled."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from mooring.answers.trial.changing_cluster import ChangingCluster
from mooring.answers.trial.changing_nodes import (
    copy_daemons,
    equipment_of,
    equipped,
    evict_intolerant,
    free_names,
    node_like,
    sync_daemons,
)
from mooring.answers.what_if.targets import is_selector, nodes_of, reject, whole
from mooring.api.kinds import node_name
from mooring.api.validation.field_rules import label_key, label_value
from mooring.api.validation.problem import show
from mooring.inputs.input_errors import InputError
from mooring.inputs.loaded_cluster import read_objects
from mooring.inputs.manifests import ReadOptions
from mooring.kit.words import alike
from mooring.model.meta import KubeObject
from mooring.model.node import NO_EXECUTE, NO_SCHEDULE, PREFER_NO_SCHEDULE, Node, Taint

_EFFECTS = (NO_SCHEDULE, PREFER_NO_SCHEDULE, NO_EXECUTE)
_TAINT_FORM = "NODE|SELECTOR=key[=value]:Effect, with a - at the end to remove it"
_LABEL_FORM = "NODE|SELECTOR=key=value, or NODE|SELECTOR=key- to remove it"
MAX_NODES = 100_000
"""How many nodes one change may add: a typo must not fill the memory."""

# ---- new nodes


def add_nodes(cluster: ChangingCluster, value: str | tuple[int, str | Mapping[str, Any]]) -> None:
    """Add nodes like a template, with the DaemonSet pods that they would run."""
    count, template = _count_and_template(value)
    known = cluster.nodes()
    if isinstance(template, str) and node_name(template) in known:
        template = node_name(template)
    if isinstance(template, str) and template in known:
        names = free_names(f"{template}-new", count, known)
        copied = [*_copied(cluster, known[template], names)]
    else:
        node = _template(cluster, template)
        names = free_names(node.name, count, known)
        copied = [node_like(node, name) for name in names]
    for item in copied:
        cluster.driver.create(item)
    sync_daemons(cluster, names)
    if isinstance(template, str) and template in known:
        copy_daemons(cluster, template, names)


def _count_and_template(value: str | tuple[int, str | Mapping[str, Any]]) -> tuple[int, str | Mapping[str, Any]]:
    if isinstance(value, str):
        number, sign, template = value.partition("=")
        if not sign or not template:
            reject(f"{show(value)} must be N=TEMPLATE, such as 3=node-1 or 3=node.yaml")
        return whole(number, MAX_NODES), template
    if not isinstance(value, tuple) or len(value) != 2 or not isinstance(value[1], str | Mapping):
        reject(f"{show(value)} must be N=TEMPLATE, or a pair of a number and a node or a dictionary")
    return whole(str(value[0]), MAX_NODES), value[1]


def _template(cluster: ChangingCluster, template: str | Mapping[str, Any]) -> Node:
    """The Node of a file or a dictionary. Raises InputError."""
    if isinstance(template, str) and not (cluster.reads_files and os.path.exists(template)):
        nodes, nor = cluster.driver.nodes(), "neither a node of the cluster nor a file"
        told = nor if cluster.reads_files else "not a node of the cluster"
        reject(f"{show(template)} is {told}{alike(template, nodes)}")
    manifests = read_objects(template, ReadOptions(validation=cluster.validation))
    if manifests.problems:
        raise InputError(manifests.problems)
    found = [each.object for each in manifests.objects if isinstance(each.object, Node)]
    if len(found) != 1:
        reject(f"{show(template)} has {len(found)} Node manifests; write one")
    return found[0]


def _copied(cluster: ChangingCluster, template: Node, names: Sequence[str]) -> Iterator[KubeObject]:
    """New nodes like one of the cluster, with its devices and its limits of volumes."""
    equipment = [*equipment_of(template.name, cluster.driver.objects.values())]
    for name in names:
        yield node_like(template, name)
        yield from (equipped(item, name) for item in equipment)


# ---- taints and labels


def taint(cluster: ChangingCluster, value: str) -> None:
    """`TARGET=key[=value]:Effect` adds a taint or replaces its value; with a - at the end it is removed."""
    is_removed = value.endswith("-")
    pair, colon, effect = value.removesuffix("-").rpartition(":")
    if not colon and is_removed:
        pair, effect = value.removesuffix("-"), ""
    if "=" not in pair or (effect not in _EFFECTS and not (is_removed and not effect)):
        reject(f"{show(value)} must be {_TAINT_FORM}; the effects are {', '.join(_EFFECTS)}")
    target, key, written = _target_and_pair(cluster, pair)
    _check_pair(key, written)
    names = nodes_of(cluster, target)

    def tainted(node: Node) -> Node:
        same = {taint for taint in node.taints if taint.key == key and effect in ("", taint.effect)}
        kept = [taint for taint in node.taints if taint not in same]
        new = [] if is_removed else [Taint(key=key, value=written, effect=effect)]
        changed = msgspec.structs.replace(node.spec, taints=[*kept, *new] or None)
        return msgspec.structs.replace(node, spec=changed)

    _change(cluster, names, tainted)
    evict_intolerant(cluster, names)


def _target_and_pair(cluster: ChangingCluster, text: str) -> tuple[str, str, str]:
    """`TARGET=key=value` or `TARGET=key`, where TARGET may be `label=value` itself: the reading whose target is there."""
    parts = text.rsplit("=", 2)
    if len(parts) == 3 and (cluster.find("Node", node_name(parts[0])) is not None or is_selector(parts[0])):
        return parts[0], parts[1], parts[2]
    target, _, key = text.rpartition("=")
    return target, key, ""


def label(cluster: ChangingCluster, value: str) -> None:
    """`TARGET=key=value` sets a label, `TARGET=key-` removes it."""
    is_removed = value.endswith("-")
    parts = value.removesuffix("-").rsplit("=", 1 if is_removed else 2)
    if len(parts) != (2 if is_removed else 3):
        reject(f"{show(value)} must be {_LABEL_FORM}")
    target, key, written = (*parts, "")[:3]
    _check_pair(key, written)

    def labelled(node: Node) -> Node:
        labels = {name: held for name, held in node.labels.items() if name != key}
        labels |= {} if is_removed else {key: written}
        return msgspec.structs.replace(node, metadata=msgspec.structs.replace(node.metadata, labels=labels))

    _change(cluster, nodes_of(cluster, target), labelled)


def _check_pair(key: str, value: str) -> None:
    """Reject a key or value that the API server would not accept."""
    if problems := [*label_key("key", key), *label_value("value", value)]:
        raise InputError(problems)


def _change(cluster: ChangingCluster, names: Sequence[str], change: Callable[[Node], Node]) -> None:
    """Change nodes; DaemonSets may want pods on them now, or no longer."""
    for name in names:
        node = cluster.find("Node", name)
        if isinstance(node, Node):
            cluster.driver.update(change(node))
    sync_daemons(cluster, names)
