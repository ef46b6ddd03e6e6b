"""What a runner keeps never shows: after any changes a long-lived runner decides what a new one would, to the letter."""

from dataclasses import replace
from typing import Any
from unittest import mock

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from build import a_node, a_pod
from mooring.app.assembly import build_runners
from mooring.cluster import table as table_module
from mooring.cluster.cluster import Cluster
from mooring.cycle.decide import Manner, decide
from mooring.cycle.decision import Decision, Failed, NoFit, Placement
from mooring.framework import config
from mooring.framework.runner import Runner
from mooring.model.meta import KubeObject
from mooring.model.node import Node
from mooring.model.pod import Pod
from mooring.model.workloads import Namespace, Service

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
WHEN = "DuringSchedulingIgnoredDuringExecution"
NAMES = tuple(f"n{i:02}" for i in range(14))
FIRST = NAMES[:9]
MIB = 1 << 20

PROFILE = build_runners(config.default())["default-scheduler"].profile
MANNER = Manner(explain=True)


def spread(key: str, action: str, skew: int = 1, **more: Any) -> dict[str, Any]:
    return {
        "topologyKey": key,
        "maxSkew": skew,
        "whenUnsatisfiable": action,
        "labelSelector": {"matchLabels": {"app": "web"}},
        **more,
    }


def near(app: str, key: str, **more: Any) -> dict[str, Any]:
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}, **more}


def fields(*names: str) -> dict[str, Any]:
    """Required node affinity that names nodes."""
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]} for name in names]
    return {"nodeAffinity": {f"required{WHEN}": {"nodeSelectorTerms": terms}}}


SHAPES: dict[str, dict[str, Any]] = {
    "asking for nothing": {},
    "asking for cpu and memory": {"cpu": "1", "memory": "1Gi"},
    "asking for nearly all of a node": {"cpu": "3500m"},
    "asking for a device": {"cpu": "100m", "requests": {"example.com/gpu": 1}},
    "with a host port": {"host_ports": [80]},
    "with an image": {"image": "app", "cpu": "200m"},
    "for ssd nodes": {"nodeSelector": {"disk": "ssd"}, "cpu": "500m"},
    "for two named nodes": {"affinity": fields("n01", "n05")},
    "for a node that may not be there": {"affinity": fields("n13")},
    "preferring a zone": {
        "affinity": {
            "nodeAffinity": {
                f"preferred{WHEN}": [
                    {"weight": 30, "preference": {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["a"]}]}},
                    {"weight": 5, "preference": {"matchExpressions": [{"key": "disk", "operator": "Exists"}]}},
                ]
            }
        }
    },
    "with a preference that cannot be read": {
        "affinity": {
            "nodeAffinity": {
                f"preferred{WHEN}": [
                    {"weight": 1, "preference": {"matchExpressions": [{"key": "x", "operator": "Gt", "values": ["y"]}]}}
                ]
            }
        }
    },
    "tolerating": {"tolerations": [{"key": "dedicated", "operator": "Exists"}], "cpu": "100m"},
    "spread over zones": {"topologySpreadConstraints": [spread(ZONE, "DoNotSchedule")], "cpu": "100m"},
    "spread over ssd zones and hosts": {
        "nodeSelector": {"disk": "ssd"},
        "topologySpreadConstraints": [
            spread(ZONE, "DoNotSchedule", 2, nodeTaintsPolicy="Honor"),
            spread(HOST, "ScheduleAnyway"),
            spread("rack", "ScheduleAnyway"),
        ],
    },
    "away from its like": {"affinity": {"podAntiAffinity": {f"required{WHEN}": [near("web", HOST)]}}},
    "near its like": {"affinity": {"podAffinity": {f"required{WHEN}": [near("web", ZONE)]}}},
    "preferring databases of labelled namespaces": {
        "affinity": {
            "podAffinity": {
                f"preferred{WHEN}": [
                    {
                        "weight": 50,
                        "podAffinityTerm": near("db", ZONE, namespaceSelector={"matchLabels": {"team": "x"}}),
                    }
                ]
            },
            "podAntiAffinity": {f"preferred{WHEN}": [{"weight": 30, "podAffinityTerm": near("web", HOST)}]},
        }
    },
}

LABELS = st.fixed_dictionaries(
    {},
    optional={
        ZONE: st.sampled_from("abc"),
        "disk": st.sampled_from(("ssd", "hdd")),
        "rack": st.sampled_from("12"),
    },
)
TAINTS = st.lists(st.sampled_from(("dedicated=x:NoSchedule", "slow:PreferNoSchedule")), unique=True, max_size=2)


