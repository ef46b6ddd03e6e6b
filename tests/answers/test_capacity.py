"""`capacity`: how many copies fit, where, what stops the next one; the numbers at once are those of placing one by one."""

import json
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from build import a_node, a_pod
from how_many import examples
from mooring.answers.capacity.capacity import Capacity, capacity
from mooring.answers.capacity.filling import CopyPlacer, fill_at_once, fill_one_by_one, pod_copies
from mooring.answers.capacity.node_budgets import budgets_after
from mooring.framework.contract.plain import NodeView, PlainPlugin
from mooring.inputs.input_errors import InputError
from mooring.inputs.loaded_cluster import LoadedCluster, load
from mooring.model.meta import KubeObject
from mooring.model.pod import Pod

SCHEMA = json.loads((Path(__file__).parents[2] / "docs/schemas/capacity.v1.json").read_text())
ZONE = "topology.kubernetes.io/zone"


def written(item: KubeObject) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": type(item).__name__, **msgspec.to_builtins(item)}


def a_loaded(*items: KubeObject, **rest: Any) -> LoadedCluster:
    return load([written(item) for item in items], **rest)


def ask(loaded: LoadedCluster, pod: Pod | dict[str, Any], **rest: Any) -> Capacity:
    """The answer, which has the form that the schema says."""
    answer = capacity(loaded, written(pod) if isinstance(pod, Pod) else pod, **rest)
    import_module("jsonschema").validate(answer.to_dict(), SCHEMA)  # without stubs
    json.dumps(answer.to_dict())
    return answer


def by_node(answer: Capacity) -> dict[str, int]:
    return {budget.node: budget.pods for budget in answer.nodes}


def an_image(name: str = "web", **rest: Any) -> Pod:
    return a_pod(name, image="i", **rest)


TWO = (a_node("large", cpu="8"), a_node("small", cpu="3"))


# ---- the answer


def test_copies_fill_every_node_and_the_next_one_is_explained() -> None:
    answer = ask(a_loaded(*TWO, an_image("old", cpu="1", nodeName="large")), an_image(cpu="2"))
    assert (answer.fits, by_node(answer)) == (4, {"large": 3, "small": 1})
    (reason,) = answer.limit.reasons
    assert (reason.plugin, reason.message, reason.nodes) == ("NodeResourcesFit", "Insufficient cpu", 2)
    amount = reason.amount
    assert amount is not None and (amount.wants, amount.largest_free, amount.node) == (2000, 1000, "large")
    assert answer.summary() == [
        "Pod default/web: 4 more pods fit on 2 of 2 nodes.",
        "What stops the next one: 2 nodes: Insufficient cpu (wants 2, largest free 1 on large).",
    ]
    assert answer.content()["perNode"][0] == {
        "node": "large",
        "pods": 3,
        "free": {"cpu": 1000, "pods": 106},
        "stoppedBy": {"plugin": "NodeResourcesFit", "reasons": ["Insufficient cpu"]},
    }


def test_nothing_fits() -> None:
    answer = ask(a_loaded(*TWO), an_image(cpu="9"))
    assert answer.fits == 0
    assert answer.summary()[0] == "Pod default/web: 0 more pods fit."


def test_a_cluster_without_nodes_has_room_for_nothing() -> None:
    answer = ask(a_loaded(an_image("p")), an_image())
    assert (answer.fits, answer.limit.message) == (0, "no nodes available to schedule pods")


def test_pending_pods_are_left_out_and_nominated_ones_keep_their_room() -> None:
    waiting = an_image("waiting", cpu="2", status={"nominatedNodeName": "small"})
    answer = ask(a_loaded(*TWO, waiting, an_image("other", cpu="8")), an_image(cpu="1"))
    assert by_node(answer) == {"large": 8, "small": 1}
    assert list(answer.notes) == [
        "2 pending pods of the cluster left out, except that 1 pod with a nominated node keep their room"
    ]


def test_the_limit_ends_the_count() -> None:
    answer = ask(a_loaded(*TWO), an_image(cpu="1"), most=5)
    assert (answer.fits, answer.limit.most, answer.limit.reasons) == (5, 5, ())
    assert answer.summary() == [
        "Pod default/web: at least 5 more pods fit on 2 of 2 nodes.",
        "The count stopped at the limit of 5 pods.",
    ]


def test_a_limit_that_is_not_reached_changes_nothing() -> None:
    assert ask(a_loaded(*TWO), an_image(cpu="1"), most=12) == ask(a_loaded(*TWO), an_image(cpu="1"))


@pytest.mark.parametrize("most", [0, -1, 1_000_001])
def test_a_limit_has_bounds(most: int) -> None:
    with pytest.raises(ValueError, match=rf"^most: Invalid value: {most}: must be from 1 to 1000000$"):
        capacity(a_loaded(*TWO), written(an_image()), most=most)


