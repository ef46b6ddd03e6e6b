"""`what_if`: makes changes to a cluster one after another, and compares it with the cluster without them."""

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from mooring.answers.trial.changing_cluster import ChangingCluster, moment_of
from mooring.answers.trial.changing_nodes import cordon, drain, remove_nodes
from mooring.answers.trial.node_prices import NO_PRICES, unpriced
from mooring.answers.what_if.difference import WhatIf, difference
from mooring.answers.what_if.node_changes import add_nodes, label, taint
from mooring.answers.what_if.targets import nodes_of, reject
from mooring.answers.what_if.workload_changes import apply, delete, scale
from mooring.api.validation.problem import Problem, show
from mooring.framework.config import ConfigError
from mooring.framework.config.types import KubeSchedulerConfiguration
from mooring.inputs.configuration_files import configuration_of
from mooring.inputs.field_checks import Validation
from mooring.inputs.input_errors import InputError
from mooring.inputs.loaded_cluster import Config, LoadedCluster
from mooring.inputs.offers.price_list import PriceList
from mooring.kit.words import count, did_you_mean, similar, some

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
