"""Fields and changes that the API server admits only with a feature gate."""

from typing import Any

import pytest

from cluster_api import an_api
from mooring.api.api_errors import ApiError
from mooring.api.json_objects import JsonObject
from mooring.api.kind_spec import KindSpec
from mooring.api.kinds.pods import POD
from mooring.api.kinds.storage import PERSISTENT_VOLUME
from mooring.api.kinds.workloads import DEPLOYMENT
from mooring.apiserver.resource_api import ResourceApi

COMPARES = {"TaintTolerationComparisonOperators": True}
MOVES = {"MutablePVNodeAffinity": True}


def a_pod(operator: str = "Lt", value: str = "5", **toleration: Any) -> JsonObject:
    given = {"key": "level", "operator": operator, "value": value, **toleration}
    return {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}], "tolerations": [given]}}


def a_deployment(pod: JsonObject) -> JsonObject:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": pod["spec"]}
    return {"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}}


def faults_of(api: ResourceApi, resource: KindSpec, item: JsonObject) -> list[tuple[str, str]]:
    """What the server says of a new object: nothing if it admits it."""
    try:
        api.create(resource, "default", item)
    except ApiError as error:
        return [(cause["field"], cause["message"]) for cause in error.status()["details"]["causes"]]
    return []


@pytest.mark.parametrize("operator", ["Lt", "Gt"])
@pytest.mark.parametrize("value", ["0", "5", "-12", "9223372036854775807", "-9223372036854775808"])
def test_tolerations_compare_numbers_with_the_gate_only(operator: str, value: str) -> None:
    assert faults_of(an_api(gates=COMPARES), POD, a_pod(operator, value)) == []
    refused = f'Unsupported value: "{operator}": supported values: "Equal", "Exists", "Lt", "Gt"'
    assert faults_of(an_api(), POD, a_pod(operator, value)) == [("spec.tolerations[0].operator", refused)]


CANONICAL = "must be a valid decimal integer in canonical form"


@pytest.mark.parametrize(
    ("value", "rules"),
    [
        pytest.param("", ["must be non-empty", 'strconv.ParseInt: parsing "": invalid syntax'], id="nothing"),
        pytest.param("5x", [CANONICAL, 'strconv.ParseInt: parsing "5x": invalid syntax'], id="no number"),
        pytest.param("1.5", [CANONICAL, 'strconv.ParseInt: parsing "1.5": invalid syntax'], id="a fraction"),
        pytest.param("007", [CANONICAL], id="leading zeros"),
        pytest.param("+5", [CANONICAL], id="a plus sign"),
        pytest.param("-0", [CANONICAL], id="minus zero"),
        pytest.param(
            "9223372036854775808",
            ['strconv.ParseInt: parsing "9223372036854775808": value out of range'],
            id="one more than an int64 holds",
        ),
    ],
)
def test_numbers_that_no_taint_can_be_compared_with(value: str, rules: list[str]) -> None:
    found = faults_of(an_api(gates=COMPARES), POD, a_pod("Gt", value))
    assert found == [("spec.tolerations[0].value", f'Invalid value: "{value}": {rule}') for rule in rules]


def test_a_number_of_a_million_digits_is_refused_at_once() -> None:
    found = faults_of(an_api(gates=COMPARES), POD, a_pod("Gt", "9" * 1_000_000))
    assert [place for place, _ in found] == ["spec.tolerations[0].value"]


def test_comparisons_need_a_key() -> None:
    ((place, message),) = faults_of(an_api(gates=COMPARES), POD, a_pod("Lt", "5", key=""))
    assert place == "spec.tolerations[0].operator" and message.startswith('Invalid value: "Lt": ')


def test_templates_of_pods_have_the_same_rule() -> None:
    assert faults_of(an_api(gates=COMPARES), DEPLOYMENT, a_deployment(a_pod())) == []
    ((place, _),) = faults_of(an_api(), DEPLOYMENT, a_deployment(a_pod()))
    assert place == "spec.template.spec.tolerations[0].operator"


def test_a_pod_keeps_its_comparison_when_the_gate_is_switched_off() -> None:
    """A gate may be off again after a restart: such a pod can still be labelled."""
    api = an_api(gates=COMPARES)
    api.create(POD, "default", a_pod())
    api.lookups.gates.clear()  # type: ignore[attr-defined]
    labelled = api.change(
        POD, "default", "p", lambda pod: {**pod, "metadata": {**pod["metadata"], "labels": {"a": "b"}}}
    )
    assert labelled["metadata"]["labels"] == {"a": "b"}


# ---- MutablePVNodeAffinity


def an_affinity(value: str, key: str = "topology.kubernetes.io/zone") -> JsonObject:
    term = {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}
    return {"required": {"nodeSelectorTerms": [term]}}


def a_volume(affinity: JsonObject | None) -> JsonObject:
    spec: JsonObject = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "local": {"path": "/x"}}
    return {"metadata": {"name": "v"}, "spec": spec | ({"nodeAffinity": affinity} if affinity else {})}