def test_a_mix_is_taken_in_turn_until_the_next_one_does_not_fit() -> None:
    loaded = a_loaded(a_node("n", cpu="7"))
    answer = ask(loaded, an_image(cpu="1"), mix=[(written(an_image("db", cpu="2")), 2)])
    assert (answer.fits, dict(answer.by_kind)) == (4, {"Pod default/web": 2, "Pod default/db": 2})
    assert answer.limit.pod == "Pod default/db"
    assert answer.summary() == [
        "1 of Pod default/web and 2 of Pod default/db: 4 more pods fit on 1 of 1 node.",
        "They are 2 of Pod default/web, 2 of Pod default/db.",
        "What stops the next one, of Pod default/db: 1 node: Insufficient cpu (wants 2, largest free 1 on n).",
    ]


def test_anti_affinity_of_the_pod_leaves_one_on_each_node() -> None:
    term = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "kubernetes.io/hostname"}
    rule = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    nodes = [a_node(name, labels={"kubernetes.io/hostname": name}) for name in ("a", "b")]
    answer = ask(a_loaded(*nodes), an_image(cpu="1", labels={"app": "web"}, affinity=rule))
    assert by_node(answer) == {"a": 1, "b": 1}
    assert [reason.plugin for reason in answer.limit.reasons] == ["InterPodAffinity"]


def test_spreading_stops_when_one_zone_is_full() -> None:
    rule = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
    spread = [{**rule, "labelSelector": {"matchLabels": {"app": "web"}}}]
    nodes = [a_node("a", cpu="8", labels={ZONE: "a"}), a_node("b", cpu="2", labels={ZONE: "b"})]
    answer = ask(a_loaded(*nodes), an_image(cpu="1", labels={"app": "web"}, topologySpreadConstraints=spread))
    assert by_node(answer) == {"a": 3, "b": 2}
    assert answer.tables()[1].rows == [("a", 1, 3), ("b", 1, 2)]


def test_host_ports_leave_one_on_each_node() -> None:
    port = {"name": "c", "image": "i", "ports": [{"containerPort": 80, "hostPort": 80}]}
    answer = ask(a_loaded(*TWO), a_pod("web", containers=[port]))
    assert by_node(answer) == {"large": 1, "small": 1}


def test_a_gated_pod_does_not_fit() -> None:
    answer = ask(a_loaded(*TWO), an_image(schedulingGates=[{"name": "wait"}]))
    assert answer.fits == 0
    assert [reason.plugin for reason in answer.limit.reasons] == ["SchedulingGates"]


def test_an_unknown_scheduler_name_is_told() -> None:
    answer = ask(a_loaded(*TWO), an_image(schedulerName="nobody"))
    assert (answer.fits, answer.limit.message) == (0, 'no profile has the scheduler name "nobody"')


class OnlyTwo(PlainPlugin):
    """A filter of a user: at most two pods on a node."""

    name = "OnlyTwo"

    def filter(self, pod: Pod, node: NodeView) -> str | None:
        return None if len(node.pods) < 2 else "two are enough"


def test_plugins_of_users_are_asked_one_by_one() -> None:
    header = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    config = {**header, "profiles": [{"plugins": {"multiPoint": {"enabled": [{"name": "OnlyTwo"}]}}}]}
    answer = ask(a_loaded(*TWO, config=config, plugins=[OnlyTwo]), an_image(cpu="1"))
    assert by_node(answer) == {"large": 2, "small": 2}


# ---- what is counted


def a_workload(kind: str, **spec: Any) -> dict[str, Any]:
    template = {"metadata": {"labels": {"app": "w"}}, "spec": written(an_image(cpu="1"))["spec"]}
    version = "batch/v1" if kind == "Job" else "apps/v1"
    selector = {} if kind == "Job" else {"selector": {"matchLabels": {"app": "w"}}}
    body = {"template": template, **selector, **spec}
    if kind == "Job":
        template["spec"]["restartPolicy"] = "Never"
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "w"}, "spec": body}


@pytest.mark.parametrize(
    "workload",
    [
        a_workload("Deployment", replicas=0),
        a_workload("Deployment", replicas=50),
        a_workload("StatefulSet", replicas=2),
        a_workload("Job", suspend=True),
        a_workload("ReplicaSet"),
    ],
    ids=lambda workload: f"{workload['kind']}-{workload['spec'].get('replicas')}",
)
def test_a_workload_stands_for_one_of_its_pods(workload: dict[str, Any]) -> None:
    assert ask(a_loaded(*TWO), workload).fits == 11


def test_a_daemon_set_is_refused() -> None:
    with pytest.raises(InputError, match="the pods of a DaemonSet have their nodes already"):
        capacity(a_loaded(*TWO), a_workload("DaemonSet"))


def test_a_file_without_pods_is_refused() -> None:
    with pytest.raises(InputError, match="no pod to count"):
        capacity(a_loaded(*TWO), written(a_node("n")))


def test_unknown_fields_are_refused() -> None:
    pod = written(an_image())
    pod["spec"]["nodeSelectr"] = {}
    with pytest.raises(InputError, match="unknown field; did you mean nodeSelector"):
        capacity(a_loaded(*TWO), pod)


def test_a_running_pod_serves_as_a_template() -> None:
    running = an_image(
        "old",
        cpu="1",
        nodeName="small",
        schedulerName="default-scheduler",
        metadata={"uid": "u", "resourceVersion": "1"},
    )
    assert by_node(ask(a_loaded(*TWO, running), running)) == {"large": 8, "small": 2}


