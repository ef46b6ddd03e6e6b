"""What may change in a pod that exists."""

from typing import Any

import pytest

from mooring.apiserver.admission.pod_updates import update_faults

JsonObject = dict[str, Any]
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
GATES = [{"name": "a/b"}]
ZONE = {"key": "zone", "operator": "In", "values": ["a"]}
DISK = {"key": "disk", "operator": "Exists"}


def a_spec(**more: Any) -> JsonObject:
    return {"containers": [{"name": "c", "image": "a"}], "terminationGracePeriodSeconds": 30, **more}


def bound_to(*terms: list[JsonObject]) -> JsonObject:
    selector = {"nodeSelectorTerms": [{"matchExpressions": lines} for lines in terms]}
    return {"nodeAffinity": {REQUIRED: selector}}


def faults(old: JsonObject, new: JsonObject) -> list[str]:
    return [str(fault).partition("\n")[0] for fault in update_faults({"spec": old}, {"spec": new})]


ALLOWED = {
    "another image": (a_spec(), a_spec(containers=[{"name": "c", "image": "b"}])),
    "a deadline where there was none": (a_spec(), a_spec(activeDeadlineSeconds=5)),
    "an earlier deadline": (a_spec(activeDeadlineSeconds=9), a_spec(activeDeadlineSeconds=5)),
    "one more toleration": (a_spec(tolerations=[{"key": "a"}]), a_spec(tolerations=[{"key": "b"}, {"key": "a"}])),
    "another time to stay": (
        a_spec(tolerations=[{"key": "a", "effect": "NoExecute", "tolerationSeconds": 5}]),
        a_spec(tolerations=[{"key": "a", "effect": "NoExecute"}]),
    ),
    "a negative grace period becomes one second": (
        a_spec(terminationGracePeriodSeconds=-1),
        a_spec(terminationGracePeriodSeconds=1),
    ),
    "a gate goes": (a_spec(schedulingGates=GATES), a_spec()),
    "a gated pod gets a node selector": (
        a_spec(schedulingGates=GATES),
        a_spec(schedulingGates=GATES, nodeSelector={"a": "b"}),
    ),
    "a gated pod gets its first node affinity": (
        a_spec(schedulingGates=GATES),
        a_spec(schedulingGates=GATES, affinity=bound_to([ZONE])),
    ),
    "a gated pod gets one more line in a term": (
        a_spec(schedulingGates=GATES, affinity=bound_to([ZONE])),
        a_spec(schedulingGates=GATES, affinity=bound_to([ZONE, DISK])),
    ),
}


@pytest.mark.parametrize(("old", "new"), ALLOWED.values(), ids=ALLOWED)
def test_this_may_change(old: JsonObject, new: JsonObject) -> None:
    assert faults(old, new) == []


TERMS = f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms"
OTHER = (
    "spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing "
    "tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
REFUSED = {
    "one more container": (
        a_spec(),
        a_spec(containers=[{"name": "c"}, {"name": "d"}]),
        "spec.containers: Forbidden: pod updates may not add or remove containers",
    ),
    "a container's name": (a_spec(), a_spec(containers=[{"name": "d", "image": "a"}]), OTHER),
    "the node": (a_spec(), a_spec(nodeName="n"), OTHER),
    "a longer grace period": (a_spec(), a_spec(terminationGracePeriodSeconds=60), OTHER),
    "the node selector of a pod without gates": (a_spec(), a_spec(nodeSelector={"a": "b"}), OTHER),
    "node affinity of a pod without gates": (a_spec(), a_spec(affinity=bound_to([ZONE])), OTHER),
    "pod affinity of a gated pod": (
        a_spec(schedulingGates=GATES),
        a_spec(schedulingGates=GATES, affinity={"podAffinity": {}}),
        OTHER,
    ),
    "a later deadline": (
        a_spec(activeDeadlineSeconds=5),
        a_spec(activeDeadlineSeconds=9),
        "spec.activeDeadlineSeconds: Invalid value: 9: must be less than or equal to previous value",
    ),
    "no deadline any more": (
        a_spec(activeDeadlineSeconds=5),
        a_spec(),
        "spec.activeDeadlineSeconds: Invalid value: null: must not update from a positive integer to nil value",
    ),
    "a toleration less": (
        a_spec(tolerations=[{"key": "a"}]),
        a_spec(),
        "spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds",
    ),
    "another gate": (
        a_spec(schedulingGates=GATES),
        a_spec(schedulingGates=[{"name": "c/d"}]),
        "spec.schedulingGates[0].name: Forbidden: only deletion is allowed, but found new scheduling gate 'c/d'",
    ),
    "a node selector that widens": (
        a_spec(schedulingGates=GATES, nodeSelector={"a": "b"}),
        a_spec(schedulingGates=GATES, nodeSelector={"a": "c"}),
        'spec.nodeSelector: Invalid value: {"a":"c"}: only additions to spec.nodeSelector are allowed (no mutations or '
        "deletions)",
    ),
    "one more term": (
        a_spec(schedulingGates=GATES, affinity=bound_to([ZONE])),
        a_spec(schedulingGates=GATES, affinity=bound_to([ZONE], [DISK])),
        f"{TERMS}: Invalid value: ",
    ),
    "another line in a term": (
        a_spec(schedulingGates=GATES, affinity=bound_to([ZONE])),
        a_spec(schedulingGates=GATES, affinity=bound_to([DISK])),
        f"{TERMS}[0]: Invalid value: ",
    ),
}


@pytest.mark.parametrize(("old", "new", "fault"), REFUSED.values(), ids=REFUSED)
def test_this_may_not_change(old: JsonObject, new: JsonObject, fault: str) -> None:
    found = faults(old, new)
    assert len(found) == 1 and found[0].startswith(fault)


def test_the_message_shows_what_differs() -> None:
    [fault] = update_faults({"spec": a_spec()}, {"spec": a_spec(nodeName="n")})
    assert '+ "nodeName": "n",\n' in fault.message