@st.composite
def nodes(draw: st.DrawFn, name: str, with_images: bool = True) -> Node:
    images = {"app:latest": draw(st.sampled_from((300 * MIB, 600 * MIB)))} if with_images and draw(st.booleans()) else {}
    return a_node(
        name,
        cpu=draw(st.sampled_from(("2", "4", "8"))),
        pods=draw(st.sampled_from((2, 110, 110))),
        labels={HOST: name, **draw(LABELS)},
        taints=draw(TAINTS),
        images=images,
        allocatable=draw(st.sampled_from(({}, {"example.com/gpu": 2}))),
        unschedulable=draw(st.sampled_from((False, False, False, True))),
    )


def first_nodes(with_images: bool) -> list[Node]:
    """Nine nodes of three zones, no two of them alike in all."""
    return [
        a_node(
            name,
            cpu=("2", "4", "8")[i % 2],
            pods=2 if i == 7 else 110,
            labels={HOST: name, **({ZONE: "abc"[i % 3]} if i != 8 else {}), "disk": ("ssd", "hdd")[i % 2], "rack": "12"[i // 5]},
            taints=["dedicated=x:NoSchedule"] if i == 2 else ["slow:PreferNoSchedule"] if i == 3 else [],
            images={"app:latest": 600 * MIB} if with_images and i < 3 else {},
            allocatable={"example.com/gpu": 2} if i in (1, 4) else {},
            unschedulable=i == 6,
        )
        for i, name in enumerate(FIRST)
    ]


class MemoMachine(RuleBasedStateMachine):
    """One cluster and one runner that lives through it. After each change pods of a few shapes are decided, by the
    runner and by one that knows nothing yet.
    """

    def __init__(self) -> None:
        super().__init__()
        with mock.patch.object(table_module, "_FIRST_CAPACITY", 8):
            self.cluster = Cluster()
        self.runner = Runner(PROFILE)
        self.nodes: dict[str, Node] = {}
        self.others: dict[str, KubeObject] = {}
        self.serial = 0
        self.watched: list[Pod] = []

    @initialize(data=st.data())
    def begin(self, data: st.DataObject) -> None:
        self.with_images = data.draw(st.booleans(), "with images")
        limit = data.draw(st.sampled_from((4, 16384)), "touches kept")
        self.cluster.nodes.touches.LIMIT = self.cluster.nodes.node_touches.LIMIT = limit  # type: ignore[misc]
        for node in first_nodes(self.with_images):
            self.put_node(node)
        self.shapes = data.draw(st.lists(st.sampled_from(sorted(SHAPES)), min_size=3, max_size=3, unique=True), "shapes")
        self.runner.MEMO_LIMIT = data.draw(st.sampled_from((64, 64, 2)), "shapes kept")  # type: ignore[misc]
        self.watched = [self.a_pod(data, shape) for shape in self.shapes]

    def put_node(self, node: Node) -> None:
        self.cluster.put(node)
        self.nodes[node.name] = node

    def put_other(self, item: KubeObject) -> None:
        self.cluster.put(item)
        self.others[item.key] = item

    def a_pod(self, data: st.DataObject, shape: str, **more: Any) -> Pod:
        self.serial += 1
        labels, namespace = {"app": data.draw(st.sampled_from(("web", "db")))}, data.draw(st.sampled_from(("default", "y")))
        return a_pod(f"p{self.serial}", namespace=namespace, labels=labels, **{**SHAPES[shape], **more})

    def like(self, pod: Pod) -> Pod:
        """Another pod of the same template."""
        self.serial += 1
        return Pod(metadata=msgspec.structs.replace(pod.metadata, name=f"p{self.serial}"), spec=pod.spec)

    # ---- changes

    @rule(data=st.data(), name=st.sampled_from((*FIRST, *NAMES)))
    def add_or_replace_a_node(self, data: st.DataObject, name: str) -> None:
        self.put_node(data.draw(nodes(name, self.with_images)))

    @rule(data=st.data(), name=st.sampled_from(FIRST))
    def change_one_thing_about_a_node(self, data: st.DataObject, name: str) -> None:
        node, other = self.nodes.get(name), data.draw(nodes(name, self.with_images))
        if node is not None:
            part = data.draw(st.sampled_from(("metadata", "spec", "status")))
            self.put_node(msgspec.structs.replace(node, **{part: getattr(other, part)}))

    @precondition(lambda self: len(self.nodes) > 1)
    @rule(data=st.data())
    def remove_a_node(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.nodes)))
        self.cluster.nodes.remove_node(name)
        del self.nodes[name]

    @rule(data=st.data(), name=st.sampled_from(NAMES), is_terminating=st.booleans())
    def place_a_pod(self, data: st.DataObject, name: str, is_terminating: bool) -> None:
        """Anywhere, also where it does not fit or where no node is; only never two with the same port."""
        metadata = {"deletionTimestamp": "2026-02-01T00:00:00Z"} if is_terminating else {}
        pod = self.a_pod(data, data.draw(st.sampled_from(sorted(SHAPES))), metadata=metadata)
        row = self.cluster.nodes.row_book.get(name, -1)
        if not any(self.cluster.nodes.ports.is_taken(row, port) for port in pod.shape.host_ports):
            self.cluster.nodes.place(pod, name)

    @rule(data=st.data(), names=st.lists(st.sampled_from(FIRST), min_size=5, max_size=12))
    def place_many_pods(self, data: st.DataObject, names: list[str]) -> None:
        for name in names:
            self.cluster.nodes.place(self.a_pod(data, "asking for cpu and memory"), name)

    @precondition(lambda self: self.cluster.nodes.pods())
    @rule(data=st.data())
    def displace_a_pod(self, data: st.DataObject) -> None:
        self.cluster.nodes.displace(data.draw(st.sampled_from(sorted(pod.id for pod in self.cluster.nodes.pods()))))

    @rule(name=st.sampled_from(("default", "y")), team=st.sampled_from("xz"))
    def label_a_namespace(self, name: str, team: str) -> None:
        self.put_other(msgspec.convert({"metadata": {"name": name, "labels": {"team": team}}}, Namespace))

    @rule(app=st.sampled_from(("web", "db")))
    def put_a_service(self, app: str) -> None:
        """From now on pods that it selects are spread by default."""
        written = {"metadata": {"name": "s", "namespace": "default"}, "spec": {"selector": {"app": app}}}
        self.put_other(msgspec.convert(written, Service))

    @rule()
    def remove_the_service(self) -> None:
        self.cluster.remove(Service, "default/s")
        self.others.pop("default/s", None)

    @rule(which=st.integers(0, 2), count=st.integers(1, 3))
    def place_some_like_a_watched_pod(self, which: int, count: int) -> None:
        for _ in range(count):
            pod = self.like(self.watched[which])
            decision = self.decide(pod)
            if isinstance(decision, Placement):
                self.cluster.nodes.place(pod, decision.node)

    @rule(which=st.integers(0, 2), other=st.integers(0, 2))
    def decide_in_a_fork(self, which: int, other: int) -> None:
        fork = self.cluster.fork()
        fork.nodes.place(self.like(self.watched[other]), min(self.nodes))
        pod = self.watched[which]
        assert shown(decide(self.runner, pod, fork, MANNER)) == shown(decide(Runner(PROFILE), pod, fork, MANNER))

    # ---- decisions

    @invariant()
    def all_watched_pods_are_decided_alike(self) -> None:
        for pod in self.watched:
            self.decide(pod)

    def decide(self, pod: Pod) -> Decision:
        kept = decide(self.runner, pod, self.cluster, MANNER)
        fresh = decide(Runner(PROFILE), pod, self.cluster, MANNER)
        assert shown(kept) == shown(fresh)
        assert message(kept) == message(fresh)
        return kept

    def teardown(self) -> None:
        """Parity: how many nodes have an image is seen late, so a cluster that was built anew may differ there."""
        assert self.cluster.nodes.check() == []
        for pod in () if not self.watched or self.with_images else self.watched:
            assert by_name(self.decide(pod)) == by_name(decide(Runner(PROFILE), pod, self.rebuilt(), MANNER))

    def rebuilt(self) -> Cluster:
        """A cluster with the same objects and another past."""
        other = Cluster()
        for item in (*self.others.values(), *(self.nodes[name] for name in sorted(self.nodes))):
            other.put(item)
        table = self.cluster.nodes
        for row, pods in enumerate(table.pods_on):
            for pod in pods:
                other.nodes.place(pod, table.names[row])
        return other


def shown(decision: Decision) -> Decision:
    """All of a decision but the attempt that it hands on to preemption and binding."""
    match decision:
        case NoFit():
            return replace(decision, failure=None)
        case Placement():
            return replace(decision, cycle=None)
    return decision


def message(decision: Decision) -> str:
    match decision:
        case NoFit():
            return decision.message
        case Failed():
            return decision.error
    return ""


def by_name(decision: Decision) -> Any:
    """A decision without anything that depends on which row a node has."""
    if isinstance(decision, Failed):
        return decision.error
    details = decision.details
    assert details is not None
    verdicts = (sorted(details.feasible), details.rejected, details.scores, details.totals)
    if isinstance(decision, Placement):
        return decision.node, decision.score, decision.best, *verdicts
    return decision.message, decision.diagnosis.plugins, *verdicts


TestMemo = pytest.mark.slow(MemoMachine.TestCase)
TestMemo.settings = settings(max_examples=120, stateful_step_count=30)
