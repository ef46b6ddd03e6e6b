"""The steps of a search for cures, one by one: orders and bounds by hand, and what a change leaves of a pod."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from cure_lists import cures_of, rows_of
from test_device_cures import TWO, a_claiming_pod, a_used_claim
from test_device_cures import a_cluster as a_device_cluster
from test_device_cures import cures_of as device_cures_of
from test_whole_cures import HOSTNAME, ZONE, a_spread, a_taint, a_term, required, with_ports
from written import Written, a_node, a_pod

import build
from device_building import a_claim, a_class, a_device, a_slice, an_ask
from mooring.answers.explain import claim_cures
from mooring.answers.explain import cures_by_others as other_nodes
from mooring.answers.explain import cures_by_others as other_pods
from mooring.answers.explain import pod_rule_cures as priorities
from mooring.answers.explain import pod_rule_cures as relations
from mooring.answers.explain import selection_cures as node_choice
from mooring.answers.explain.claim_cures import by_fewer_devices
from mooring.answers.explain.cure import Cure, CureChange, Patient, SearchBudget
from mooring.answers.explain.cure_search import find_cures
from mooring.answers.explain.cures_by_others import kinds_of_nodes, one_more_like
from mooring.answers.explain.pod_rule_cures import DropAffinity, DropHostPorts, SpreadLess
from mooring.answers.explain.request_cures import LowerRequests, _largest, step_of, with_requests, written
from mooring.answers.trial.changing_nodes import with_cordon
from mooring.answers.trial.counterfactual import ChangePod, Counterfactual, PlacePod, PutObject
from mooring.inputs.loaded_cluster import LoadedCluster, load
from mooring.model.pod import Pod
from mooring.model.storage import CSINode, PersistentVolume, PersistentVolumeClaim
from mooring.model.workloads import PodDisruptionBudget

MEBI = 1 << 20
GPU = "example.com/gpu"


def a_patient(*objects: Written, decisions: int = 2000) -> Patient:
    return patient_in(load(list(objects)), decisions)


def patient_in(loaded: LoadedCluster, decisions: int = 2000) -> Patient:
    trials = Counterfactual(loaded)
    return Patient(loaded.pod("wanted"), trials, SearchBudget(trials, decisions))


def a_written_budget(allowed: int = 0) -> Written:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "keep", "namespace": "default", "uid": "keep"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}},
        "status": {"disruptionsAllowed": allowed},
    }


def a_priority_class(name: str, value: int) -> Written:
    metadata = {"name": name}
    return {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": metadata, "value": value}


def kinds(cures: list[Cure]) -> list[str]:
    return [cure.kind for cure in cures]


def pod_after(cure: Cure) -> Pod:
    (changed,) = [edit.pod for edit in cure.edits if isinstance(edit, ChangePod)]
    return changed


# ---- requests


@pytest.mark.parametrize(
    ("name", "amount", "step", "text"),
    [
        ("cpu", 1, 1, "1m"),
        ("cpu", 999, 1, "999m"),
        ("cpu", 1000, 1, "1"),
        ("cpu", 2500, 1, "2500m"),
        ("cpu", 3 * MEBI * 1000, 1, str(3 * MEBI)),
        ("memory", MEBI - 1, 1, str(MEBI - 1)),
        ("memory", MEBI, MEBI, "1Mi"),
        ("memory", 0, 1, "0"),
        ("memory", 3 * MEBI + 1, MEBI, str(3 * MEBI + 1)),
        ("ephemeral-storage", 5 * MEBI, MEBI, "5Mi"),
        ("hugepages-2Mi", 2 * MEBI, MEBI, "2Mi"),
        (GPU, 2 * MEBI, 1, str(2 * MEBI)),
    ],
)
def test_amounts_are_lowered_in_steps_and_written_exactly(name: str, amount: int, step: int, text: str) -> None:
    assert (step_of(name, amount), written(name, amount)) == (step, text)


@pytest.mark.parametrize("highest", range(-1, 12))
def test_the_largest_number_that_fits_is_found_by_halving(highest: int) -> None:
    for most in range(14):
        fitting = [number for number in range(1, highest + 1) if number <= most]
        assert _largest(lambda number, most=most: number <= most, highest) == (max(fitting) if fitting else None)  # type: ignore[misc]


def test_a_request_as_small_as_it_can_be_is_one_step_of_each_resource() -> None:
    pod = build.a_pod(cpu="2", requests={"memory": "3Gi", "ephemeral-storage": "10", GPU: "4"})
    form = LowerRequests().relax(pod)
    assert form is not None
    assert form.shape.request == {"cpu": 1, "memory": MEBI, "ephemeral-storage": 1, GPU: 1}
    assert LowerRequests().relax(build.a_pod()) is None
    assert LowerRequests().relax(build.a_pod(cpu="0")) is None


@pytest.mark.parametrize(("memory", "most"), [("100", 99), (str(3 * MEBI + 1), 3 * MEBI), (str(3 * MEBI), 2 * MEBI)])
def test_the_first_lower_amount_is_the_next_whole_step(memory: str, most: int) -> None:
    """The node has all but one byte of what is asked for."""
    node = a_node("a", memory=str(int(memory) - 1))
    patient = a_patient(node, a_pod("wanted", "1", memory))
    (change,) = LowerRequests().options(patient, patient.pod)
    assert change.apply(patient.pod).shape.request["memory"] == most


def test_what_is_given_up_together_is_given_back_where_there_is_room() -> None:
    """CPUs and GPUs are short; half of both would fit. Memory is not short, so that it is given back."""
    node = a_node("a", "3", "8Gi")
    node["status"]["allocatable"][GPU] = "1"
    wanted = a_pod("wanted", "4", "4Gi")
    wanted["spec"]["containers"][0]["resources"]["requests"][GPU] = "2"
    patient = a_patient(node, wanted)
    (change,) = LowerRequests().options(patient, patient.pod)
    assert change.text == (
        f"lower the cpu request of container main from 4 to 3 and the {GPU} request of container main from 2 to 1"
    )
    assert change.cost == 20 + 60 * 0.5
    assert change.apply(patient.pod).shape.request == {"cpu": 3000, "memory": 4096 * MEBI, GPU: 1}


def test_a_pod_that_cannot_be_made_to_fit_by_its_requests_has_no_options() -> None:
    patient = a_patient(a_node("a", "3", taints=[a_taint("x")]), a_pod("wanted", "4", "4Gi"))
    assert list(LowerRequests().options(patient, patient.pod)) == []


def resources_of(pod: Pod) -> list[tuple[Mapping[str, Any] | None, Mapping[str, Any] | None]]:
    each = [*(pod.spec.init_containers or ()), *pod.spec.containers]
    return [(c.resources.requests, c.resources.limits) if c.resources is not None else (None, None) for c in each]


def test_limits_follow_only_where_they_have_to_equal_the_request() -> None:
    names = {"cpu": "2", GPU: "3", "hugepages-2Mi": "8Mi"}
    container = {"name": "c", "resources": {"requests": names, "limits": {**names, "memory": "1Gi"}}}
    pod = build.a_pod(containers=[container])
    form = with_requests(pod, {"cpu": 1000, GPU: 1, "hugepages-2Mi": 4 * MEBI})
    assert form is not None
    requests = {"cpu": "1", GPU: "1", "hugepages-2Mi": "4Mi"}
    assert resources_of(form) == [(requests, {"cpu": "2", GPU: "1", "hugepages-2Mi": "4Mi", "memory": "1Gi"})]


def test_requests_of_the_pod_as_a_whole_are_lowered_there() -> None:
    container = {"name": "c", "resources": {"requests": {"cpu": "1"}}}
    pod = build.a_pod(containers=[container], resources={"requests": {"cpu": "3"}})
    form = with_requests(pod, {"cpu": 2000})
    assert form is not None and form.spec.resources is not None
    assert form.spec.resources.requests == {"cpu": "2"}
    assert resources_of(form) == [({"cpu": "1"}, None)]


def test_the_largest_container_gives_up_what_is_too_much_and_beyond_half_of_it_each_in_proportion() -> None:
    def asking(*cpus: str | None) -> Pod:
        found = [
            {"name": f"c{i}", "resources": {"requests": {"cpu": cpu}} if cpu else {}} for i, cpu in enumerate(cpus)
        ]
        return build.a_pod(containers=found)

    for before, amount, after in (
        (("1", "4", None, "2"), 5000, ["1", "2", None, "2"]),
        (("1", "3", None, "2"), 4000, ["666m", "2001m", None, "1333m"]),
        (("1", "3", "2"), 1500, ["250m", "750m", "500m"]),
        (("1", "1"), 1000, ["500m", "500m"]),
    ):
        form = with_requests(asking(*before), {"cpu": amount})
        assert form is not None and form.shape.request["cpu"] == amount
        assert [(requests or {}).get("cpu") for requests, _ in resources_of(form)] == after
    assert with_requests(asking("1"), {"cpu": 2000}) is None, "requests are not raised"


def test_a_sidecar_counts_with_the_containers() -> None:
    sidecar = {"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}}
    first = {"name": "i", "resources": {"requests": {"cpu": "5"}}}
    main = {"name": "c", "resources": {"requests": {"cpu": "3"}}}
    form = with_requests(build.a_pod(containers=[main], initContainers=[sidecar, first]), {"cpu": 2000})
    assert form is not None and form.shape.request["cpu"] == 2000
    assert [each[0] for each in resources_of(form)] == [{"cpu": "1"}, {"cpu": "1"}, {"cpu": "1"}]
    form = with_requests(build.a_pod(containers=[main], initContainers=[sidecar]), {"cpu": 1000})
    assert form is not None and [each[0] for each in resources_of(form)] == [{"cpu": "250m"}, {"cpu": "750m"}]
    form = with_requests(build.a_pod(containers=[main], initContainers=[first]), {"cpu": 2000})
    assert form is not None and [each[0] for each in resources_of(form)] == [{"cpu": "2"}, {"cpu": "2"}]


def test_a_change_is_shown_without_the_function_that_makes_it() -> None:
    assert repr(CureChange("kind", "text", 1.5, lambda pod: pod)) == "CureChange(kind='kind', text='text', cost=1.5)"


# ---- nodes


@pytest.mark.parametrize(
    ("kind", "state"),
    [("uncordon", {"cordoned": True}), ("mend-node", {"taints": [a_taint("node.kubernetes.io/not-ready")]})],
    ids=["cordoned", "not ready"],
)
def test_only_so_many_nodes_are_put_right(kind: str, state: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = [a_node("small", "1", **state), a_node("large", "4", **state)]
    for most, found in ((1, []), (2, ["large"])):
        monkeypatch.setattr(other_nodes, "MAX_NODES", most)
        assert [cure.node for cure in cures_of(*nodes, a_pod("wanted", "4")) if cure.kind == kind] == found


def test_nodes_that_are_in_order_are_passed_over() -> None:
    nodes = [
        a_node("a", "1"),
        a_node("b", taints=[a_taint("node.kubernetes.io/not-ready")]),
        a_node("c", cordoned=True),
    ]
    rows = rows_of(*nodes, a_pod("wanted", "4"))
    assert [(row[0], row[2]) for row in rows if row[0] in ("uncordon", "mend-node")] == [
        ("uncordon", "c"),
        ("mend-node", "b"),
    ]


def test_only_so_many_kinds_of_nodes_are_added(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = [a_node("a", "1"), a_node("b", "1"), a_node("large", "4")]
    full = a_pod("full", "4", node="large", priority=9)
    for most, found in ((1, []), (2, ["large-copy-1"])):
        monkeypatch.setattr(other_nodes, "MAX_NODES", most)
        cures = cures_of(*nodes, full, a_pod("wanted", "3", priority=0))
        assert [cure.node for cure in cures if cure.kind == "add-node"] == found


def test_a_cordoned_node_is_not_mended_and_a_mended_node_keeps_its_other_taints() -> None:
    cordoned = a_node("a", taints=[a_taint("node.kubernetes.io/unschedulable")])
    assert "mend-node" not in [row[0] for row in rows_of(cordoned, a_pod("wanted"))]
    both = [a_taint("node.kubernetes.io/not-ready"), a_taint("team", "ml")]
    assert "mend-node" not in [row[0] for row in rows_of(a_node("a", taints=both), a_pod("wanted"))]
    tolerant = a_pod("wanted", tolerations=[{"key": "team", "operator": "Exists"}])
    (mended,) = [cure for cure in cures_of(a_node("a", taints=both), tolerant) if cure.kind == "mend-node"]
    assert mended.change == "mend node a, which has the taint node.kubernetes.io/not-ready"


def test_a_node_that_is_uncordoned_has_the_rest_of_its_taints() -> None:
    node = build.a_node(
        "a", taints=["node.kubernetes.io/unschedulable:NoSchedule", "x=y:NoSchedule"], unschedulable=True
    )
    found = with_cordon(node, False)
    assert (found.spec.unschedulable, [taint.key for taint in found.spec.taints or ()]) == (False, ["x"])
    cordoned = build.a_node("a", taints=["node.kubernetes.io/unschedulable:NoSchedule"], unschedulable=True)
    bare = with_cordon(cordoned, False)
    assert bare.spec.taints is None


def test_nodes_of_one_kind_differ_in_their_names_alone() -> None:
    def named(name: str, hostname: str = "", **more: Any) -> Any:
        labels = {HOSTNAME: hostname or name, "own": name, "disk": "ssd", **more.pop("labels", {})}
        return build.a_node(name, labels=labels, **more)

    cluster = build.a_cluster(
        named("other-disk", labels={"disk": "hdd"}),
        named("first"),
        named("larger", cpu="8"),
        named("second", hostname="host-2"),
        named("tainted", taints=["x=y:NoSchedule"]),
        named("third", taints=["node.kubernetes.io/not-ready:NoSchedule"]),
        named("also-tainted", taints=["x=y:NoSchedule"]),
    )
    found = [(node.name, number) for node, number in kinds_of_nodes(cluster)]
    assert found == [("first", 3), ("tainted", 2), ("other-disk", 1), ("larger", 1)]


def test_a_new_node_comes_with_the_drivers_and_devices_of_its_model() -> None:
    driver = msgspec.convert({"metadata": {"name": "a"}, "spec": {"drivers": []}}, CSINode)
    other = msgspec.convert({"metadata": {"name": "b"}, "spec": {"drivers": []}}, CSINode)
    slices = [a_slice("on-a", a_device("d0"), node="a"), a_slice("on-b", a_device("d0"), node="b")]
    agent = build.a_pod("agent", nodeName="a", metadata={"ownerReferences": [an_owner("DaemonSet")]})
    web = build.a_pod("web", nodeName="a", metadata={"ownerReferences": [an_owner("ReplicaSet")]})
    cluster = build.a_cluster(build.a_node("a"), build.a_node("b"), driver, other, *slices, agent, web)
    for number, name in ((1, "a-copy-1"), (2, "a-copy-2")):
        edits = one_more_like(cluster, build.a_node("a"), number)
        put = [(type(edit.item).__name__, edit.item.name) for edit in edits if isinstance(edit, PutObject)]
        assert put == [("Node", name), ("CSINode", name), ("ResourceSlice", f"on-a-{name}")]
        assert [edit.pod.name for edit in edits if isinstance(edit, PlacePod)] == [f"agent-{name}"]


def an_owner(kind: str) -> Written:
    return {"apiVersion": "apps/v1", "kind": kind, "name": "x", "uid": "uid-x", "controller": True}


# ---- the choice of nodes


def test_only_so_many_sets_of_taints_and_lines_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = [a_node("a", "1", taints=[a_taint("a")]), a_node("b", taints=[a_taint("b")])]
    lines = a_node("c", labels={"one": "1", "two": "x"})
    picky = a_pod("wanted", "3", nodeSelector={"one": "1", "two": "2"})
    for most, tolerated, selected in (
        (1, [], ["drop-selection"]),
        (2, ["tolerate"], ["change-selector", "drop-selector"]),
    ):
        monkeypatch.setattr(relations, "MAX_TAINT_SETS", most)
        monkeypatch.setattr(node_choice, "MAX_LINES", most)
        assert [row[0] for row in rows_of(*nodes, a_pod("wanted", "3")) if row[0] == "tolerate"] == tolerated
        assert [row[0] for row in rows_of(lines, picky) if row[0] != "label-node"] == selected


def test_of_sets_of_taints_the_smallest_come_first_then_those_of_most_nodes() -> None:
    soft, cordon = "soft:PreferNoSchedule", "node.kubernetes.io/unschedulable:NoSchedule"
    taints = [["b=1:NoSchedule", "x:NoExecute"], ["rare:NoSchedule"], ["a:NoSchedule"], ["team=ml:NoSchedule", soft]]
    taints += [
        ["team=ml:NoSchedule"],
        ["known:NoSchedule"],
        ["known:NoSchedule", "z:NoSchedule"],
        [cordon, "y:NoSchedule"],
    ]
    cluster = build.a_cluster(*(build.a_node(f"n{i}", taints=each) for i, each in enumerate(taints)))
    pod = build.a_pod(tolerations=[{"key": "known", "operator": "Exists"}])
    found = [sorted(taint.key for taint in each) for each in relations.taint_sets(cluster.nodes, pod)]
    assert found == [["team"], ["a"], ["rare"], ["z"], ["b", "x"]]


def node_affinity(*terms: Written) -> Written:
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}}


def a_line(key: str, *values: str) -> Written:
    return {"key": key, "operator": "In", "values": list(values)}


def left_of(pod: Pod) -> Any:
    """The keys of each term of the required node affinity: those about labels, then those about fields."""
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None
    required = affinity.required if affinity is not None else None
    if required is None:
        return None
    return [
        ([e.key for e in term.match_expressions or ()], [f.key for f in term.match_fields or ()])
        for term in required.node_selector_terms or ()
    ]


def test_each_line_of_each_term_is_left_out_in_its_turn() -> None:
    """The last line of a term stays while there are other terms: without it the pod would ask for these."""
    terms = (
        {"matchExpressions": [a_line("a", "1"), a_line("b", "1")], "matchFields": [a_line("metadata.name", "x")]},
        {"matchExpressions": [a_line("c", "1")]},
    )
    pod = build.a_pod(affinity=node_affinity(*terms))
    changes = list(node_choice.affinity_lines(pod))
    term = "of the term (a In [1] and b In [1] and metadata.name In [x])"
    assert [(change.text, change.cost) for change in changes] == [
        (f"drop the required node affinity a In [1] {term}", 40),
        (f"drop the required node affinity b In [1] {term}", 40),
        (f"drop the required node affinity metadata.name In [x] {term}", 40),
        ("drop the whole of the required node affinity", 80),
    ]
    second: tuple[list[str], list[str]] = (["c"], [])
    assert [left_of(change.apply(pod)) for change in changes] == [
        [(["b"], ["metadata.name"]), second],
        [(["a"], ["metadata.name"]), second],
        [(["a", "b"], []), second],
        None,
    ]
    assert left_of(pod) == [(["a", "b"], ["metadata.name"]), second]
    bare = build.a_pod()
    assert [change.apply(bare) is bare for change in changes] == [True] * 4


def test_the_last_line_of_the_only_term_goes_with_the_affinity() -> None:
    pod = build.a_pod(affinity=node_affinity({"matchExpressions": [a_line("a", "1")]}))
    (change,) = node_choice.affinity_lines(pod)
    assert change.text == "drop the required node affinity a In [1]" and left_of(change.apply(pod)) is None
    other = build.a_pod(affinity=node_affinity({"matchExpressions": [a_line("b", "1")]}))
    assert change.apply(other) is other


def test_other_affinity_stays_when_the_choice_of_nodes_goes() -> None:
    affinity = {**node_affinity({"matchExpressions": [a_line("a", "1")]}), "podAffinity": required(a_term(app="web"))}
    form = node_choice.WidenSelection().relax(build.a_pod(affinity=affinity, nodeSelector={"x": "y"}))
    assert form is not None and form.spec.affinity is not None
    assert form.spec.affinity.pod_affinity is not None and left_of(form) is None and form.spec.node_selector is None
    assert (
        node_choice.WidenSelection().relax(build.a_pod(affinity={"podAffinity": required(a_term(app="web"))})) is None
    )
    assert node_choice.WidenSelection().relax(build.a_pod(affinity=node_affinity())) is not None


# ---- pods around


def test_only_hard_constraints_are_given_up_and_the_pod_keeps_the_others() -> None:
    soft = a_spread("hall", whenUnsatisfiable="ScheduleAnyway")
    form = SpreadLess().relax(build.a_pod(topologySpreadConstraints=[a_spread(), soft]))
    assert form is not None
    assert [each.topology_key for each in form.spec.topology_spread_constraints or ()] == ["hall"]
    form = SpreadLess().relax(build.a_pod(topologySpreadConstraints=[a_spread()]))
    assert form is not None and form.spec.topology_spread_constraints is None
    assert SpreadLess().relax(build.a_pod(topologySpreadConstraints=[soft])) is None
    assert SpreadLess().relax(build.a_pod()) is None


@pytest.mark.parametrize(("running", "skew", "enough"), [(1, 1, 2), (2, 1, 3), (5, 1, 6), (5, 3, 6)])
def test_the_skew_is_raised_to_the_smallest_that_helps(running: int, skew: int, enough: int) -> None:
    """All pods are in zone x, and zone y has no room."""
    pods = [a_pod(f"web-{i}", "100m", node="a", labels={"app": "web"}) for i in range(running)]
    spread = a_spread(maxSkew=skew)
    wanted = a_pod(
        "wanted",
        labels={"app": "web"},
        topologySpreadConstraints=[a_spread("hall", whenUnsatisfiable="ScheduleAnyway"), spread],
    )
    patient = a_patient(a_node("a", zone="x"), a_node("b", "100m", zone="y"), *pods, wanted)
    raised, preferred = SpreadLess().options(patient, patient.pod)
    assert raised.text == f"raise maxSkew over {ZONE} from {skew} to {enough}"
    after = raised.apply(patient.pod).spec.topology_spread_constraints or []
    assert [(each.topology_key, each.max_skew) for each in after] == [("hall", 1), (ZONE, enough)]
    after = preferred.apply(patient.pod).spec.topology_spread_constraints or []
    assert [each.when_unsatisfiable for each in after] == ["ScheduleAnyway", "ScheduleAnyway"]


def test_terms_of_both_kinds_go_and_preferences_stay() -> None:
    preferred = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": a_term(app="x")}]}
    affinity = {"podAffinity": {**required(a_term(app="a")), **preferred}, "podAntiAffinity": required(a_term(app="b"))}
    form = DropAffinity().relax(build.a_pod(affinity=affinity))
    assert form is not None and form.spec.affinity is not None
    near, apart = form.spec.affinity.pod_affinity, form.spec.affinity.pod_anti_affinity
    assert near is not None and near.required is None and len(near.preferred or ()) == 1
    assert apart is not None and apart.required is None
    assert DropAffinity().relax(build.a_pod(affinity={"podAffinity": preferred})) is None
    assert DropAffinity().relax(build.a_pod()) is None


def test_a_term_without_a_selector_is_about_no_pods() -> None:
    affinity = {"podAffinity": required({"topologyKey": HOSTNAME})}
    assert rows_of(a_node("a"), a_pod("wanted", affinity=affinity)) == [
        ("drop-affinity", f"drop the required pod affinity over {HOSTNAME} (no pods)", "a", 40),
    ]


def test_only_so_many_terms_and_ports_are_tried_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    web = with_ports(a_pod("web", node="a", labels={"app": "web"}, owner="DaemonSet/web"), 81)
    affinity = {"podAntiAffinity": required(a_term(app="db"), a_term(app="web"))}
    spreads = [a_spread(HOSTNAME), a_spread("rack")]
    for most, terms, constraints, ports in (
        (1, ["drop all required pod affinity and anti-affinity"], ["drop-spread"], ["80, 81"]),
        (2, [f"drop the required pod anti-affinity over {HOSTNAME} (app=web)"], ["prefer-spread"], ["81", "80, 81"]),
    ):
        monkeypatch.setattr(relations, "MAX_TERMS", most)
        rows = rows_of(a_node("a"), web, a_pod("wanted", affinity=affinity))
        assert [row[1] for row in rows if row[0] == "drop-affinity"] == terms
        rows = rows_of(a_node("a"), a_pod("wanted", topologySpreadConstraints=spreads))
        assert [row[0] for row in rows] == constraints
        rows = rows_of(a_node("a"), web, with_ports(a_pod("wanted"), 80, 81))
        assert [row[1].removeprefix("do without hostPort ") for row in rows if row[0] == "drop-port"] == ports


def test_a_pod_without_its_host_ports_leaves_the_network_of_the_node() -> None:
    pod = build.a_pod(host_ports=(80, 81), hostNetwork=True)
    form = DropHostPorts().relax(pod)
    assert form is not None and not form.spec.host_network
    assert [port.host_port for port in form.spec.containers[0].ports or ()] == [0, 0]
    assert DropHostPorts().relax(build.a_pod()) is None


# ---- other pods


def movable(patient: Patient, node: str) -> list[str]:
    row = patient.trials.cluster.nodes.row_book[node]
    return [pod.name for pod in other_pods.movable(patient, row)]


def test_pods_that_free_enough_come_first_the_smallest_of_them_before_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of 12 CPUs 1 is free and 4 are wanted: whoever has 3 or more frees enough."""
    sizes = {"five": "5", "one": "1", "three": "3", "two": "2"}
    pods = [a_pod(name, cpu, "64Mi", node="a") for name, cpu in sizes.items()]
    patient = a_patient(a_node("a", "12", "64Gi"), *pods, a_pod("wanted", "4", "1Gi"))
    assert movable(patient, "a") == ["three", "five", "two", "one"]
    monkeypatch.setattr(other_pods, "MAX_LEAVERS", 2)
    assert movable(patient, "a") == ["three", "five"]


