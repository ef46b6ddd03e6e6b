"""`what_if`: makes changes to a cluster one after another, and compares it with the cluster without them."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from mooring.answers.trial.changing_cluster import ChangingCluster, moment_of
from mooring.answers.trial.changing_nodes import (
    copy_daemons,
    cordon,
    drain,
    equipment_of,
    equipped,
    evict_intolerant,
    free_names,
    node_like,
    remove_nodes,
    sync_daemons,
)
from mooring.answers.trial.node_prices import NO_PRICES, unpriced
from mooring.answers.what_if.difference import WhatIf, difference
from mooring.answers.what_if.targets import is_selector, nodes_of, reject, whole
from mooring.answers.what_if.workload_changes import apply, delete, scale
from mooring.api.kinds import node_name
from mooring.api.validation.field_rules import label_key, label_value
from mooring.api.validation.problem import Problem, show
from mooring.framework.config import ConfigError
from mooring.framework.config.types import KubeSchedulerConfiguration
from mooring.inputs.configuration_files import configuration_of
from mooring.inputs.field_checks import Validation
from mooring.inputs.input_errors import InputError
from mooring.inputs.loaded_cluster import Config, LoadedCluster, read_objects
from mooring.inputs.manifests import ReadOptions
from mooring.inputs.offers.price_list import PriceList
from mooring.kit.words import alike, count, did_you_mean, similar, some
from mooring.model.meta import KubeObject
from mooring.model.node import NO_EXECUTE, NO_SCHEDULE, PREFER_NO_SCHEDULE, Node, Taint

Change = tuple[str, Any]
"""The name of a change and its value: the text that the option of that name takes on the command line, or a dictionary
instead of a file."""


def what_if(
    loaded: LoadedCluster,
    changes: Iterable[Change],
    validation: Validation = Validation.STRICT,
    prices: PriceList = NO_PRICES,
) -> WhatIf:
    """The difference that changes make, each after the one before it has come to rest.

        what_if(loaded, [("drain", "topology.kubernetes.io/zone=a"), ("add-nodes", "3=node-7")])

    First the scheduler tries what is pending, so that differences come from the changes alone. `validation` is for unknown
    fields of manifests that changes name. Raises InputError for a change that cannot be made, ConfigError for a configuration
    of the cluster that cannot be built.
    """
    return what_if_after(ChangingCluster(loaded, validation, prices=prices), changes)


def what_if_after(cluster: ChangingCluster, changes: Iterable[Change]) -> WhatIf:
    """`what_if` with a cluster that the caller looks at afterwards. It must be new."""
    wanted = [*changes]
    _note_input(cluster)
    cluster.settle()
    cluster.preempted.clear()
    cluster.gone.clear()
    before = moment_of(cluster)
    for name, value in wanted:
        _make(cluster, name, value)
        cluster.settle()
    cluster.note_faults()
    _note_prices(cluster)
    return difference([described(*change) for change in wanted], before, cluster, moment_of(cluster))


def described(name: str, value: Any) -> str:
    """A change in a line: `drain node-1`."""
    if isinstance(value, tuple) and len(value) == 2:
        value = f"{value[0]}={value[1] if isinstance(value[1], str) else 'a Node'}"
    return f"{name} {value}" if isinstance(value, str | os.PathLike) else name


def _make(cluster: ChangingCluster, name: str, value: Any) -> None:
    """Make one change. Problems that are not of a file name the change."""
    make = CHANGES.get(name.replace("_", "-"))
    if make is None:
        meant = did_you_mean(similar(name, CHANGES, 1))
        raise InputError([Problem("", f"no change {name!r}; the changes are {', '.join(CHANGES)}{meant}")])
    try:
        if not isinstance(value, str) and name not in _OF_DATA:
            reject(f"{show(value)} must be a text, as the option of `mooring what-if` takes it")
        make(cluster, value)
    except InputError as error:
        where = described(name, value)
        raise InputError([each if each.file else each.at(where) for each in error.problems]) from None


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


def _use_config(cluster: ChangingCluster, value: Config | KubeSchedulerConfiguration) -> None:
    """Go on with another configuration of the scheduler. Raises InputError."""
    where = os.fspath(value) if isinstance(value, str | os.PathLike) else "configuration"
    try:
        if not isinstance(value, KubeSchedulerConfiguration):
            value = configuration_of(value, cluster.loaded.gates)
        cluster.use(value)
    except ConfigError as error:
        raise InputError([Problem("", str(problem), file=where) for problem in error.problems]) from None


CHANGES: Mapping[str, Callable[[ChangingCluster, Any], None]] = {
    "drain": lambda cluster, value: drain(cluster, nodes_of(cluster, value)),
    "cordon": lambda cluster, value: cordon(cluster, nodes_of(cluster, value)),
    "uncordon": lambda cluster, value: cordon(cluster, nodes_of(cluster, value), False),
    "remove-nodes": lambda cluster, value: remove_nodes(cluster, nodes_of(cluster, value)),
    "add-nodes": add_nodes,
    "scale": scale,
    "apply": apply,
    "delete": delete,
    "config": _use_config,
    "taint": taint,
    "label": label,
}
"""The changes by name, in the order of the help text."""
_OF_DATA = ("add-nodes", "add_nodes", "apply", "config")
"""Changes that take dictionaries as well; all others take a text."""


def _note_input(cluster: ChangingCluster) -> None:
    """Note what the reader should know about the input."""
    simulated = cluster.simulated
    if simulated.unasked:
        cluster.note(f"{count(len(simulated.unasked), 'extender')} of the configuration not called")
    table = simulated.cluster.nodes
    lost = sum(len(table.pods_on[row]) for row in table.row_book.values() if not table.alive[row])
    if lost:
        cluster.note(f"{count(lost, 'pod')} on nodes that are not in the input")


def _note_prices(cluster: ChangingCluster) -> None:
    """Note which nodes have no price, if others have one or prices were given."""
    nodes = cluster.driver.nodes()
    missing = unpriced(nodes, cluster.prices)
    if missing and (cluster.prices.by_name or cluster.prices.rows or len(missing) < len(nodes)):
        cluster.note(f"no costs: {count(len(missing), 'node')} without a price ({some(missing)})")
