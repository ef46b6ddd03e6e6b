"""The changes of a what-if question as the page sends them: texts. They never name files of the machine that answers."""

from collections.abc import Mapping
from typing import Any

from mooring.answers.trial.changing_cluster import ChangingCluster
from mooring.answers.trial.node_prices import NO_PRICES
from mooring.answers.what_if.question import CHANGES, Change, what_if_after
from mooring.answers.what_if.workload_changes import reject
from mooring.api.validation.problem import Problem
from mooring.dashboard.interfaces import AskedChange, AskedChanges
from mooring.dashboard.slices import at_once
from mooring.dashboard.views.node_map import map_nodes, use_of
from mooring.framework import config as configuration
from mooring.inputs.input_errors import InputError
from mooring.inputs.loaded_cluster import LoadedCluster
from mooring.inputs.offers.price_list import PriceList
from mooring.kit.yaml_reader import YamlFault, keep_last, read_documents

MAX_CHANGES = 100
"""Largest number of changes in one question. After each change the cluster is simulated until nothing moves."""


def what_if_content(loaded: LoadedCluster, asked: AskedChanges, prices: PriceList = NO_PRICES) -> dict[str, Any]:
    """The answer of `mooring what-if -o json`, and the map of the nodes afterwards. Raises InputError, ConfigError."""
    changes = [prepared(loaded, each) for each in _checked(asked)]
    cluster = ChangingCluster(loaded, reads_files=False, prices=prices)
    answer = what_if_after(cluster, changes)
    return {"answer": answer.to_dict(), "after": _after(cluster)}


def _checked(asked: AskedChanges) -> list[AskedChange]:
    changes = [*asked.changes]
    if not changes:
        reject(f"no change: name at least one, such as drain NODE; the changes are {', '.join(CHANGES)}")
    if len(changes) > MAX_CHANGES:
        reject(f"{len(changes)} changes; one question takes at most {MAX_CHANGES}")
    return changes


def prepared(loaded: LoadedCluster, asked: AskedChange) -> Change:
    """A change as the answer takes it: text of manifests and configurations is read here."""
    name, value = asked.change, asked.value
    if name == "config":
        return name, configuration.load(value, "configuration", feature_gates=loaded.gates)
    if name == "apply":
        return name, _objects(name, value)
    number, sign, template = value.partition("=")
    if name == "add-nodes" and sign and "\n" in template.strip():
        return name, (number, _one_object(template))
    return name, value


def _one_object(text: str) -> Mapping[str, Any]:
    found = _objects("add-nodes", text)
    if len(found) != 1:
        raise InputError([Problem("", f"the template has {len(found)} objects; write one Node", where="add-nodes")])
    return found[0]


def _objects(change: str, text: str) -> list[Mapping[str, Any]]:
    """The documents of YAML or JSON text. Raises InputError."""
    try:
        documents = [each for each in read_documents(text, on_repeat=keep_last) if each is not None]
    except YamlFault as fault:
        where = f"{change}, line {fault.line}, column {fault.column}"
        raise InputError([Problem("", str(fault), where=where)]) from None
    found = [each for each in documents if isinstance(each, Mapping)]
    if len(found) < len(documents) or not found:
        raise InputError([Problem("", "the text must be objects in YAML or JSON", where=change)])
    return found


def _after(cluster: ChangingCluster) -> dict[str, Any]:
    """The nodes afterwards, in the form of the stream's events `nodes` and `use`."""
    table = cluster.simulated.cluster.nodes
    mapped = at_once(map_nodes(table, 0))
    use = use_of(table, mapped, "")
    return {"names": mapped.map.names, "resources": mapped.map.resources, "use": use.use, "pods": use.pods}