def test_shares_of_several_resources_add_up_and_names_decide_between_equals() -> None:
    """Both resources are short by all that is wanted: what counts is how much of both a pod frees."""
    amounts = {
        "b-half": ("2", "2Gi"),
        "a-half": ("2", "2Gi"),
        "cpu": ("4", "1Gi"),
        "memory": ("1", "4Gi"),
        "most": ("3", "3Gi"),
    }
    pods = [a_pod(name, cpu, memory, node="a") for name, (cpu, memory) in amounts.items()]
    patient = a_patient(a_node("a", "12", "12Gi"), *pods, a_pod("wanted", "4", "4Gi"))
    assert movable(patient, "a") == ["most", "cpu", "memory", "a-half", "b-half"]


def test_nodes_that_lack_least_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """4 CPUs are wanted. The cordoned node is never near, whoever leaves it."""
    nodes = [a_node("a"), a_node("b", cordoned=True), a_node("c"), a_node("d"), a_node("e", "3")]
    held = {"a": "4", "b": "1", "c": "1", "d": "2"}
    pods = [a_pod(f"on-{name}", cpu, "64Mi", node=name) for name, cpu in held.items()]
    patient = a_patient(*nodes, *pods, a_pod("wanted", "4"))
    names = patient.trials.cluster.nodes.names
    assert [names[row] for row in other_pods.nearest_rows(patient)] == ["c", "d", "a"]
    monkeypatch.setattr(other_pods, "MAX_ROWS", 2)
    assert [names[row] for row in other_pods.nearest_rows(patient)] == ["c", "d"]