def test_limits_and_classes_of_the_cluster_count() -> None:
    limits: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {"name": "l", "namespace": "default"},
    }
    limits["spec"] = {"limits": [{"type": "Container", "defaultRequest": {"cpu": "4"}, "default": {"cpu": "4"}}]}
    loaded = load([limits, *(written(node) for node in TWO)])
    assert by_node(ask(loaded, an_image())) == {"large": 2, "small": 0}


def test_each_copy_of_a_stateful_set_has_claims_of_its_own() -> None:
    claim: dict[str, Any] = {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "local"},
    }
    claim["spec"]["resources"] = {"requests": {"storage": "1Gi"}}
    volumes = [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": f"v{i}"},
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "local",
                "local": {"path": "/d"},
                "nodeAffinity": {
                    "required": {
                        "nodeSelectorTerms": [{"matchExpressions": [{"key": "h", "operator": "In", "values": [node]}]}]
                    }
                },
            },
        }
        for i, node in enumerate(("a", "a", "b"))
    ]
    local = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "local"}}
    local |= {"provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer"}
    nodes = [written(a_node(name, labels={"h": name})) for name in ("a", "b")]
    workload = a_workload("StatefulSet", volumeClaimTemplates=[claim])
    assert by_node(ask(load([*nodes, *volumes, local]), workload)) == {"a": 2, "b": 1}


# ---- at once, and one by one

amounts = st.sampled_from(["0", "100m", "250m", "500m", "1", "2"])
nodes_strategy = st.lists(
    st.builds(
        lambda cpu, memory, pods, zone, taints, gpus, cordoned: (
            {"cpu": cpu, "memory": memory, "pods": pods, "labels": {ZONE: zone} if zone else {}}
            | {"taints": taints, "allocatable": {"x/gpu": gpus} if gpus else {}, "unschedulable": cordoned}
        ),
        st.sampled_from(["0", "1", "2500m", "4"]),
        st.sampled_from(["1Gi", "3Gi", "1000"]),
        st.integers(0, 6),
        st.sampled_from(["", "a", "b"]),
        st.sampled_from([(), ("t=1:NoSchedule",), ("t=1:PreferNoSchedule",)]),
        st.integers(0, 3),
        st.sampled_from([False, False, False, True]),
    ),
    min_size=1,
    max_size=6,
)
pods_strategy = st.lists(
    st.tuples(st.integers(0, 5), amounts, st.integers(-1, 1), st.booleans(), st.integers(0, 1)), max_size=8
)


@pytest.mark.slow
@settings(max_examples=examples(150), deadline=None)
@given(
    nodes=nodes_strategy,
    pods=pods_strategy,
    cpu=amounts,
    memory=st.sampled_from([None, "512Mi", "300"]),
    gpus=st.integers(0, 2),
    selector=st.sampled_from([{}, {ZONE: "a"}]),
    tolerates=st.booleans(),
)
def test_the_closed_form_is_what_placing_one_by_one_finds(
    nodes: list[dict[str, Any]],
    pods: list[tuple[int, str, int, bool, int]],
    cpu: str,
    memory: str | None,
    gpus: int,
    selector: dict[str, str],
    tolerates: bool,
) -> None:
    items: list[KubeObject] = [a_node(f"n{i}", **node) for i, node in enumerate(nodes)]
    for i, (node, asked, priority, is_pending, wanted) in enumerate(pods):
        name = f"n{node % len(nodes)}"
        where = {"status": {"nominatedNodeName": name}} if is_pending else {"nodeName": name}
        requests = {"x/gpu": wanted} if wanted else {}
        items.append(an_image(f"p{i}", cpu=asked, requests=requests, priority=priority, **where))
    loaded = a_loaded(*items)
    tolerations = [{"key": "t", "operator": "Exists"}] if tolerates else []
    asked_for = {"x/gpu": gpus} if gpus else {}
    pod = an_image(cpu=cpu, memory=memory, requests=asked_for, nodeSelector=selector, tolerations=tolerations)
    (copies,) = pod_copies(loaded, written(pod))
    placer = CopyPlacer(loaded)
    at_once = fill_at_once(placer, copies)
    assert at_once is not None
    one_by_one_placer = CopyPlacer(loaded)
    one_by_one = fill_one_by_one(one_by_one_placer, [copies], 10_000)
    assert (at_once.fits, at_once.pods) == (one_by_one.fits, one_by_one.pods)
    assert budgets_after(placer, at_once, 10_000) == budgets_after(one_by_one_placer, one_by_one, 10_000)


def test_a_pod_that_is_larger_than_every_node_is_said() -> None:
    answer = ask(a_loaded(*TWO, an_image("old", cpu="1", nodeName="large")), an_image(cpu="64"))
    assert answer.fits == 0
    assert "Insufficient cpu (wants 64, but no node is large enough (largest " in answer.summary()[1]
    assert answer.to_dict()["limit"]["reasons"][0]["fitsNoNode"]
