"""All cures by changes of the pod and its nodes, with their costs: nothing else is named, nothing costs more or less."""

from typing import Any

import pytest
from cure_lists import cures_of, rows_of
from written import Written, a_node, a_pod

from mooring.answers.explain.cure_search import find_cures
from mooring.answers.trial.counterfactual import ChangePod, Counterfactual, PutObject
from mooring.inputs.loaded_cluster import load
from mooring.model.storage import PersistentVolume, PersistentVolumeClaim

ZONE, HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
ADD_A = "add a node like a (the only one of its kind)"


def a_taint(key: str, value: str = "", effect: str = "NoSchedule") -> Written:
    return {"key": key, "value": value, "effect": effect}


def required(*terms: Written) -> Written:
    return {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}


def a_term(key: str = HOSTNAME, **labels: str) -> Written:
    return {"topologyKey": key, "labelSelector": {"matchLabels": labels}}


def a_spread(key: str = ZONE, **more: Any) -> Written:
    selector = {"matchLabels": {"app": "web"}}
    return {
        "maxSkew": 1,
        "topologyKey": key,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": selector,
        **more,
    }


def with_ports(pod: Written, *ports: int) -> Written:
    pod["spec"]["containers"][0]["ports"] = [{"containerPort": port, "hostPort": port} for port in ports]
    return pod


# ---- requests


def test_half_of_a_request_given_up_costs_half_of_sixty_more() -> None:
    assert rows_of(a_node("a"), a_pod("wanted", "8")) == [
        ("lower-request", "lower the cpu request of container main from 8 to 4", "a", 50),
    ]


def test_memory_is_lowered_in_whole_mebibytes() -> None:
    assert rows_of(a_node("a", memory="1500000Ki"), a_pod("wanted", "1", "2Gi")) == [
        # 1464 whole Mi fit into 1500000 Ki; 584 of 2048 are given up.
        (
            "lower-request",
            "lower the memory request of container main from 2Gi to 1464Mi",
            "a",
            round(20 + 60 * 584 / 2048, 1),
        ),
    ]


def test_requests_lowered_together_cost_as_the_one_that_gives_up_most() -> None:
    assert rows_of(a_node("a", "3", "1Gi"), a_pod("wanted", "4", "4Gi")) == [
        (
            "lower-request",
            "lower the cpu request of container main from 4 to 3 and the memory request of container main from 4Gi to 1024Mi",
            "a",
            20 + 60 * 3 / 4,
        ),
    ]


# ---- taints


def test_taint_sets_are_tried_the_smallest_first_then_those_of_most_nodes() -> None:
    two = [a_taint("team", "ml"), a_taint("gpu", effect="NoExecute")]
    nodes = [
        a_node("a", taints=two),
        a_node("b", taints=[a_taint("rare")]),
        a_node("c", taints=[a_taint("team", "ml")]),
        a_node("d", taints=[a_taint("team", "ml")]),
    ]
    assert [row for row in rows_of(*nodes, a_pod("wanted")) if row[0] == "tolerate"] == [
        ("tolerate", "tolerate the taint rare:NoSchedule", "b", 30),
        ("tolerate", "tolerate the taint team=ml:NoSchedule", "c", 30),
        ("tolerate", "tolerate the taint gpu:NoExecute and team=ml:NoSchedule", "a", 60),
    ]


def test_neither_tolerated_nor_soft_taints_are_named() -> None:
    taints = [a_taint("soft", effect="PreferNoSchedule"), a_taint("known"), a_taint("new")]
    pod = a_pod("wanted", tolerations=[{"key": "known", "operator": "Exists"}])
    assert rows_of(a_node("a", taints=taints), pod) == [
        ("tolerate", "tolerate the taint new:NoSchedule", "a", 30),
        ("remove-taint", "remove the taint new:NoSchedule from node a", "a", 45),
    ]


def test_a_node_of_any_taint_is_mended_but_not_tolerated_if_kubernetes_set_one() -> None:
    taints = [a_taint("node.kubernetes.io/not-ready"), a_taint("node.kubernetes.io/memory-pressure")]
    keys = "node.kubernetes.io/not-ready, node.kubernetes.io/memory-pressure"
    assert rows_of(a_node("a", taints=taints), a_pod("wanted")) == [
        ("mend-node", f"mend node a, which has the taint {keys}", "a", 85),
        ("add-node", ADD_A, "a-copy-1", 90),
    ]