def move(gates: dict[str, bool], before: JsonObject | None, after: JsonObject | None) -> str:
    """What the server says of a change of a volume's node affinity."""
    api = an_api(gates=gates)
    made = api.create(PERSISTENT_VOLUME, "", a_volume(before))
    spec = {key: value for key, value in made["spec"].items() if key != "nodeAffinity"}
    spec |= {"nodeAffinity": after} if after else {}
    try:
        api.change(PERSISTENT_VOLUME, "", "v", lambda volume: {**volume, "spec": spec})
    except ApiError as error:
        return str(error.status()["message"])
    return "ok"


def test_a_volume_moves_with_the_gate_only() -> None:
    assert move(MOVES, an_affinity("a"), an_affinity("b")) == "ok"
    assert move({}, an_affinity("a"), an_affinity("b")) == (
        'PersistentVolume "v" is invalid: nodeAffinity: Invalid value: '
        '{"Required":{"NodeSelectorTerms":[{"MatchExpressions":[{"Key":"topology.kubernetes.io/zone","Operator":"In",'
        '"Values":["b"]}]}]}}: field is immutable, except for updating from beta label to GA'
    )


@pytest.mark.parametrize(
    ("before", "after", "moves"),
    [
        pytest.param(None, an_affinity("a"), True, id="set for the first time"),
        pytest.param(an_affinity("a"), an_affinity("a"), True, id="not changed"),
        pytest.param(an_affinity("a"), None, False, id="taken away"),
        pytest.param(
            an_affinity("a", "failure-domain.beta.kubernetes.io/zone"),
            an_affinity("a"),
            True,
            id="from beta label to GA",
        ),
        pytest.param(
            an_affinity("a"), an_affinity("a", "failure-domain.beta.kubernetes.io/zone"), False, id="from GA to beta"
        ),
    ],
)
def test_what_may_change_without_the_gate(before: JsonObject | None, after: JsonObject | None, moves: bool) -> None:
    assert (move({}, before, after) == "ok") is moves


# ---- fields that are dropped, and what binding clears


def a_spread_pod() -> JsonObject:
    constraint = {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
        "matchLabelKeys": ["release"],
    }
    spec = {"containers": [{"name": "c", "image": "i"}], "topologySpreadConstraints": [constraint]}
    return {"metadata": {"name": "p", "labels": {"app": "web", "release": "1"}}, "spec": spec}


SPREAD = "MatchLabelKeysInPodTopologySpread"
RELEASE = [{"key": "release", "operator": "In", "values": ["1"]}]


@pytest.mark.parametrize(
    ("gates", "keys", "lines"),
    [
        pytest.param({}, ["release"], RELEASE, id="merged into the selector"),
        pytest.param({f"{SPREAD}SelectorMerge": False}, ["release"], None, id="left to schedulers"),
        pytest.param({SPREAD: False, f"{SPREAD}SelectorMerge": False}, None, None, id="dropped"),
    ],
)
def test_label_keys_of_spread_constraints(gates: dict[str, bool], keys: Any, lines: Any) -> None:
    made = an_api(gates=gates).create(POD, "default", a_spread_pod())
    (constraint,) = made["spec"]["topologySpreadConstraints"]
    assert constraint.get("matchLabelKeys") == keys
    assert constraint["labelSelector"].get("matchExpressions") == lines


@pytest.mark.parametrize("is_on", [True, False])
def test_resources_of_a_pod_as_a_whole_are_dropped_without_their_gate(is_on: bool) -> None:
    spec = {"containers": [{"name": "c", "image": "i"}], "resources": {"requests": {"cpu": "1"}}}
    gates = {"PodLevelResources": is_on, "InPlacePodLevelResourcesVerticalScaling": is_on}
    made = an_api(gates=gates).create(POD, "default", {"metadata": {"name": "p"}, "spec": spec})
    assert ("resources" in made["spec"]) is is_on


@pytest.mark.parametrize("is_on", [True, False])
def test_binding_clears_the_nomination_with_its_gate(is_on: bool) -> None:
    api = an_api(gates={"ClearingNominatedNodeNameAfterBinding": is_on})
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    made = api.create(POD, "default", pod)
    api.put_status(POD, made, {**made["status"], "nominatedNodeName": "n"})
    api.bind("default", "p", {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}})
    bound = api.get(POD, "default", "p")
    assert bound["spec"]["nodeName"] == "n"
    assert ("nominatedNodeName" in bound["status"]) is not is_on


def nominate(api: ResourceApi, node: str) -> str:
    """What the server says of a nomination."""
    try:
        api.change(
            POD,
            "default",
            "p",
            lambda pod: {**pod, "status": {**pod["status"], "nominatedNodeName": node}},
            subresource="status",
        )
    except ApiError as error:
        return str(error.status()["message"])
    return "ok"


@pytest.mark.parametrize("is_on", [True, False])
def test_a_pod_that_has_its_node_is_nominated_to_no_other_with_the_gate(is_on: bool) -> None:
    api = an_api(gates={"ClearingNominatedNodeNameAfterBinding": is_on})
    api.create(POD, "default", {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
    assert nominate(api, "m") == "ok"
    api.bind("default", "p", {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}})
    why = "status.nominatedNodeName: Forbidden: may not be set on pods that are already bound to a node"
    assert nominate(api, "o") == (f'Pod "p" is invalid: {why}' if is_on else "ok")
    assert nominate(api, "") == "ok"