def test_a_higher_priority_costs_fifty_more_for_each_budget_that_it_breaks() -> None:
    others = [a_pod(name, "2", node="a", labels={"app": "web"}, priority=5) for name in ("one", "two")]
    for allowed, broken in ((0, 2), (1, 1), (2, 0)):
        cures = cures_of(a_node("a"), *others, a_written_budget(allowed), a_pod("wanted", "4", priority=0))
        (raised,) = [cure for cure in cures if cure.kind == "raise-priority"]
        assert (raised.broken_budgets, raised.cost) == (broken, 60 + 2 * 5 + 50 * broken)
        assert sorted(raised.victims) == ["default/one", "default/two"]
        (removed,) = [cure for cure in cures if cure.kind == "remove"]
        assert (removed.broken_budgets, removed.cost) == (broken, 80 + 50 * broken)


@pytest.mark.parametrize(
    ("classes", "text"),
    [
        ({}, ""),
        ({"low": 10}, ""),
        ({"exact": 11, "more": 12}, " (PriorityClass exact has 11)"),
        ({"z": 500, "a": 500, "higher": 501}, " (PriorityClass a has 500)"),
        ({"highest": 1_000_000_000}, " (PriorityClass highest has 1000000000)"),
        ({"system-cluster-critical": 2_000_000_000}, ""),
    ],
)
def test_the_class_with_the_smallest_sufficient_value_is_named(classes: dict[str, int], text: str) -> None:
    written_classes = [a_priority_class(name, value) for name, value in classes.items()]
    patient = a_patient(a_node("a"), *written_classes, a_pod("wanted"))
    assert priorities.class_for(patient, 11) == text