def test_a_cordoned_node_is_uncordoned_or_joined_by_another() -> None:
    nodes = [a_node(name, cordoned=True, taints=[a_taint("node.kubernetes.io/unschedulable")]) for name in "ab"]
    assert rows_of(*nodes, a_pod("wanted")) == [
        ("uncordon", "uncordon node a", "a", 10),
        ("uncordon", "uncordon node b", "b", 10),
        ("add-node", "add a node like a (2 like it)", "a-copy-1", 90),
    ]


def test_a_cordoned_node_keeps_its_other_taints() -> None:
    taints = [a_taint("node.kubernetes.io/unschedulable"), a_taint("team", "ml")]
    assert "uncordon" not in [row[0] for row in rows_of(a_node("a", cordoned=True, taints=taints), a_pod("wanted"))]


# ---- the choice of nodes


def test_a_line_of_the_node_selector_changes_its_value_or_goes() -> None:
    selector = {"disk": "hdd", "arch": "x86"}
    node = a_node("a", labels={"disk": "ssd", "arch": "x86"})
    assert rows_of(node, a_pod("wanted", nodeSelector=selector)) == [
        ("change-selector", "select disk=ssd instead of disk=hdd", "a", 39),
        ("drop-selector", "drop the node selector disk=hdd", "a", 40),
        ("label-node", "label node a with disk=hdd instead of disk=ssd", "a", 65),
    ]


def test_a_line_of_the_node_selector_whose_label_no_node_has_goes() -> None:
    assert rows_of(a_node("a"), a_pod("wanted", nodeSelector={"disk": "hdd"})) == [
        ("drop-selector", "drop the node selector disk=hdd", "a", 40),
        ("label-node", "label node a with disk=hdd", "a", 45),
    ]


def test_the_whole_choice_of_nodes_goes_if_no_line_alone_is_in_the_way() -> None:
    assert rows_of(a_node("a"), a_pod("wanted", nodeSelector={"disk": "hdd", "arch": "arm"})) == [
        ("drop-selection", "drop the whole of the node selector", "a", 80),
        ("label-node", "label node a with disk=hdd and arch=arm", "a", 90),
    ]


def test_a_selector_and_an_affinity_go_together() -> None:
    line = {"key": "arch", "operator": "Exists"}
    affinity = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [line]}]}
        }
    }
    cures = cures_of(a_node("a"), a_pod("wanted", nodeSelector={"disk": "hdd"}, affinity=affinity))
    assert [(cure.kind, cure.change, cure.cost) for cure in cures] == [
        ("drop-selection", "drop the whole of the node selector and the required node affinity", 80),
        ("label-node", "label node a with disk=hdd and arch=true", 90),
    ]
    edit = cures[0].edits[0]
    assert isinstance(edit, ChangePod) and edit.pod.spec.node_selector is None
    assert edit.pod.spec.affinity is not None and edit.pod.spec.affinity.node_affinity is not None
    assert edit.pod.spec.affinity.node_affinity.required is None


def test_a_line_about_fields_goes_and_the_lines_about_labels_stay() -> None:
    term = {
        "matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}],
        "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["gone"]}],
    }
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}
    nodes = [a_node("a"), a_node("b", labels={"disk": "ssd"})]
    assert rows_of(*nodes, a_pod("wanted", affinity=affinity)) == [
        ("drop-affinity", "drop the required node affinity metadata.name In [gone]", "b", 40),
    ]


# ---- the pods around


def test_the_larger_skew_costs_less_than_the_preference() -> None:
    web = a_pod("web", "2", node="a", labels={"app": "web"}, owner="DaemonSet/web")
    nodes = [a_node("a", zone="x"), a_node("b", "100m", zone="y")]
    wanted = a_pod("wanted", labels={"app": "web"}, topologySpreadConstraints=[a_spread()])
    rows = [row for row in rows_of(*nodes, web, wanted) if "spread" in row[1] or "maxSkew" in row[1]]
    assert rows == [
        ("raise-skew", f"raise maxSkew over {ZONE} from 1 to 2", "a", 39),
        (
            "prefer-spread",
            f"make the spread over {ZONE} a preference (whenUnsatisfiable: ScheduleAnyway)",
            "a",
            40,
        ),
    ]


