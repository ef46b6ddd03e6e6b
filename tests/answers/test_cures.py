"""Every cure that is named places the pod when its edits are made, requests are lowered least, searches leave no trace."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from written import Written, a_node, a_pod

from how_many import examples
from mooring.answers.explain.cure import Cure
from mooring.answers.explain.cure_search import find_cures
from mooring.answers.explain.request_cures import step_of, with_requests
from mooring.answers.trial.counterfactual import ChangePod, Counterfactual, changed_pod, edited
from mooring.cluster.cache import check_table
from mooring.inputs.loaded_cluster import LoadedCluster, load
from mooring.model.pod import Pod

ZONE = "topology.kubernetes.io/zone"
TAINT = {"key": "team", "value": "ml", "effect": "NoSchedule"}


def cures_of(*objects: Written, pod: str = "wanted") -> tuple[LoadedCluster, Pod, list[Cure]]:
    loaded = load(list(objects))
    patient = loaded.pod(pod)
    return loaded, patient, list(find_cures(Counterfactual(loaded), patient).found)


def node_after(loaded: LoadedCluster, pod: Pod, cure: Cure) -> str | None:
    """The node of the pod in a cluster that is built from the edited objects."""
    after = replace(loaded, objects=edited(loaded.objects, cure.edits))
    return Counterfactual(after).node_for(changed_pod(pod, cure.edits))


def kinds(cures: list[Cure]) -> list[str]:
    return [cure.kind for cure in cures]


def one(cures: list[Cure], kind: str) -> Cure:
    return next(cure for cure in cures if cure.kind == kind)


# ---- single kinds


def test_a_request_is_lowered_to_the_largest_that_fits() -> None:
    _, _, cures = cures_of(a_node("a"), a_pod("other", "500m", node="a"), a_pod("wanted", "4"))
    cure = one(cures, "lower-request")
    assert cure.change == "lower the cpu request of container main from 4 to 3500m" and cure.node == "a"


def test_two_requests_are_lowered_together_if_neither_alone_suffices() -> None:
    loaded, pod, cures = cures_of(a_node("a", "2", "2Gi"), a_pod("wanted", "4", "4Gi"))
    cure = one(cures, "lower-request")
    assert cure.change == (
        "lower the cpu request of container main from 4 to 2 and the memory request of container main from 4Gi to 2048Mi"
    )
    assert node_after(loaded, pod, cure) == "a"


def test_containers_give_up_the_largest_request_first() -> None:
    pod = a_pod("wanted")
    pod["spec"]["containers"] = [
        {"name": "small", "image": "i", "resources": {"requests": {"cpu": "1"}}},
        {"name": "large", "image": "i", "resources": {"requests": {"cpu": "5"}}},
    ]
    _, _, cures = cures_of(a_node("a"), pod)
    changed = one(cures, "lower-request").edits[0]
    assert isinstance(changed, ChangePod)
    asked = [(c.resources.requests or {})["cpu"] for c in changed.pod.spec.containers if c.resources is not None]
    assert asked == ["1", "3"]


def test_a_taint_is_tolerated() -> None:
    _, _, cures = cures_of(a_node("a", taints=[TAINT]), a_pod("wanted"))
    assert cures[0].change == "tolerate the taint team=ml:NoSchedule"


def test_taints_of_kubernetes_itself_are_not_tolerated_but_mended() -> None:
    taint = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
    _, _, cures = cures_of(a_node("a", taints=[taint]), a_pod("wanted"))
    assert "tolerate" not in kinds(cures) and "mend-node" in kinds(cures)


def test_a_cordoned_node_is_uncordoned() -> None:
    taint = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    _, _, cures = cures_of(a_node("a", cordoned=True, taints=[taint]), a_pod("wanted"))
    assert cures[0].change == "uncordon node a"


def test_a_node_selector_is_widened_or_dropped() -> None:
    _, _, cures = cures_of(a_node("a", labels={"disk": "ssd"}), a_pod("wanted", nodeSelector={"disk": "hdd"}))
    assert [c.change for c in cures[:2]] == ["select disk=ssd instead of disk=hdd", "drop the node selector disk=hdd"]


def test_one_line_of_the_node_affinity_is_dropped() -> None:
    lines = [
        {"key": "disk", "operator": "In", "values": ["ssd"]},
        {"key": "arch", "operator": "In", "values": ["arm"]},
    ]
    affinity = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": lines}]}
        }
    }
    _, _, cures = cures_of(a_node("a", labels={"disk": "ssd", "arch": "x86"}), a_pod("wanted", affinity=affinity))
    assert cures[0].change == "drop the required node affinity arch In [arm]"


def test_a_spread_constraint_is_loosened_as_little_as_possible() -> None:
    constraint = {
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    running = [a_pod(f"web-{i}", "100m", node="a", labels={"app": "web"}) for i in range(3)]
    wanted = a_pod("wanted", labels={"app": "web"}, topologySpreadConstraints=[constraint])
    _, _, cures = cures_of(a_node("a", zone="x"), a_node("b", "100m", zone="y"), *running, wanted)
    assert one(cures, "raise-skew").change == f"raise maxSkew over {ZONE} from 1 to 4"
    assert "prefer-spread" in kinds(cures)


def test_an_anti_affinity_term_is_dropped() -> None:
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    _, _, cures = cures_of(
        a_node("a"), a_pod("web", node="a", labels={"app": "web"}), a_pod("wanted", affinity=affinity)
    )
    assert (
        one(cures, "drop-affinity").change
        == "drop the required pod anti-affinity over kubernetes.io/hostname (app=web)"
    )


def test_a_host_port_is_given_up() -> None:
    taken, wanted = a_pod("other", node="a"), a_pod("wanted")
    for pod in (taken, wanted):
        pod["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 8080, "protocol": "TCP"}]
    _, _, cures = cures_of(a_node("a"), taken, wanted)
    assert one(cures, "drop-port").change == "do without hostPort 8080"


def test_a_gate_is_removed() -> None:
    _, _, cures = cures_of(a_node("a"), a_pod("wanted", schedulingGates=[{"name": "example.com/quota"}]))
    assert cures[0].change == "remove the scheduling gate example.com/quota" and cures[0].node == "a"


def test_a_higher_priority_names_its_victims_and_the_budgets_that_they_break() -> None:
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "keep", "namespace": "default", "uid": "keep"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
        "status": {"disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1},
    }
    urgent = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "urgent"},
        "value": 500,
    }
    web = a_pod("web", "3", node="a", labels={"app": "web"}, priority=10)
    _, _, cures = cures_of(a_node("a"), web, budget, urgent, a_pod("wanted", "3", priority=0))
    cure = one(cures, "raise-priority")
    assert cure.change == "raise the priority from 0 to 11 (PriorityClass urgent has 500)"
    assert cure.victims == ("default/web",) and cure.broken_budgets == 1


def test_a_pod_is_moved_if_it_finds_room_elsewhere_and_removed_if_not() -> None:
    wanted = a_pod("wanted", "3", nodeSelector={"disk": "ssd"})
    large, small = a_node("a", labels={"disk": "ssd"}), a_node("b", "2")
    _, _, cures = cures_of(large, small, a_pod("other", "2", node="a"), wanted)
    assert one(cures, "move").change == "move default/other from a to b"
    _, _, cures = cures_of(large, a_node("b", "1"), a_pod("other", "2", node="a"), wanted)
    assert one(cures, "remove").change == "remove default/other from a"


def test_a_move_against_a_budget_costs_more_and_says_so() -> None:
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "keep", "namespace": "default", "uid": "keep"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
        "status": {"disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1},
    }
    nodes = [a_node("a", labels={"disk": "ssd"}), a_node("b", "2")]
    other = a_pod("other", "2", node="a", labels={"app": "web"})
    _, _, cures = cures_of(*nodes, budget, other, a_pod("wanted", "3", nodeSelector={"disk": "ssd"}))
    cure = one(cures, "move")
    assert (cure.broken_budgets, cure.cost) == (1, 100)


def test_two_pods_are_moved_if_one_is_not_enough() -> None:
    wanted = a_pod("wanted", "4", nodeSelector={"disk": "ssd"})
    others = [a_pod("one", "2", node="a"), a_pod("two", "2", node="a")]
    loaded, pod, cures = cures_of(a_node("a", labels={"disk": "ssd"}), a_node("b"), *others, wanted)
    cure = one(cures, "move")
    assert cure.change.count("move default/") == 2
    assert node_after(loaded, pod, cure) == "a"


def test_a_new_node_comes_with_the_pods_of_daemon_sets() -> None:
    agent = a_pod("agent", "1", node="a", owner="DaemonSet/agent")
    full = a_pod("other", "3", node="a")
    _, _, cures = cures_of(a_node("a"), agent, full, a_pod("wanted", "3"))
    assert one(cures, "add-node").node == "a-copy-1"
    _, _, cures = cures_of(a_node("a"), agent, full, a_pod("wanted", "3500m"))
    assert "add-node" not in kinds(cures)  # beside the agent there are only 3 CPUs


def test_a_missing_claim_and_an_unbound_one_are_created() -> None:
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    _, _, cures = cures_of(a_node("a"), a_pod("wanted", volumes=volumes))
    assert cures[0].change == "create the PersistentVolumeClaim default/data (1Gi) with a volume"
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data", "namespace": "default", "uid": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "fast",
            "resources": {"requests": {"storage": "5Gi"}},
        },
    }
    _, _, cures = cures_of(a_node("a"), claim, a_pod("wanted", volumes=volumes))
    assert cures[0].change == "create a volume for the PersistentVolumeClaim default/data (5Gi, class fast)"


def test_two_dimensions_are_changed_if_none_alone_suffices() -> None:
    wanted = a_pod("wanted", "6", nodeSelector={"disk": "hdd"})
    loaded, pod, cures = cures_of(a_node("a", labels={"disk": "ssd"}), wanted)
    assert cures[0].change == (
        "lower the cpu request of container main from 6 to 4, and select disk=ssd instead of disk=hdd"
    )
    assert node_after(loaded, pod, cures[0]) == "a"


def test_a_pod_that_gets_a_node_needs_no_cure() -> None:
    assert cures_of(a_node("a"), a_pod("wanted"))[2] == []


def test_a_search_says_that_it_gave_up() -> None:
    loaded = load([a_node("a"), a_pod("wanted", "8")])
    found = find_cures(Counterfactual(loaded), loaded.pod("wanted"), decisions=3)
    assert found.gave_up


# ---- any cluster

_LABELS = st.sampled_from([{}, {"disk": "ssd"}, {"disk": "hdd", "arch": "arm"}])
_TAINTS = st.sampled_from([[], [], [TAINT], [TAINT, {"key": "gpu", "effect": "NoExecute"}]])
_APPS = st.sampled_from(["web", "db"])
_CPUS, _MEMORY = st.sampled_from(["100m", "500m", "1", "2", "3", "7"]), st.sampled_from(["64Mi", "1Gi", "3Gi", "9Gi"])


@st.composite
def _rules(draw: st.DrawFn) -> dict[str, Any]:
    """Rules of a pod, some of which nothing satisfies."""
    rules: dict[str, Any] = {}
    app = {"matchLabels": {"app": draw(_APPS)}}
    if draw(st.booleans()):
        rules["nodeSelector"] = {"disk": draw(st.sampled_from(["ssd", "hdd", "tape"]))}
    if draw(st.booleans()):
        term = {"topologyKey": draw(st.sampled_from([ZONE, "kubernetes.io/hostname"])), "labelSelector": app}
        side = draw(st.sampled_from(["podAffinity", "podAntiAffinity"]))
        rules["affinity"] = {side: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    if draw(st.booleans()):
        skew = draw(st.integers(1, 2))
        rules["topologySpreadConstraints"] = [
            {"maxSkew": skew, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": app}
        ]
    return rules


@st.composite
def clusters(draw: st.DrawFn) -> list[Written]:
    count = draw(st.integers(1, 4))
    objects = [
        a_node(
            f"n{i}",
            draw(st.sampled_from(["1", "4", "6"])),
            zone=draw(st.sampled_from(["x", "y", ""])),
            labels=draw(_LABELS),
            taints=draw(_TAINTS),
            cordoned=draw(st.integers(0, 4)) == 0,
            pods=draw(st.sampled_from(["2", "110"])),
        )
        for i in range(count)
    ]
    for i in range(draw(st.integers(0, 6))):
        node = f"n{draw(st.integers(0, count - 1))}"
        labels = {"app": draw(_APPS)}
        rules = draw(_rules()) if draw(st.integers(0, 3)) == 0 else {}
        owner = "DaemonSet/agent" if draw(st.integers(0, 5)) == 0 else ""
        priority = draw(st.integers(0, 3))
        objects.append(
            a_pod(
                f"p{i}", draw(_CPUS), draw(_MEMORY), node=node, labels=labels, owner=owner, priority=priority, **rules
            )
        )
    wanted = a_pod("wanted", draw(_CPUS), draw(_MEMORY), labels={"app": draw(_APPS)}, priority=1, **draw(_rules()))
    return [*objects, wanted]


@pytest.mark.slow
@settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(clusters())
def test_every_cure_places_the_pod(objects: list[Written]) -> None:
    loaded, pod, cures = cures_of(*objects)
    for cure in cures:
        assert node_after(loaded, pod, cure) is not None, cure


@pytest.mark.slow
@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(clusters())
def test_one_step_more_than_the_lowered_request_does_not_fit(objects: list[Written]) -> None:
    loaded, pod, cures = cures_of(*objects)
    trials = Counterfactual(loaded)
    for cure in (cure for cure in cures if cure.kind == "lower-request"):
        form = changed_pod(pod, cure.edits)
        for name, before in pod.shape.request.items():
            now = form.shape.request[name]
            if now == before:
                continue
            more = with_requests(form, {name: min(now + step_of(name, before), before)})
            assert more is not None and trials.node_for(more) is None, (cure, name)


@pytest.mark.slow
@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(clusters())
def test_a_search_leaves_the_cluster_as_it_was(objects: list[Written]) -> None:
    loaded = load(list(objects))
    trials = Counterfactual(loaded)
    pod = loaded.pod("wanted")
    before = trials.decide(pod, explain=True)
    where = {each.key: each.spec.node_name for each in trials.cluster.nodes.pods()}
    find_cures(trials, pod)
    assert trials.decide(pod, explain=True) == before
    assert {each.key: each.spec.node_name for each in trials.cluster.nodes.pods()} == where
    check_table(trials.cluster.nodes)


@pytest.mark.parametrize("amount", [1, 999, 1000, 4000, 1 << 20, 3 << 20, (3 << 20) + 5])
@pytest.mark.parametrize("name", ["cpu", "memory"])
def test_a_request_is_written_so_that_it_is_read_as_the_same(name: str, amount: int) -> None:
    form = with_requests(load([a_pod("wanted", "9000", "9000Gi")]).pod("wanted"), {name: amount})
    assert form is not None and form.shape.request[name] == amount


# ---- init containers


def with_init(pod: Written, *requests: dict[str, str]) -> Written:
    pod["spec"]["initContainers"] = [
        {"name": f"init-{i}", "image": "registry.example/init:1", "resources": {"requests": each}}
        for i, each in enumerate(requests)
    ]
    return pod


def requests_in(pod: Pod) -> list[dict[str, Any]]:
    containers = [*(pod.spec.init_containers or ()), *pod.spec.containers]
    return [dict((each.resources.requests if each.resources else None) or {}) for each in containers]


def test_init_containers_are_lowered_to_the_amount_and_others_stay_as_they_are() -> None:
    written = with_init(a_pod("wanted", "2"), {"cpu": "6"}, {"cpu": "4000m"}, {"memory": "1Gi"})
    pod = load([written]).pod("wanted")
    form = with_requests(pod, {"cpu": 4000})
    assert form is not None and form.shape.request["cpu"] == 4000
    assert requests_in(form) == [{"cpu": "4"}, {"cpu": "4000m"}, {"memory": "1Gi"}, {"cpu": "2", "memory": "1Gi"}]


def test_containers_and_init_containers_are_lowered_where_both_ask_for_too_much() -> None:
    pod = load([with_init(a_pod("wanted", "5"), {"cpu": "6"})]).pod("wanted")
    form = with_requests(pod, {"cpu": 4000})
    assert form is not None and [each["cpu"] for each in requests_in(form)] == ["4", "4"]


def test_a_pod_whose_init_container_is_too_large_is_cured() -> None:
    loaded, pod, cures = cures_of(a_node("a", "4"), with_init(a_pod("wanted", "2"), {"cpu": "6"}))
    cure = one(cures, "lower-request")
    assert (
        cure.change == "lower the cpu request of init container init-0 from 6 to 4"
        and node_after(loaded, pod, cure) == "a"
    )