def test_priorities_that_can_make_a_difference_are_just_above_those_of_pods_on_nodes() -> None:
    highest = 1_000_000_000
    pods = [a_pod(f"p{each}", "100m", node="a", priority=each) for each in (-1, 0, 3, 7, highest - 1, highest)]
    patient = a_patient(a_node("a"), *pods, a_pod("wanted", priority=3))
    assert priorities.priorities_above(patient, 3) == [4, 8, highest]
    assert priorities.priorities_above(patient, 4) == [8, highest]
    assert priorities.priorities_above(patient, -5) == [0, 1, 4, 8, highest]


def test_a_pod_with_a_higher_priority_may_preempt_and_is_nominated_to_no_node() -> None:
    pod = build.a_pod(priority=1, preemptionPolicy="Never", status={"nominatedNodeName": "n", "phase": "Pending"})
    form = priorities.with_priority(pod, 7)
    assert (form.priority, form.spec.preemption_policy) == (7, "PreemptLowerPriority")
    assert (form.status.nominated_node_name, form.status.phase) == ("", "Pending")
    assert priorities.with_priority(build.a_pod(), 7).priority == 7


def test_no_more_than_three_pods_are_named_for_each_kind_of_leaving() -> None:
    """Pods of 1 CPU find room on node b for two of them; the others would have to go."""
    pods = [a_pod(f"p{i}", "1", "64Mi", node="a") for i in range(5)]
    wanted = a_pod("wanted", "1", "64Mi", nodeSelector={"disk": "ssd"})
    nodes = [a_node("a", "5", labels={"disk": "ssd"}), a_node("b", "1")]
    moves = [cure for cure in cures_of(*nodes, *pods, wanted) if cure.kind == "move"]
    assert [cure.change for cure in moves] == [f"move default/p{i} from a to b" for i in range(3)]
    removed = [cure for cure in cures_of(nodes[0], *pods, wanted) if cure.kind == "remove"]
    assert [cure.victims for cure in removed] == [(f"default/p{i}",) for i in range(3)]