def test_all_spread_constraints_that_nodes_cannot_satisfy_become_preferences() -> None:
    spreads = [a_spread("rack"), a_spread("row"), a_spread("hall", whenUnsatisfiable="ScheduleAnyway")]
    cures = cures_of(a_node("a"), a_pod("wanted", topologySpreadConstraints=spreads))
    assert [(cure.kind, cure.change, cure.cost) for cure in cures] == [
        ("drop-spread", "make all spread constraints ScheduleAnyway", 80),
    ]
    edit = cures[0].edits[0]
    assert isinstance(edit, ChangePod)
    constraints = edit.pod.spec.topology_spread_constraints or ()
    assert [each.topology_key for each in constraints] == ["rack", "row", "hall"]
    assert {each.when_unsatisfiable for each in constraints} == {"ScheduleAnyway"}


def test_one_constraint_that_suffices_is_enough() -> None:
    spreads = [a_spread("rack"), a_spread(HOSTNAME)]
    assert rows_of(a_node("a"), a_pod("wanted", topologySpreadConstraints=spreads)) == [
        (
            "prefer-spread",
            "make the spread over rack a preference (whenUnsatisfiable: ScheduleAnyway)",
            "a",
            40,
        ),
    ]


def test_one_term_of_an_affinity_goes_and_the_others_stay() -> None:
    affinity = {"podAffinity": required(a_term(app="db"), a_term(app="web"))}
    cures = cures_of(
        a_node("a"),
        a_pod("db", node="a", labels={"app": "db"}, owner="DaemonSet/db"),
        a_pod("wanted", affinity=affinity),
    )
    assert [(cure.kind, cure.change, cure.node, cure.cost) for cure in cures] == [
        ("drop-affinity", f"drop the required pod affinity over {HOSTNAME} (app=web)", "a", 40),
    ]
    edit = cures[0].edits[0]
    assert isinstance(edit, ChangePod) and edit.pod.spec.affinity is not None
    group = edit.pod.spec.affinity.pod_affinity
    assert group is not None
    left = [each.label_selector.match_labels for each in group.required or () if each.label_selector is not None]
    assert left == [{"app": "db"}]


def test_all_terms_go_if_no_term_alone_is_in_the_way() -> None:
    affinity = {"podAffinity": required(a_term(app="db"), a_term(app="web"))}
    assert rows_of(a_node("a"), a_pod("wanted", affinity=affinity)) == [
        ("drop-affinity", "drop all required pod affinity and anti-affinity", "a", 80),
    ]


