"""Every part of the answer of `capacity`, word for word, and which counts are worked out at once."""

from typing import Any

import pytest
from written import GROUP_GATES, Written, a_node, a_pod, a_pod_group

from mooring.answers.capacity.capacity import Capacity, capacity
from mooring.answers.capacity.filling import CopyPlacer, Filling, PodCopies, fill_at_once, fill_one_by_one, pod_copies
from mooring.answers.capacity.gangs import gang_of, gangs_at_once, gangs_one_by_one
from mooring.answers.form.data_table import DataTable
from mooring.framework.contract.plain import NodeView, PlainPlugin
from mooring.inputs.input_errors import InputError
from mooring.inputs.loaded_cluster import LoadedCluster, load
from mooring.model.pod import Pod

GI = 1 << 30
CONFIG = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
EXTENDER = {"urlPrefix": "http://extender.example", "filterVerb": "filter"}
NODES = (a_node("large", "8", zone="a"), a_node("small", "3"))
SHORT = {"plugin": "NodeResourcesFit", "reasons": ["Insufficient cpu"]}


def a_mix() -> Capacity:
    """Turns of one web pod (2 cpu) and two db pods (1 cpu): 7 + 3 cpu are free, so the second db of turn 3 has no room."""
    loaded = load([*NODES, a_pod("old", node="large"), a_pod("wait")], config={**CONFIG, "extenders": [EXTENDER]})
    return capacity(loaded, a_pod("web", "2"), mix=[(a_pod("db"), 2)])


def values(table: DataTable) -> list[dict[str, object]]:
    return [dict(zip(table.columns, row, strict=True)) for row in table.rows]


# ---- the forms of the answer


def test_the_content_of_a_mix_has_each_pod_each_node_and_the_limit() -> None:
    reason = {"plugin": "NodeResourcesFit", "message": "Insufficient cpu", "nodes": 2, "resource": "cpu"}
    reason |= {"requested": 1000, "mostFree": 0, "bestNode": "large", "largest": 8000, "fitsNoNode": False}
    assert a_mix().content() == {
        "pods": [
            {"name": "Pod default/web", "inTurn": 1, "fits": 3},
            {"name": "Pod default/db", "inTurn": 2, "fits": 4},
        ],
        "fits": 7,
        "limit": {
            "pod": "Pod default/db",
            "message": "0/2 nodes are available: 2 Insufficient cpu.",
            "reasons": [reason],
        },
        "perNode": [
            {
                "node": "large",
                "pods": 4,
                "byPod": {"Pod default/web": 3, "Pod default/db": 1},
                "free": {"cpu": 0, "memory": 3 * GI, "pods": 105},
                "stoppedBy": SHORT,
            },
            {
                "node": "small",
                "pods": 3,
                "byPod": {"Pod default/db": 3},
                "free": {"cpu": 0, "memory": 5 * GI, "pods": 107},
                "stoppedBy": SHORT,
            },
        ],
        "notes": ["1 pending pod of the cluster left out", "1 extender of the configuration not called"],
    }


def test_the_printed_tables_of_a_mix_have_a_column_for_each_kind() -> None:
    nodes, zones, reasons, victims = a_mix().tables()
    kinds = ("Pod default/web", "Pod default/db")
    assert (nodes.title, nodes.is_detail) == ("Nodes", False)
    assert nodes.columns == ("node", "pods", *kinds, "cpu left", "memory left", "pods left", "stops the next")
    assert nodes.rows == [
        ("large", 4, 3, 1, "0", "3Gi", "105", "Insufficient cpu"),
        ("small", 3, 0, 3, "0", "5Gi", "107", "Insufficient cpu"),
    ]
    assert (zones.title, zones.columns, zones.rows) == ("Zones", ("zone", "nodes", "pods"), [("-", 1, 3), ("a", 1, 4)])
    assert (reasons.title, reasons.is_detail) == ("What stops the next pod", True)
    assert reasons.columns == ("nodes", "plugin", "reason", "requested", "largest free", "on node")
    assert reasons.rows == [(2, "NodeResourcesFit", "Insufficient cpu", "1", "0", "large")]
    assert (victims.title, victims.rows) == ("Victims", [])


def test_the_data_tables_of_a_mix_have_plain_numbers() -> None:
    tables = a_mix().data_tables()
    assert values(tables["nodes"]) == [
        {
            "node": node,
            "zone": zone,
            "fits": fits,
            "fits of Pod default/web": web,
            "fits of Pod default/db": db,
            "cpu_free_milli": 0,
            "memory_free_bytes": memory,
            "pods_free": pods,
            "stopped_by_plugin": "NodeResourcesFit",
            "stopped_by": "Insufficient cpu",
        }
        for node, zone, fits, web, db, memory, pods in (
            ("large", "a", 4, 3, 1, 3 * GI, 105),
            ("small", None, 3, 0, 3, 5 * GI, 107),
        )
    ]
    limit = {"plugin": "NodeResourcesFit", "message": "Insufficient cpu", "nodes": 2, "resource": "cpu"}
    assert values(tables["limits"]) == [{**limit, "requested": 1000, "most_free": 0, "best_node": "large"}]


