"""Fields and changes that an API server admits only with a feature gate.

Parity: what an object has already stays, whatever the gate: a gate may be switched off while objects use its fields.
"""

import json
from collections.abc import Iterator, Mapping

from mooring.api.api_errors import Cause, field_forbidden, field_unsupported
from mooring.api.json_objects import JsonObject, at
from mooring.api.kind_spec import KindSpec
from mooring.api.kinds.pods import POD
from mooring.api.kinds.scheduling import POD_GROUP
from mooring.api.kinds.storage import PERSISTENT_VOLUME
from mooring.apiserver.admission.group_priority import priority_faults
from mooring.apiserver.admission.lookups import Lookups
from mooring.rules.gated_fields import TOLERATION_OPERATORS, gated_operators

CLEARING_GATE = "ClearingNominatedNodeNameAfterBinding"
"""The gate by which a pod loses its nomination when it is bound, and gets none afterwards."""
NODE_AFFINITY_GATE = "MutablePVNodeAffinity"
"""Whether the node affinity of a PersistentVolume may change once it is set."""

_GA_LABELS = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
    "beta.kubernetes.io/instance-type": "node.kubernetes.io/instance-type",
    "beta.kubernetes.io/arch": "kubernetes.io/arch",
    "beta.kubernetes.io/os": "kubernetes.io/os",
}
"""Beta label -> the same label since it is stable: affinities may go from one to the other."""


def new_gated_faults(resource: KindSpec, item: JsonObject, cluster: Lookups) -> list[Cause]:
    """Faults of a new object."""
    return [*_comparisons(resource, {}, item, cluster.gates), *_of_groups(resource, item)]


def changed_gated_faults(resource: KindSpec, old: JsonObject, new: JsonObject, cluster: Lookups) -> list[Cause]:
    """Faults of a change."""
    return [*_comparisons(resource, old, new, cluster.gates), *_moved_volume(resource, old, new, cluster.gates)]


def status_gated_faults(resource: KindSpec, old: JsonObject, new: JsonObject, cluster: Lookups) -> list[Cause]:
    """Faults of a change of the status: a pod that has its node is nominated to none."""
    if resource is not POD or not cluster.gates.get(CLEARING_GATE, True) or not at(old, "spec.nodeName"):
        return []
    after = at(new, "status.nominatedNodeName", "")
    if not after or after == at(old, "status.nominatedNodeName", ""):
        return []
    return [field_forbidden("status.nominatedNodeName", "may not be set on pods that are already bound to a node")]


def _of_groups(resource: KindSpec, item: JsonObject) -> list[Cause]:
    """Fields of pod groups, which were dropped where their gate is off."""
    return priority_faults(item["spec"]) if resource is POD_GROUP else []


def _comparisons(resource: KindSpec, old: JsonObject, new: JsonObject, gates: Mapping[str, bool]) -> Iterator[Cause]:
    """Tolerations of pods and pod templates that compare numbers."""
    path = _spec_of_pods(resource)
    if not path or any(gated_operators(at(old, path, {}), gates)):
        return
    for place, operator in gated_operators(at(new, path, {}), gates):
        yield field_unsupported(f"{path}.{place}", operator, TOLERATION_OPERATORS)


def _spec_of_pods(resource: KindSpec) -> str:
    if resource is POD:
        return "spec"
    return "spec.template.spec" if resource.has_pod_template else ""


def _moved_volume(resource: KindSpec, old: JsonObject, new: JsonObject, gates: Mapping[str, bool]) -> Iterator[Cause]:
    """A volume that says which nodes reach it says so for good, unless the gate is on."""
    if resource is not PERSISTENT_VOLUME or gates.get(NODE_AFFINITY_GATE, False):
        return
    before, after = old["spec"].get("nodeAffinity"), new["spec"].get("nodeAffinity")
    if before is None or before == after or _with_ga_labels(before) == after:
        return
    why = "field is immutable, except for updating from beta label to GA"
    yield Cause("FieldValueInvalid", f"Invalid value: {_in_go(after)}: {why}", "nodeAffinity")


def _with_ga_labels(affinity: JsonObject) -> JsonObject:
    """The affinity with the stable names of its labels."""
    text = json.dumps(affinity)
    made: JsonObject = json.loads(text, object_hook=_ga_key)
    return made


def _ga_key(entry: JsonObject) -> JsonObject:
    return {**entry, "key": _GA_LABELS.get(entry["key"], entry["key"])} if "key" in entry else entry


def _in_go(value: object) -> str:
    """Parity: the server shows its own type, whose fields begin with capitals."""

    def capitals(entry: JsonObject) -> JsonObject:
        return {key[:1].upper() + key[1:]: held for key, held in entry.items()}

    return json.dumps(json.loads(json.dumps(value), object_hook=capitals), separators=(",", ":"))