# ---- volumes


def volume_edits(*objects: Written) -> tuple[PersistentVolume, PersistentVolumeClaim]:
    (cure,) = [cure for cure in cures_of(*objects) if cure.kind == "create-volume"]
    volume, claim = (edit.item for edit in cure.edits if isinstance(edit, PutObject))
    assert isinstance(volume, PersistentVolume) and isinstance(claim, PersistentVolumeClaim)
    return volume, claim


def a_claiming(name: str) -> Written:
    return a_pod("wanted", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": name}}])


def test_a_claim_that_a_pod_names_has_no_owner_and_a_volume_with_a_name_of_legal_length() -> None:
    name = "c" * 250
    volume, claim = volume_edits(a_node("a"), a_claiming(name))
    assert (claim.name, claim.namespace, claim.metadata.owner_references) == (name, "default", None)
    assert volume.name == claim.spec.volume_name == f"volume-for-default-{name}"[:253]
    assert len(volume.name) == 253
    assert volume.spec.claim_ref is not None
    assert (volume.spec.claim_ref.namespace, volume.spec.claim_ref.name) == ("default", name)


def test_a_new_volume_is_as_its_claim_wants_it() -> None:
    written_claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data", "namespace": "default", "uid": "u", "annotations": {"own": "x"}},
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "storageClassName": "fast",
            "volumeMode": "Block",
            "resources": {"requests": {"storage": "5Gi"}},
        },
    }
    volume, claim = volume_edits(a_node("a"), written_claim, a_claiming("data"))
    assert (volume.spec.access_modes, volume.spec.storage_class_name) == (["ReadWriteMany"], "fast")
    assert (volume.spec.volume_mode, volume.spec.capacity) == ("Block", {"storage": "5Gi"})
    assert claim.metadata.annotations == {"own": "x", "pv.kubernetes.io/bind-completed": "yes"}