@pytest.mark.parametrize(
    ("spec", "plugin", "message"),
    [
        ({"schedulingGates": [{"name": "wait"}]}, "SchedulingGates", "waiting for scheduling gates: [wait]"),
        ({"schedulerName": "nobody"}, "", 'no profile has the scheduler name "nobody"'),
    ],
    ids=["a gate", "a scheduler name without a profile"],
)
def test_a_reason_that_no_node_gives_has_no_number_of_nodes(spec: Written, plugin: str, message: str) -> None:
    answer = capacity(load([*NODES]), a_pod("web", **spec))
    assert answer.content()["limit"] == {
        "pod": "Pod default/web",
        "message": message,
        "reasons": [{"plugin": plugin, "message": message, "nodes": 0}],
    }
    assert answer.summary() == ["Pod default/web: 0 more pods fit.", f"What stops the next one: {message}."]
    assert answer.tables()[2].rows == [(0, plugin or "-", message, "-", "-", "-")]
    assert [(row[1], row[-1]) for row in answer.tables()[0].rows] == [(0, "-"), (0, "-")]
    assert [each["stoppedBy"] for each in answer.content()["perNode"]] == [None, None]
    assert answer.data_tables()["limits"].rows[0][3:] == (None, None, None, None)


def test_nodes_that_pre_filter_leaves_out_are_counted_with_their_reason() -> None:
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["small"]}]}
    rule = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}
    answer = capacity(load([*NODES]), a_pod("web", "2", affinity=rule))
    assert answer.summary() == [
        "Pod default/web: 1 more pod fits on 1 of 2 nodes.",
        "What stops the next one: 1 node: Insufficient cpu (wants 2, largest free 1 on small); "
        "1 node: node(s) didn't satisfy plugin(s) [NodeAffinity].",
    ]


def test_a_limit_has_its_number_and_no_reasons() -> None:
    answer = capacity(load([*NODES]), a_pod("web"), most=1)
    assert answer.content()["limit"] == {"pod": "Pod default/web", "max": 1, "reasons": []}
    assert answer.summary() == [
        "Pod default/web: at least 1 more pod fits on 1 of 2 nodes.",
        "The count stopped at the limit of 1 pod.",
    ]


def test_nodes_of_one_zone_have_no_table_of_zones() -> None:
    assert not capacity(load([NODES[0]]), a_pod("web")).tables()[1].rows


def asked(loaded: LoadedCluster, option: str, number: int) -> Capacity:
    more: dict[str, Any] = {option: number}
    return capacity(loaded, a_pod("web"), **more)


@pytest.mark.parametrize(("option", "largest"), [("most", 1_000_000), ("gang", 10_000)])
def test_the_largest_number_is_taken_and_the_next_is_not(option: str, largest: int) -> None:
    loaded = load([a_node("n", "1")], feature_gates=GROUP_GATES)
    for number in (1, largest):
        asked(loaded, option, number)
    with pytest.raises(InputError, match=f"^{option}: Invalid value: {largest + 1}: must be from 1 to {largest}$"):
        asked(loaded, option, largest + 1)


# ---- at once


class AnyNode(PlainPlugin):
    """A filter of a user that lets every node pass."""

    name = "AnyNode"

    def filter(self, pod: Pod, node: NodeView) -> str | None:
        return None


def at_once(loaded: LoadedCluster, pod: Written) -> Filling | None:
    (copies,) = pod_copies(loaded, pod)
    return fill_at_once(CopyPlacer(loaded), copies)


def test_a_plain_pod_is_counted_at_once() -> None:
    filling = at_once(load([*NODES, a_pod("old", node="large")]), a_pod("web", "2"))
    assert filling is not None and filling.fits == 4
    assert filling.pods == {("large", "Pod default/web"): 3, ("small", "Pod default/web"): 1}


def test_plugins_of_users_gates_and_ports_are_not_counted_at_once() -> None:
    own = {**CONFIG, "profiles": [{"plugins": {"multiPoint": {"enabled": [{"name": "AnyNode"}]}}}]}
    assert at_once(load([*NODES], config=own, plugins=[AnyNode]), a_pod("web")) is None
    assert at_once(load([*NODES]), a_pod("web", schedulingGates=[{"name": "wait"}])) is None
    assert at_once(load([*NODES]), a_pod("web", schedulerName="nobody")) is None
    port = {"name": "c", "image": "i", "ports": [{"containerPort": 80, "hostPort": 80}]}
    assert at_once(load([*NODES]), a_pod("web", containers=[port])) is None


