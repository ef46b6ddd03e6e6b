"""What a runner keeps never shows: after any changes a long-lived runner decides what a new one would, to the letter."""

from collections.abc import Callable
from random import Random
from typing import Any
from unittest import mock

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from build import a_node, a_pod
from how_many import IS_SOAK, costly_examples, examples
from mooring.cluster.cache import check_table
from mooring.cluster.cluster import Cluster
from mooring.cluster.nodes import table as table_module
from mooring.framework import config
from mooring.framework.attempts.runner import Runner
from mooring.framework.kept.kept_answers import DEFAULT_LIMIT_BYTES, KeptAnswers
from mooring.model.meta import KubeObject
from mooring.model.node import Node
from mooring.model.pod import Pod
from mooring.model.workloads import Namespace, Service
from mooring.scheduler.decide import DecideOptions, decide
from mooring.scheduler.decision import Decision, DecisionError, NoFit, Placement
from mooring.scheduler.ties import by_seed
from mooring.state.scheduler_assembly import build_runners

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
WHEN = "DuringSchedulingIgnoredDuringExecution"
NAMES = tuple(f"n{i:02}" for i in range(14))
FIRST = NAMES[:9]
MIB = 1 << 20
STEPS = 15

PROFILE = build_runners(config.default())["default-scheduler"].profile
OPTIONS = DecideOptions(explain=True)


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
                    {
                        "weight": 30,
                        "preference": {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["a"]}]},
                    },
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


