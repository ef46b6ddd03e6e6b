"""Cures for pods whose claims find no devices: each places the pod, numbers are lowered least, searches leave no trace."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from build import a_node, a_pod
from device_building import DRIVER, a_claim, a_class, a_device, a_slice, an_allocation, an_ask
from how_many import examples
from mooring.answers.explain.cure import Cure
from mooring.answers.explain.cure_search import find_cures
from mooring.answers.trial.counterfactual import Counterfactual, PutObject, changed_pod, edited
from mooring.framework import config as configuration
from mooring.inputs.loaded_cluster import LoadedCluster
from mooring.model.devices import ResourceClaim
from mooring.model.meta import KubeObject
from mooring.model.pod import Pod

SCHEDULER = "default-scheduler"


def a_claiming_pod(name: str, claim: str, **spec: Any) -> Pod:
    claims = [{"name": "devices", "resourceClaimName": claim}]
    metadata = {"uid": f"uid-{name}"}
    return a_pod(name, cpu="100m", schedulerName=SCHEDULER, resourceClaims=claims, metadata=metadata, **spec)


def a_used_claim(name: str, *devices: str, node: str, by: str = "", ask: dict[str, Any] | None = None) -> ResourceClaim:
    users = [{"resource": "pods", "name": by, "uid": f"uid-{by}"}] if by else []
    status = {"allocation": an_allocation(*devices, node=node), "reservedFor": users}
    return a_claim(name, ask or an_ask(len(devices)), status=status)


def a_cluster(*objects: KubeObject) -> LoadedCluster:
    return LoadedCluster(list(objects), configuration.default())


def cures_of(loaded: LoadedCluster) -> list[Cure]:
    return list(find_cures(Counterfactual(loaded), loaded.pod("wanted")).found)


def node_after(loaded: LoadedCluster, cure: Cure) -> str | None:
    """The node of the pod in a cluster that is built from the edited objects."""
    after = replace(loaded, objects=edited(loaded.objects, cure.edits))
    return Counterfactual(after).node_for(changed_pod(loaded.pod("wanted"), cure.edits))


def changes(loaded: LoadedCluster, kind: str) -> list[str]:
    """What the cures of a kind say; each of them places the pod."""
    found = [cure for cure in cures_of(loaded) if cure.kind == kind]
    assert all(node_after(loaded, cure) == cure.node for cure in found)
    return [cure.change for cure in found]


TWO = a_slice("two", a_device("dev-0", model="a"), a_device("dev-1", model="b"), node="n")


# ---- single kinds


def test_as_many_devices_are_claimed_as_there_are() -> None:
    claim = a_claim("mine", an_ask(5))
    loaded = a_cluster(a_node("n"), TWO, a_class("gpu"), claim, a_claiming_pod("wanted", "mine"))
    assert changes(loaded, "fewer-devices") == [
        "claim 2 devices instead of 5 (request r0 of ResourceClaim default/mine)"
    ]


def test_a_number_is_claimed_where_not_all_are_free() -> None:
    used = a_used_claim("used", "n/dev-0", node="n", by="other")
    loaded = a_cluster(
        a_node("n"),
        TWO,
        a_class("gpu"),
        used,
        a_claiming_pod("other", "used", nodeName="n"),
        a_claim("mine", an_ask(mode="All")),
        a_claiming_pod("wanted", "mine"),
    )
    assert changes(loaded, "fewer-devices") == [
        "claim 1 device instead of all (request r0 of ResourceClaim default/mine)"
    ]


def test_another_class_or_a_selector_less() -> None:
    expression = f'device.attributes["{DRIVER}"].model == "z"'
    loaded = a_cluster(
        a_node("n"),
        TWO,
        a_class("gpu"),
        a_class("none", "false"),
        a_claim("mine", an_ask(1, expression)),
        a_claiming_pod("wanted", "mine"),
    )
    assert changes(loaded, "drop-selector") == [
        f"drop the selector {expression} (request r0 of ResourceClaim default/mine)"
    ]
    assert changes(loaded, "change-class") == []
    other = a_cluster(
        a_node("n"),
        TWO,
        a_class("gpu"),
        a_class("none", "false"),
        a_claim("mine", an_ask(device_class="none")),
        a_claiming_pod("wanted", "mine"),
    )
    assert changes(other, "change-class") == [
        "claim devices of class gpu instead of none (request r0 of ResourceClaim default/mine)"
    ]


def test_an_alternative_of_a_request_is_changed() -> None:
    claim = a_claim("mine", [an_ask(3), an_ask(4)])
    loaded = a_cluster(a_node("n"), TWO, a_class("gpu"), claim, a_claiming_pod("wanted", "mine"))
    assert changes(loaded, "fewer-devices") == [
        "claim 2 devices instead of 3 (request r0 of ResourceClaim default/mine)",
        "claim 2 devices instead of 4 (request r0 of ResourceClaim default/mine)",
    ]


def test_a_constraint_is_dropped() -> None:
    alike = {"requests": ["r0"], "matchAttribute": f"{DRIVER}/model"}
    claim = a_claim("mine", an_ask(2), constraints=[alike])
    loaded = a_cluster(a_node("n"), TWO, a_class("gpu"), claim, a_claiming_pod("wanted", "mine"))
    assert changes(loaded, "drop-constraint") == [
        f"drop the constraint on {DRIVER}/model (of ResourceClaim default/mine)"
    ]


def test_others_give_devices_back_first_those_that_no_pod_uses() -> None:
    loaded = a_cluster(
        a_node("n"),
        TWO,
        a_class("gpu"),
        a_used_claim("used", "n/dev-0", node="n", by="other"),
        a_claiming_pod("other", "used", nodeName="n"),
        a_used_claim("idle", "n/dev-1", node="n"),
        a_claim("mine", an_ask(1)),
        a_claiming_pod("wanted", "mine"),
    )
    found = [cure for cure in cures_of(loaded) if cure.kind == "free-devices"]
    assert [(cure.change, cure.cost, cure.victims) for cure in found] == [
        ("free the devices of ResourceClaim default/idle, which no other pod uses", 45, ()),
        ("remove default/other with the devices of ResourceClaim default/used", 70, ("default/other",)),
    ]
    assert all(node_after(loaded, cure) == "n" for cure in found)


def test_the_pods_of_a_group_leave_with_the_claim_of_the_group() -> None:
    group = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "gang", "uid": "uid-gang"}
    status = {"allocation": an_allocation("n/dev-0", "n/dev-1", node="n"), "reservedFor": [group]}
    claims = (a_claim("held", an_ask(2), status=status), a_claim("mine"))
    members = [
        a_claiming_pod(name, "held", nodeName="n", schedulingGroup={"podGroupName": "gang"})
        for name in ("one", "other")
    ]
    wanted = a_claiming_pod("wanted", "mine")
    loaded = a_cluster(a_node("n"), TWO, a_class(), *claims, *members, wanted)
    assert changes(loaded, "free-devices") == [
        "remove default/one and default/other with the devices of ResourceClaim default/held"
    ]
    alone = a_cluster(a_node("n"), TWO, a_class(), *claims, wanted)
    assert changes(alone, "free-devices") == [], "its pods are not known"


def test_two_claims_are_freed_if_one_is_not_enough() -> None:
    loaded = a_cluster(
        a_node("n"),
        TWO,
        a_class("gpu"),
        a_used_claim("one", "n/dev-0", node="n"),
        a_used_claim("two", "n/dev-1", node="n"),
        a_claim("mine", an_ask(2)),
        a_claiming_pod("wanted", "mine"),
    )
    assert changes(loaded, "free-devices") == [
        "free the devices of ResourceClaim default/one and default/two, which no other pod uses"
    ]


def test_one_more_node_is_like_one_with_devices() -> None:
    loaded = a_cluster(
        a_node("a"),
        a_node("b"),
        a_node("n"),
        TWO,
        a_class("gpu"),
        a_used_claim("used", "n/dev-0", "n/dev-1", node="n"),
        a_claim("mine", an_ask(2)),
        a_claiming_pod("wanted", "mine"),
    )
    assert changes(loaded, "add-node") == ["add a node like n (the only one of its kind)"]


def test_devices_are_left_alone_where_they_are_not_what_is_missing() -> None:
    claim = a_claim("mine", an_ask(5))
    pod = a_claiming_pod("wanted", "mine", nodeSelector={"disk": "ssd"})
    kinds = {cure.kind for cure in cures_of(a_cluster(a_node("n"), TWO, a_class("gpu"), claim, pod))}
    assert not kinds & {"fewer-devices", "change-class", "free-devices"}


# ---- any cluster


@st.composite
def clusters(draw: st.DrawFn) -> LoadedCluster:
    """Nodes with a few devices of two models, claims that hold some of them, and one that wants more."""
    objects: list[KubeObject] = [a_class("gpu"), a_class("model-a", f'device.attributes["{DRIVER}"].model == "a"')]
    free: list[tuple[str, str]] = []
    for i in range(draw(st.integers(1, 3))):
        node, number = f"n{i}", draw(st.integers(0, 3))
        taints = draw(st.sampled_from([[], [], ["team=ml:NoSchedule"]]))
        objects.append(a_node(node, cpu=draw(st.sampled_from(["1", "4"])), taints=taints))
        devices = [a_device(f"dev-{j}", model=draw(st.sampled_from(["a", "b"]))) for j in range(number)]
        if devices:
            objects.append(a_slice(f"slice-{i}", *devices, node=node))
        free += [(node, f"dev-{j}") for j in range(number)]
    for i in range(draw(st.integers(0, 3))):
        if free:
            node, device = free.pop(draw(st.integers(0, len(free) - 1)))
            by = f"user-{i}" if draw(st.booleans()) else ""
            objects.append(a_used_claim(f"used-{i}", f"{node}/{device}", node=node, by=by))
            if by:
                objects.append(a_claiming_pod(by, f"used-{i}", nodeName=node, priority=draw(st.integers(0, 2))))
    selectors = draw(st.sampled_from([(), (), (f'device.attributes["{DRIVER}"].model == "b"',)]))
    ask = an_ask(
        draw(st.integers(1, 4)),
        *selectors,
        mode=draw(st.sampled_from(["ExactCount", "ExactCount", "All"])),
        device_class=draw(st.sampled_from(["gpu", "model-a"])),
    )
    alike = [{"requests": ["r0"], "matchAttribute": f"{DRIVER}/model"}] if draw(st.booleans()) else []
    objects.append(a_claim("mine", ask, **({"constraints": alike} if alike else {})))
    return a_cluster(*objects, a_claiming_pod("wanted", "mine", priority=1))


@pytest.mark.slow
@settings(max_examples=examples(120), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(clusters())
def test_every_cure_places_the_pod_and_one_device_more_does_not_fit(loaded: LoadedCluster) -> None:
    for cure in cures_of(loaded):
        assert node_after(loaded, cure) is not None, cure
        if cure.kind == "fewer-devices":
            (edit,) = cure.edits
            assert isinstance(edit, PutObject) and isinstance(edit.item, ResourceClaim)
            (request,) = edit.item.spec.devices.requests or []
            assert request.exactly is not None
            request.exactly.count += 1
            assert node_after(loaded, cure) is None, cure


@pytest.mark.slow
@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(clusters())
def test_a_search_leaves_claims_and_nodes_as_they_were(loaded: LoadedCluster) -> None:
    trials, pod = Counterfactual(loaded), loaded.pod("wanted")
    before = trials.decide(pod, explain=True)
    find_cures(trials, pod)
    assert trials.decide(pod, explain=True) == before
    assert before == Counterfactual(loaded).decide(pod, explain=True)


def test_a_claim_that_does_not_exist_is_created_with_one_device_of_a_class_that_a_node_has() -> None:
    """The pod does not even enter the queue: the scheduler looks for the claim first."""
    classes = [a_class("gpu"), a_class("other", "device.driver == 'other.example'")]
    loaded = a_cluster(a_node("n"), *classes, TWO, a_claiming_pod("wanted", "gone"))
    assert [(cure.kind, cure.change, cure.node, cure.cost) for cure in cures_of(loaded)] == [
        ("create-claim", "create the ResourceClaim default/gone with 1 device of class gpu", "n", 45)
    ]
    assert changes(loaded, "create-claim") == ["create the ResourceClaim default/gone with 1 device of class gpu"]