def test_gangs_are_counted_at_once_as_one_after_another() -> None:
    loaded = load([a_node("n1", "4"), a_node("n2", "2")], feature_gates=GROUP_GATES)
    (copies,) = pod_copies(loaded, a_pod("worker"))
    gang = gang_of(loaded, copies, 4)
    assert gang is not None
    quick, plain = gangs_at_once(loaded, copies, gang, 6), gangs_one_by_one(loaded, copies, gang, 1000)
    assert quick is not None and (quick.count.fits, quick.count.room, quick.filling.fits) == (1, 2, 4)
    assert quick.filling.pods == {("n1", "Pod default/worker"): 4}
    assert [(each.node, each.pods, each.reasons) for each in quick.budgets.nodes] == [
        ("n1", 4, ("Insufficient cpu",)),
        ("n2", 0, ()),
    ]
    assert quick.budgets.nodes[1].free == {"cpu": 2000, "memory": 8 * GI, "pods": 110}
    assert plain.count == quick.count
    assert gangs_at_once(loaded, copies, gang, 5) is None, "the pods that fit are beyond the limit"


def test_a_gang_without_a_rack_has_no_feasible_placement() -> None:
    loaded = load([a_node("n1")], feature_gates={**GROUP_GATES, "TopologyAwareWorkloadScheduling": True})
    group = a_pod_group("train", 2)
    group["spec"]["schedulingConstraints"] = {"topology": [{"key": "rack"}]}
    own = a_pod("worker", schedulingGroup={"podGroupName": "train"})
    answer = capacity(loaded, {"apiVersion": "v1", "kind": "List", "items": [group, own]})
    assert answer.summary() == [
        "Pod default/worker: 0 more gangs of 2 fit.",
        "What stops the next gang: 0 of 2 pods fit; no feasible placements found.",
    ]
    assert answer.limit.message == "no feasible placements found"
    assert [(each.plugin, each.message, each.nodes) for each in answer.limit.reasons] == [
        ("", "no feasible placements found", 0)
    ]


def test_one_gang_fits_and_the_limit_ends_the_count_before_the_second() -> None:
    loaded = load([a_node("n1", "4"), a_node("n2", "4")], feature_gates=GROUP_GATES)
    answer = capacity(loaded, a_pod("worker"), gang=4, most=7)
    assert answer.content()["gangs"] == {"size": 4, "fits": 1, "roomForNext": 0}
    assert (answer.fits, sum(each.pods for each in answer.nodes), dict(answer.by_kind)) == (
        4,
        4,
        {"Pod default/worker": 4},
    )
    assert answer.summary()[0] == "Pod default/worker: at least 1 more gang of 4 fits: 4 pods on 2 of 2 nodes."
    assert capacity(loaded, a_pod("worker"), gang=4, most=8).summary()[0] == (
        "Pod default/worker: 2 more gangs of 4 fit: 8 pods on 2 of 2 nodes."
    )


# ---- copies


def a_set(**spec: Any) -> Written:
    template = {"metadata": {"labels": {"app": "db"}}, "spec": a_pod("db")["spec"]}
    body = {"selector": {"matchLabels": {"app": "db"}}, "serviceName": "db", "template": template, **spec}
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"}, "spec": body}


CLAIM = {"accessModes": ["ReadWriteOnce"], "storageClassName": "fast", "resources": {"requests": {"storage": "1Gi"}}}


def copies_of(written: Written) -> PodCopies:
    (copies,) = pod_copies(load([*NODES]), written)
    return copies


def test_a_copy_has_a_name_and_claims_of_its_own() -> None:
    volume = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": CLAIM}}}
    pod, claims = copies_of(a_pod("web", volumes=[volume])).copy(3)
    assert (pod.name, [claim.key for claim in claims]) == ("web-3", ["default/web-3-scratch"])
    assert pod.id == "Pod default/web, copy 3"
    assert copies_of(a_pod("web")).copy(3)[1] == []


def test_copies_of_a_stateful_set_go_on_from_its_first_ordinal() -> None:
    templates = [{"metadata": {"name": "data"}, "spec": CLAIM}]
    copies = copies_of(a_set(volumeClaimTemplates=templates, ordinals={"start": 5}))
    pod, claims = copies.copy(7)
    assert (pod.name, [claim.key for claim in claims]) == ("db-7", ["default/data-db-7"])
    assert (pod.id, copies.pod.name) == ("StatefulSet default/db, copy 7", "db-5")
    filling = fill_one_by_one(CopyPlacer(load([])), [copies], 10)
    assert filling.pod is not None and filling.pod.name == "db-5"


def test_a_stateful_set_without_claim_templates_is_counted_as_a_plain_pod() -> None:
    copies = copies_of(a_set())
    assert (copies.workload, copies.copy(2)[1]) == (None, [])


def test_the_other_objects_of_a_file_come_with_a_copy_and_its_pods_do_not() -> None:
    items = [a_pod("web"), a_pod_group("train", 2)]
    copies = copies_of({"apiVersion": "v1", "kind": "List", "items": items})
    assert [each.key for each in copies.extras] == ["default", "default/train"], "the namespace and the group"


def test_a_pod_that_is_being_deleted_serves_as_a_template() -> None:
    old = a_pod("old", node="small")
    old["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    pod = copies_of(old).pod
    assert (pod.spec.node_name, pod.metadata.deletion_timestamp, pod.status.phase) == ("", None, "Pending")