def first_nodes(with_images: bool) -> list[Node]:
    """Nine nodes of three zones, no two of them alike in all."""
    return [
        a_node(
            name,
            cpu=("2", "4", "8")[i % 2],
            pods=2 if i == 7 else 110,
            labels={
                HOST: name,
                **({ZONE: "abc"[i % 3]} if i != 8 else {}),
                "disk": ("ssd", "hdd")[i % 2],
                "rack": "12"[i // 5],
            },
            taints=["dedicated=x:NoSchedule"] if i == 2 else ["slow:PreferNoSchedule"] if i == 3 else [],
            images={"app:latest": 600 * MIB} if with_images and i < 3 else {},
            allocatable={"example.com/gpu": 2} if i in (1, 4) else {},
            unschedulable=i == 6,
        )
        for i, name in enumerate(FIRST)
    ]


class Walk:
    """One cluster and one runner that lives through it. Hypothesis picks the seed, the seed the steps.

    Steps are drawn evenly, because what a kept answer can miss takes a certain change after a certain decision.
    """

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.with_images = self.random.random() < 0.5
        with mock.patch.object(table_module, "_FIRST_CAPACITY", 8):
            self.cluster = Cluster()
        touches = self.random.choice((4, 16384))
        self.cluster.nodes.touches.LIMIT = self.cluster.nodes.node_touches.LIMIT = touches
        self.runner = Runner(PROFILE, kept=KeptAnswers(self.random.choice((DEFAULT_LIMIT_BYTES, 20_000, 0))))
        self.nodes: dict[str, Node] = {}
        self.others: dict[str, KubeObject] = {}
        self.serial = 0
        for node in first_nodes(self.with_images):
            self.put_node(node)
        self.watched = [self.a_pod(shape) for shape in self.random.sample(sorted(SHAPES), 3)]

    def step(self) -> None:
        """One change, then everybody is asked."""
        self.random.choice(CHANGES)(self)
        for pod in self.watched:
            self.decide(pod)

    def a_pod(self, shape: str, **more: Any) -> Pod:
        self.serial += 1
        labels, namespace = {"app": self.random.choice(("web", "db"))}, self.random.choice(("default", "y"))
        return a_pod(f"p{self.serial}", namespace=namespace, labels=labels, **{**SHAPES[shape], **more})

    def like(self, pod: Pod) -> Pod:
        """Another pod of the same template."""
        self.serial += 1
        return Pod(metadata=msgspec.structs.replace(pod.metadata, name=f"p{self.serial}"), spec=pod.spec)

    def a_node(self, name: str) -> Node:
        choose = self.random.choice
        labels = {HOST: name, ZONE: choose("abc"), "disk": choose(("ssd", "hdd")), "rack": choose("12")}
        return a_node(
            name,
            cpu=choose(("2", "4", "8")),
            pods=choose((2, 110, 110)),
            labels={key: value for key, value in labels.items() if self.random.random() < 0.8},
            taints=choose(([], [], ["dedicated=x:NoSchedule"], ["slow:PreferNoSchedule"])),
            images={"app:latest": choose((300, 600)) * MIB} if self.with_images and choose((True, False)) else {},
            allocatable=choose(({}, {"example.com/gpu": 2})),
            unschedulable=choose((False, False, False, True)),
        )

    def put_node(self, node: Node) -> None:
        self.cluster.put(node)
        self.nodes[node.name] = node

    def put_other(self, item: KubeObject) -> None:
        self.cluster.put(item)
        self.others[item.key] = item

    # ---- changes

    def add_or_replace_a_node(self) -> None:
        self.put_node(self.a_node(self.random.choice(NAMES)))

    def change_one_thing_about_a_node(self) -> None:
        node = self.nodes[self.random.choice(sorted(self.nodes))]
        part = self.random.choice(("metadata", "spec", "status"))
        self.put_node(msgspec.structs.replace(node, **{part: getattr(self.a_node(node.name), part)}))

    def remove_a_node(self) -> None:
        if len(self.nodes) > 1:
            name = self.random.choice(sorted(self.nodes))
            self.cluster.nodes.remove_node(name)
            del self.nodes[name]

    def place_a_pod(self) -> None:
        """Anywhere, also where it does not fit or where no node is; only never two with the same port."""
        metadata = self.random.choice(({}, {"deletionTimestamp": "2026-02-01T00:00:00Z"}))
        pod = self.a_pod(self.random.choice(sorted(SHAPES)), metadata=metadata)
        name = self.random.choice(NAMES)
        row = self.cluster.nodes.row_book.get(name, -1)
        if not any(self.cluster.nodes.ports.is_taken(row, port) for port in pod.shape.host_ports):
            self.cluster.nodes.place(pod, name)

    def place_many_pods(self) -> None:
        """More than a short log can hold."""
        for name in self.random.choices(FIRST, k=6):
            self.cluster.nodes.place(self.a_pod("asking for cpu and memory"), name)

    def place_some_like_a_watched_pod(self) -> None:
        watched = self.random.choice(self.watched)
        for _ in range(self.random.randint(1, 3)):
            pod = self.like(watched)
            decision = self.decide(pod)
            if isinstance(decision, Placement):
                self.cluster.nodes.place(pod, decision.node)

    def displace_a_pod(self) -> None:
        pods = sorted(pod.id for pod in self.cluster.nodes.pods())
        if pods:
            self.cluster.nodes.displace(self.random.choice(pods))

    def label_a_namespace(self) -> None:
        written = {
            "metadata": {"name": self.random.choice(("default", "y")), "labels": {"team": self.random.choice("xz")}}
        }
        self.put_other(msgspec.convert(written, Namespace))

    def put_a_service(self) -> None:
        """From now on pods that it selects are spread by default."""
        selector = {"app": self.random.choice(("web", "db"))}
        written = {"metadata": {"name": "s", "namespace": "default"}, "spec": {"selector": selector}}
        self.put_other(msgspec.convert(written, Service))

    def remove_the_service(self) -> None:
        self.cluster.remove(Service, "default/s")
        self.others.pop("default/s", None)

    def decide_in_a_fork(self) -> None:
        fork = self.cluster.fork()
        fork.nodes.place(self.like(self.random.choice(self.watched)), min(self.nodes))
        for pod in self.watched:
            assert shown(decide(self.runner, pod, fork, OPTIONS)) == shown(decide(Runner(PROFILE), pod, fork, OPTIONS))

    # ---- decisions

    def decide(self, pod: Pod) -> Decision:
        kept = decide(self.runner, pod, self.cluster, OPTIONS)
        fresh = decide(Runner(PROFILE), pod, self.cluster, OPTIONS)
        assert shown(kept) == shown(fresh)
        assert message(kept) == message(fresh)
        self.decide_without_details(pod, kept)
        return kept

    def decide_without_details(self, pod: Pod, detailed: Decision) -> None:
        """Where no details are kept the best node may come from a ranking that is kept too, for either tie break."""
        plain = decide(self.runner, pod, self.cluster, DecideOptions())
        if isinstance(plain, Placement) and isinstance(detailed, Placement):
            assert (plain.node, plain.score, plain.row) == (detailed.node, detailed.score, detailed.row)
        else:
            assert type(plain) is type(detailed)
        seed = self.random.randrange(1000)
        options = DecideOptions(tie_break=by_seed)
        kept = decide(self.runner, pod, self.cluster, options, seed)
        assert shown(kept) == shown(decide(Runner(PROFILE), pod, self.cluster, options, seed))

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


CHANGES: tuple[Callable[[Walk], None], ...] = (
    Walk.add_or_replace_a_node,
    Walk.change_one_thing_about_a_node,
    Walk.remove_a_node,
    Walk.place_a_pod,
    Walk.place_many_pods,
    Walk.place_some_like_a_watched_pod,
    Walk.place_some_like_a_watched_pod,
    Walk.displace_a_pod,
    Walk.label_a_namespace,
    Walk.put_a_service,
    Walk.remove_the_service,
    Walk.decide_in_a_fork,
)


@pytest.mark.slow
@given(st.integers(0, 1 << 32))
@settings(max_examples=costly_examples(250) if IS_SOAK else 15)
def test_what_is_kept_never_shows(seed: int) -> None:
    walk = Walk(seed)
    for _ in range(STEPS):
        walk.step()
    assert check_table(walk.cluster.nodes) == []
    if not walk.with_images:
        # Parity: how many nodes have an image is seen late, so a cluster that was built anew may differ there.
        for pod in walk.watched:
            assert by_name(walk.decide(pod)) == by_name(decide(Runner(PROFILE), pod, walk.rebuilt(), OPTIONS))


@given(st.integers(0, 1 << 32))
@settings(max_examples=examples(40))
def test_an_answer_about_one_row_is_the_one_about_all_rows(seed: int) -> None:
    """Plugins may answer about one row in plain numbers, and about some rows with other kernels than about all."""
    walk = Walk(seed)
    for _ in range(5):
        walk.random.choice(CHANGES)(walk)
    height = walk.cluster.nodes.height
    alive = np.flatnonzero(walk.cluster.nodes.alive[:height]).tolist()
    some = np.array(walk.random.choices(alive, k=8), np.intp)  # with repetitions
    for shape in sorted(SHAPES):
        context = walk.runner.open(walk.a_pod(shape), walk.cluster).context
        for question in walk.runner.kept_questions:
            if shape == "with a preference that cannot be read" and question.point == "Score":
                continue  # PreScore ends the attempt
            everywhere = question.ask(context, slice(0, height))
            expected = [0] * height if everywhere is None else everywhere.tolist()
            by_row = [question.ask_row(context, row) for row in alive]
            assert by_row == [expected[row] for row in alive], (shape, question.plugin.name)
            found = question.ask(context, some)
            assert (found.tolist() if found is not None else [0] * 8) == [expected[row] for row in some]


def test_a_resource_that_no_node_had_is_found_on_the_first_node_that_has_it() -> None:
    """The pod was rejected before: what is kept for its shape must not say that the resource is nowhere."""
    cluster, runner, pod = Cluster(), Runner(PROFILE), a_pod(requests={"example.com/gpu": 1})
    cluster.put(a_node("without"))
    assert isinstance(decide(runner, pod, cluster, OPTIONS), NoFit)
    cluster.put(a_node("with", allocatable={"example.com/gpu": 2}))
    decision = decide(runner, pod, cluster, OPTIONS)
    assert isinstance(decision, Placement)
    assert decision.node == "with"


def shown(decision: Decision) -> Decision:
    """All of a decision but the attempt that it hands on to preemption and binding."""
    match decision:
        case NoFit():
            return msgspec.structs.replace(decision, failure=None)
        case Placement():
            return msgspec.structs.replace(decision, context=None)
    return decision


def message(decision: Decision) -> str:
    match decision:
        case NoFit():
            return decision.message
        case DecisionError():
            return decision.error
    return ""


def by_name(decision: Decision) -> Any:
    """A decision without anything that depends on which row a node has."""
    if isinstance(decision, DecisionError):
        return decision.error
    details = decision.details
    assert details is not None
    verdicts = (sorted(details.feasible), details.rejected, details.scores, details.totals)
    if isinstance(decision, Placement):
        return decision.node, decision.score, decision.best, *verdicts
    return decision.message, decision.diagnosis.plugins, *verdicts