# ---- devices


def test_no_devices_are_tried_for_a_pod_that_fits_nowhere_without_them_either() -> None:
    claim, pod = a_claim("mine", an_ask(5)), a_claiming_pod("wanted", "mine", nodeSelector={"disk": "ssd"})
    patient = patient_in(a_device_cluster(build.a_node("n"), TWO, a_class("gpu"), claim, pod))
    assert list(by_fewer_devices(patient)) == []
    assert patient.trials.decisions == 1
    bare = patient_in(a_device_cluster(build.a_node("n"), build.a_pod("wanted", schedulerName="default-scheduler")))
    assert list(by_fewer_devices(bare)) == []
    assert bare.trials.decisions == 0


def test_no_claim_gets_more_devices_than_a_claim_may_have() -> None:
    many = a_slice("many", *(a_device(f"dev-{i}") for i in range(34)), node="n")
    objects = [
        *(build.a_node("n"), many, a_class("gpu"), a_used_claim("used", "n/dev-0", node="n", by="other")),
        *(a_claiming_pod("other", "used", nodeName="n"), a_claim("mine", an_ask(mode="All"))),
    ]
    found = device_cures_of(a_device_cluster(*objects, a_claiming_pod("wanted", "mine")))
    assert [cure.change for cure in found if cure.kind == "fewer-devices"] == [
        "claim 32 devices instead of all (request r0 of ResourceClaim default/mine)"
    ]
    assert {cure.cost for cure in found if cure.kind == "fewer-devices"} == {40}


def test_only_so_many_other_classes_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    classes = [a_class(name, "false") for name in ("a", "b")] + [a_class("c")]
    claim = a_claim("mine", an_ask(device_class="a"))
    loaded = a_device_cluster(build.a_node("n"), TWO, *classes, claim, a_claiming_pod("wanted", "mine"))
    for most, found in (
        (2, []),
        (3, ["claim devices of class c instead of a (request r0 of ResourceClaim default/mine)"]),
    ):
        monkeypatch.setattr(claim_cures, "MAX_CLASSES", most)
        assert [cure.change for cure in device_cures_of(loaded) if cure.kind == "change-class"] == found


def in_use(*users: tuple[str, int], labels: dict[str, str] | None = None, owner: str = "") -> list[Any]:
    """A node with a device for each of these pods, which have these priorities."""
    owners = {"ownerReferences": [an_owner(owner)]} if owner else {}
    objects: list[Any] = [build.a_node("n"), a_class("gpu")]
    objects.append(a_slice("all", *(a_device(f"dev-{i}") for i in range(len(users))), node="n"))
    for i, (name, priority) in enumerate(users):
        objects.append(a_used_claim(f"of-{name}", f"n/dev-{i}", node="n", by=name))
        pod = a_claiming_pod(name, f"of-{name}", nodeName="n", priority=priority, labels=labels)
        pod.metadata.owner_references = build.a_pod(metadata=owners).metadata.owner_references
        objects.append(pod)
    return objects


def freed(*objects: Any, number: int = 1) -> list[tuple[tuple[str, ...], float, int]]:
    loaded = a_device_cluster(*objects, a_claim("mine", an_ask(number)), a_claiming_pod("wanted", "mine"))
    found = [cure for cure in device_cures_of(loaded) if cure.kind == "free-devices"]
    return [(cure.victims, cure.cost, cure.broken_budgets) for cure in found]


def test_the_users_of_lowest_priority_give_their_devices_back_first() -> None:
    users = (("a", 4), ("b", 1), ("c", 3), ("d", 2))
    assert freed(*in_use(*users)) == [(("default/b",), 70, 0), (("default/c",), 70, 0), (("default/d",), 70, 0)]


def test_two_users_that_leave_cost_ten_more_and_budgets_fifty_each() -> None:
    users = (("a", 0), ("b", 0))
    assert freed(*in_use(*users), number=2) == [(("default/a", "default/b"), 80, 0)]
    budget = msgspec.convert(a_written_budget(), PodDisruptionBudget, strict=False)
    assert freed(*in_use(*users, labels={"app": "web"}), budget, number=2) == [(("default/a", "default/b"), 180, 2)]