@pytest.mark.parametrize(
    ("selector", "text"),
    [
        ({"matchLabels": {"app": "web", "tier": "1"}}, "app=web, tier=1"),
        ({"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]}, "app In [web]"),
        ({}, "all pods"),
    ],
)
def test_a_term_is_shown_by_what_it_selects(selector: Written, text: str) -> None:
    affinity = {"podAntiAffinity": required({"topologyKey": HOSTNAME, "labelSelector": selector})}
    web = a_pod("web", node="a", labels={"app": "web", "tier": "1"}, owner="DaemonSet/web")
    rows = rows_of(a_node("a"), web, a_pod("wanted", affinity=affinity))
    assert rows[0][1] == f"drop the required pod anti-affinity over {HOSTNAME} ({text})"


def test_one_host_port_goes_or_all_of_them() -> None:
    taken = with_ports(a_pod("other", node="a", owner="DaemonSet/other"), 8080)
    cures = cures_of(a_node("a"), taken, with_ports(a_pod("wanted"), 8080, 9090))
    ports = [(cure.change, cure.cost) for cure in cures if cure.kind == "drop-port"]
    assert ports == [("do without hostPort 8080", 40), ("do without hostPort 8080, 9090", 80)]
    edit = cures[0].edits[0]
    assert isinstance(edit, ChangePod)
    assert [port.host_port for port in edit.pod.spec.containers[0].ports or ()] == [0, 9090]


def test_all_host_ports_go_if_each_is_taken() -> None:
    taken = with_ports(a_pod("other", node="a", owner="DaemonSet/other"), 8080, 9090)
    rows = rows_of(a_node("a"), taken, with_ports(a_pod("wanted"), 8080, 9090))
    assert [row for row in rows if row[0] == "drop-port"] == [
        ("drop-port", "do without hostPort 8080, 9090", "a", 80),
    ]


# ---- gates, volumes, two changes


def test_two_gates_go_together() -> None:
    assert rows_of(a_node("a"), a_pod("wanted", schedulingGates=[{"name": "one"}, {"name": "two"}])) == [
        ("remove-gate", "remove the scheduling gate one, two", "a", 10),
    ]


def test_a_volume_costs_forty_five_for_each_claim() -> None:
    volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in ("data", "logs")]
    assert rows_of(a_node("a"), a_pod("wanted", volumes=volumes)) == [
        (
            "create-volume",
            "create the PersistentVolumeClaim default/data (1Gi) with a volume and "
            "create the PersistentVolumeClaim default/logs (1Gi) with a volume",
            "a",
            90,
        ),
    ]


def test_a_claim_that_no_controller_has_created_yet_gets_its_owner_and_a_bound_volume() -> None:
    template = {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}
    volumes = [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}]
    loaded = load([a_node("a"), a_pod("wanted", volumes=volumes)])
    trials = Counterfactual(loaded)
    trials.cluster.remove(PersistentVolumeClaim, "default/wanted-scratch")
    (cure,) = find_cures(trials, loaded.pod("wanted")).found
    assert (cure.kind, cure.change, cure.cost) == (
        "create-volume",
        "create the PersistentVolumeClaim default/wanted-scratch (1Gi) with a volume",
        45,
    )
    volume, claim = (edit.item for edit in cure.edits if isinstance(edit, PutObject))
    assert isinstance(volume, PersistentVolume) and isinstance(claim, PersistentVolumeClaim)
    owner = (claim.metadata.owner_references or [])[0]
    assert (owner.api_version, owner.kind, owner.name, owner.uid, owner.controller) == (
        "v1",
        "Pod",
        "wanted",
        "uid-wanted",
        True,
    )
    assert volume.name == claim.spec.volume_name == "volume-for-default-wanted-scratch"
    assert claim.spec.access_modes == volume.spec.access_modes == ["ReadWriteOnce"]
    assert (claim.metadata.annotations or {})["pv.kubernetes.io/bind-completed"] == "yes"
    assert claim.status is not None and claim.status.phase == "Bound"
    assert volume.status is not None and volume.status.phase == "Bound"
    assert volume.spec.capacity == {"storage": "1Gi"}


def a_written_claim(name: str, volume: str = "", **spec: Any) -> Written:
    annotations = {"pv.kubernetes.io/bind-completed": "yes"} if volume else {}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}", "annotations": annotations},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            **({"volumeName": volume} if volume else {}),
            **spec,
        },
    }


def test_claims_that_have_a_volume_are_left_alone_and_others_are_shown_by_what_they_ask_for() -> None:
    disk = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "disk"},
        "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]},
    }
    claims = [a_written_claim("bound", "disk"), a_written_claim("fast", storageClassName="ssd"), a_written_claim("any")]
    volumes = [{"name": n, "persistentVolumeClaim": {"claimName": n}} for n in ("bound", "fast", "any")]
    rows = rows_of(a_node("a"), disk, *claims, a_pod("wanted", volumes=volumes))
    assert rows == [
        (
            "create-volume",
            "create a volume for the PersistentVolumeClaim default/fast (1Gi, class ssd) and "
            "create a volume for the PersistentVolumeClaim default/any (1Gi)",
            "a",
            90,
        ),
    ]


def test_two_changes_cost_their_sum_and_each_pair_is_named_once() -> None:
    node = a_node("a", labels={"disk": "ssd"}, taints=[a_taint("team", "ml")])
    assert rows_of(node, a_pod("wanted", nodeSelector={"disk": "hdd"})) == [
        (
            "tolerate+change-selector",
            "tolerate the taint team=ml:NoSchedule, and select disk=ssd instead of disk=hdd",
            "a",
            69,
        ),
        (
            "tolerate+drop-selector",
            "tolerate the taint team=ml:NoSchedule, and drop the node selector disk=hdd",
            "a",
            70,
        ),
        (
            "remove-taint+change-selector",
            "remove the taint team=ml:NoSchedule from node a, and select disk=ssd instead of disk=hdd",
            "a",
            84,
        ),
    ]