def test_a_user_that_comes_again_on_its_node_keeps_its_devices() -> None:
    assert freed(*in_use(("a", 0), owner="ReplicaSet")) == [(("default/a",), 70, 0)]
    assert freed(*in_use(("a", 0), owner="DaemonSet")) == []


def test_a_claim_that_is_kept_for_the_pod_itself_has_no_other_user() -> None:
    objects = [
        build.a_node("n"),
        TWO,
        a_class("gpu"),
        a_used_claim("held", "n/dev-0", "n/dev-1", node="n", by="wanted"),
    ]
    assert freed(*objects) == [((), 45, 0)]
    objects[-1] = a_used_claim("held", "n/dev-0", "n/dev-1", node="n", by="unknown")
    assert freed(*objects) == []


@pytest.mark.parametrize(
    ("claims", "paired", "number", "found"), [(1, 9, 1, 1), (2, 9, 1, 2), (9, 2, 2, 1), (9, 1, 2, 0)]
)
def test_only_so_many_claims_are_freed(
    claims: int, paired: int, number: int, found: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claim_cures, "MAX_CLAIMS", claims)
    monkeypatch.setattr(claim_cures, "MAX_PAIRED", paired)
    assert len(freed(*in_use(("a", 0), ("b", 0)), number=number)) == found


def test_a_distinct_attribute_and_one_of_two_selectors_are_named_when_they_go() -> None:
    apart = {"requests": ["r0"], "distinctAttribute": "gpu.example.com/model"}
    same = a_slice("two", a_device("dev-0", model="a"), a_device("dev-1", model="a"), node="n")
    claim = a_claim("mine", an_ask(2), constraints=[apart])
    found = device_cures_of(
        a_device_cluster(build.a_node("n"), same, a_class("gpu"), claim, a_claiming_pod("wanted", "mine"))
    )
    dropped = [(cure.change, cure.cost) for cure in found if cure.kind == "drop-constraint"]
    assert dropped == [("drop the constraint on gpu.example.com/model (of ResourceClaim default/mine)", 40)]
    claim = a_claim("mine", an_ask(1, "true", "false"))
    found = device_cures_of(
        a_device_cluster(build.a_node("n"), same, a_class("gpu"), claim, a_claiming_pod("wanted", "mine"))
    )
    (cure,) = [cure for cure in found if cure.kind == "drop-selector"]
    assert cure.change == "drop the selector false (request r0 of ResourceClaim default/mine)"
    (edit,) = cure.edits
    assert isinstance(edit, PutObject)
    written_claim = msgspec.to_builtins(edit.item)
    assert [
        each["cel"]["expression"] for each in written_claim["spec"]["devices"]["requests"][0]["exactly"]["selectors"]
    ] == ["true"]


@pytest.mark.parametrize(
    ("requests", "storage_class", "text", "capacity"),
    [
        ({"storage": "5Gi"}, "fast", " (5Gi, class fast)", {"storage": "5Gi"}),
        ({"storage": "5Gi"}, None, " (5Gi)", {"storage": "5Gi"}),
        ({}, "fast", " (class fast)", {}),
        (None, None, "", {}),
    ],
    ids=["size and class", "size", "class", "nothing"],
)
def test_a_claim_is_shown_by_the_size_and_class_that_it_has(
    requests: Written | None, storage_class: str | None, text: str, capacity: Written
) -> None:
    spec = {"storageClassName": storage_class, **({} if requests is None else {"resources": {"requests": requests}})}
    claim = msgspec.convert({"metadata": {"name": "c", "namespace": "d"}, "spec": spec}, PersistentVolumeClaim)
    assert claim_cures.what_is_asked(claim) == text
    volume = claim_cures.bound_edits(claim)[0]
    assert isinstance(volume, PutObject) and isinstance(volume.item, PersistentVolume)
    assert volume.item.spec.capacity == capacity


# ---- the end of a search


class Counted:
    """Something that makes decisions."""

    decisions = 3


def test_a_budget_is_used_up_with_its_last_decision() -> None:
    trials = Counted()
    budget = SearchBudget(trials, 2)
    assert budget.is_left() and not budget.was_exhausted
    trials.decisions = 4
    assert budget.is_left() and not budget.was_exhausted
    trials.decisions = 5
    assert not budget.is_left() and budget.was_exhausted
    trials.decisions = 4
    assert budget.is_left() and budget.was_exhausted, "it stays known"


def test_without_decisions_left_no_form_of_the_pod_is_tried() -> None:
    for decisions, node in ((0, None), (1, "a")):
        patient = a_patient(a_node("a"), a_pod("wanted"), decisions=decisions)
        assert patient.node_for(patient.pod) == node
        assert patient.trials.decisions == decisions
        assert patient.cured("kind", "text", 1) is None, "that was the last one"
        assert patient.trials.decisions == decisions


LIMITED = a_node("a", labels={"disk": "ssd"}, taints=[a_taint("team", "ml")])
SICK: dict[str, list[Written]] = {
    "two rules": [LIMITED, a_pod("wanted", nodeSelector={"disk": "hdd"})],
    "a gate and too much": [a_node("a"), a_pod("wanted", "9", schedulingGates=[{"name": "one"}])],
    "a gate": [a_node("a"), a_pod("wanted", schedulingGates=[{"name": "one"}])],
    "no room": [
        a_node("a", "4", "4Gi"),
        a_node("b", "1"),
        *(a_pod(name, "1", "64Mi", node="a", priority=2) for name in ("one", "two", "three")),
        a_pod("wanted", "3", "5Gi", priority=1),
    ],
    "nodes that are out of order": [
        a_node("a", cordoned=True),
        a_node("b", taints=[a_taint("node.kubernetes.io/not-ready")]),
        a_pod("wanted"),
    ],
    "ports": [a_node("a"), with_ports(a_pod("other", node="a"), 80), with_ports(a_pod("wanted"), 80)],
}


@pytest.mark.parametrize("objects", SICK.values(), ids=SICK.keys())
def test_a_search_may_end_after_any_number_of_decisions(objects: list[Written]) -> None:
    """Each cure that it has found until then was tried."""
    loaded = load(list(objects))
    answers = [find_cures(Counterfactual(loaded), loaded.pod("wanted"), decisions) for decisions in (*range(25), 200)]
    assert all(cure.node for answer in answers for cure in answer.found)
    ended = [answer.gave_up for answer in answers]
    assert ended[0] and not ended[-1] and ended == sorted(ended, reverse=True), "more decisions are never too few"
    whole = kinds(cures_of(*objects))
    assert all(kinds([*answer.found]) == whole for answer in answers if not answer.gave_up)


def test_a_gate_is_a_part_of_the_cure_where_more_is_in_the_way() -> None:
    (cure,) = cures_of(*SICK["a gate and too much"])
    text = "remove the scheduling gate one, and lower the cpu request of container main from 9 to 4"
    assert (cure.kind, cure.change) == ("remove-gate+lower-request", text)
    assert pod_after(cure).spec.scheduling_gates is None


def test_no_pod_is_tried_after_the_last_decision() -> None:
    pods = [a_pod(f"p{i}", "1", "64Mi", node="a") for i in range(4)]
    patient = a_patient(a_node("a"), *pods, a_pod("wanted", "1"), decisions=0)
    leavers = [(pod,) for pod in patient.trials.cluster.nodes.pods()]
    assert list(other_pods.by_leavers(patient, leavers)) == []
    assert patient.trials.decisions == 0
    found = list(other_pods.by_leavers(a_patient(a_node("a"), *pods, a_pod("wanted", "1")), leavers))
    assert kinds(found) == ["remove"] * 3


def test_no_pod_is_tried_after_three_of_each_kind_were_found() -> None:
    """Small pods find room on node b, and large ones do not."""
    nodes = [a_node("a", "6", labels={"disk": "ssd"}), a_node("b", "500m")]
    sizes = {**{f"small-{i}": "500m" for i in range(4)}, **{f"large-{i}": "1" for i in range(4)}}
    pods = [a_pod(name, cpu, "64Mi", node="a") for name, cpu in sizes.items()]
    wanted = a_pod("wanted", "500m", "64Mi", nodeSelector={"disk": "ssd"})
    made = []
    for number in (3, 4):
        patient = a_patient(*nodes, *pods, wanted)
        all_pods = {pod.name: pod for pod in patient.trials.cluster.nodes.pods()}
        names = [f"{size}-{i}" for size in ("small", "large") for i in range(number)]
        found = list(other_pods.by_leavers(patient, [(all_pods[name],) for name in names]))
        assert kinds(found) == ["move"] * 3 + ["remove"] * 3
        made.append(patient.trials.decisions)
        last = list(other_pods.by_leavers(patient, [(all_pods[name],) for name in [*names[:3], *names[number:]]]))
        assert kinds(last) == kinds(found)
    assert made[0] < made[1] <= made[0] + 3, "only the fourth small pod is tried, not the fourth large one"


# ---- pairs of changes


def test_another_first_change_is_tried_where_the_second_finds_nothing_beside_the_first() -> None:
    """With 3 CPUs the pod fits on the node that is not ready alone, and nobody tolerates that."""
    nodes = [
        a_node("a", "3", taints=[a_taint("node.kubernetes.io/not-ready")]),
        a_node("b", "4", "2Gi", taints=[a_taint("team", "ml")]),
    ]
    rows = rows_of(*nodes, a_pod("wanted", "4", "4Gi"))
    assert [row for row in rows if "+" in row[0]] == [
        (
            "lower-request+tolerate",
            "lower the memory request of container main from 4Gi to 2048Mi, and tolerate the taint team=ml:NoSchedule",
            "b",
            20 + 60 * 0.5 + 30,
        ),
        (
            "remove-taint+lower-request",
            "remove the taint team=ml:NoSchedule from node b, "
            "and lower the memory request of container main from 4Gi to 2048Mi",
            "b",
            45 + 20 + 60 * 0.5,
        ),
        (
            "mend-node+lower-request",
            "mend node a, which has the taint node.kubernetes.io/not-ready, "
            "and lower the cpu request of container main from 4 to 3",
            "a",
            85 + 20 + 60 * 0.25,
        ),
    ]


# ---- shares of scarce resources


def with_gpus(written_object: Written, number: int) -> Written:
    if written_object["kind"] == "Node":
        written_object["status"]["allocatable"][GPU] = str(number)
    else:
        written_object["spec"]["containers"][0]["resources"]["requests"][GPU] = str(number)
    return written_object


def test_a_single_device_counts_as_much_as_all_cpus() -> None:
    """4 CPUs and 1 GPU are wanted. `cpu` frees 3 CPUs, so that it lacks 1/4 and a GPU; `gpu` lacks all CPUs."""
    node = with_gpus(a_node("a", "8", "64Gi"), 1)
    pods = [a_pod("cpu", "3", "64Mi", node="a"), with_gpus(a_pod("gpu", "0", "64Mi", node="a"), 1)]
    rest = a_pod("rest", "5", "64Mi", node="a", owner="DaemonSet/x")
    patient = a_patient(node, *pods, rest, with_gpus(a_pod("wanted", "4"), 1))
    assert movable(patient, "a") == ["gpu", "cpu"]


def test_what_is_not_wanted_does_not_make_a_pod_larger() -> None:
    lean, rich = a_pod("lean", "4", "0", node="a"), a_pod("rich", "3", "9Gi", node="a")
    wanted = build.a_pod("wanted", cpu="3", schedulerName="default-scheduler", metadata={"uid": "uid-wanted"})
    patient = a_patient(a_node("a", "7", "64Gi"), lean, rich, a_pod("wanted", "3", "0"))
    assert "memory" not in wanted.shape.request
    patient = Patient(wanted, patient.trials, patient.budget)
    assert movable(patient, "a") == ["rich", "lean"]


def test_a_node_without_a_free_device_lacks_more_than_one_with_half_of_the_cpus() -> None:
    nodes = [with_gpus(a_node("a"), 1), with_gpus(a_node("b"), 1)]
    pods = [with_gpus(a_pod("on-a", "0", "64Mi", node="a"), 1), a_pod("on-b", "2", "64Mi", node="b")]
    patient = a_patient(*nodes, *pods, with_gpus(a_pod("wanted", "4"), 1))
    names = patient.trials.cluster.nodes.names
    assert [names[row] for row in other_pods.nearest_rows(patient)] == ["b", "a"]
