"""The node table against a model of plain dictionaries, through random changes; and its logs, orders and images."""

import random
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any
from unittest import mock

import msgspec
import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from build import a_node, a_pod
from how_many import examples
from mooring.cluster.cache import check_table
from mooring.cluster.columns import resource_amounts
from mooring.cluster.columns.images import Images
from mooring.cluster.columns.labels import ABSENT
from mooring.cluster.columns.order import NodeOrder
from mooring.cluster.columns.ports import PortUse
from mooring.cluster.columns.resource_amounts import NOWHERE, cells
from mooring.cluster.nodes import table as table_module
from mooring.cluster.nodes.table import ClusterError, NodeTable
from mooring.cluster.tallies.carried_terms import Concern
from mooring.cluster.tallies.tally import Tally
from mooring.model.affinity import PodPredicate
from mooring.model.label_set import label_set_of
from mooring.model.meta import LabelSelector
from mooring.model.node import ContainerImage, Node
from mooring.model.pod import Pod
from mooring.model.quantity import MAX_AMOUNT
from mooring.model.selectors import compile_selector

MI, GI = 1 << 20, 1 << 30
ZONE = "topology.kubernetes.io/zone"
NAMES = tuple(f"n{i}" for i in range(7))
KEYS = (ZONE, "rack")
NAMESPACES = ("default", "other")
APPS = ("web", "db")

CPUS = {"4": 4000, "500m": 500, "0.1m": 1, "1e1": 10000, "0": 0}
AMOUNTS = {"8Gi": 8 * GI, "1500m": 2, "0.1Ki": 103, "3": 3, "1.5Gi": 1610612736}
HOSTILE = {str(1 << 63): MAX_AMOUNT, "1e400": MAX_AMOUNT, "8Ei": MAX_AMOUNT, "-3": 0, "two": 0}
"""What no API server lets pass as it is, or no column holds: it counts as the most there can be, or as nothing."""
CPUS |= HOSTILE
AMOUNTS |= HOSTILE
SCALARS = ("example.com/gpu", "hugepages-2Mi", "attachable-volumes-x", "my.kubernetes.io/thing", "example.com/fpga")
IGNORED = ("foo", "storage")
"""Names that upstream does not count on nodes or for pods."""
TAINTS = ("a=1:NoSchedule", "b:PreferNoSchedule")
FEATURES = ("RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport")
PORTS = (
    {"hostPort": 80},
    {"hostPort": 80, "hostIP": "10.0.0.1"},
    {"hostPort": 80, "hostIP": "10.0.0.2", "protocol": "TCP"},
    {"hostPort": 80, "protocol": "UDP"},
    {"hostPort": 0, "containerPort": 9},
)
IMAGES = ("x:1", "y:1")
PROBES = [(ip, protocol, 80) for ip in ("0.0.0.0", "10.0.0.1", "10.0.0.2", "::") for protocol in ("TCP", "UDP")]


@dataclass(frozen=True)
class Facts:
    """A node as it was drawn: quantities by their text."""

    labels: dict[str, str]
    cpu: str
    amounts: dict[str, str]
    pods: int
    taints: list[str]
    features: list[str]
    unschedulable: bool
    images: dict[str, int]

    def node(self, name: str) -> Node:
        return a_node(
            name,
            cpu=self.cpu,
            pods=self.pods,
            labels=self.labels,
            taints=self.taints,
            features=self.features,
            allocatable=self.amounts,
            unschedulable=self.unschedulable,
            images=self.images,
        )


FACTS = st.builds(
    Facts,
    labels=st.dictionaries(st.sampled_from(KEYS), st.sampled_from(("a", "b", ""))),
    cpu=st.sampled_from(sorted(CPUS)),
    amounts=st.dictionaries(
        st.sampled_from(("memory", "ephemeral-storage", *SCALARS, *IGNORED)), st.sampled_from(sorted(AMOUNTS))
    ),
    pods=st.integers(0, 110),
    taints=st.lists(st.sampled_from(TAINTS), unique=True),
    features=st.lists(st.sampled_from(FEATURES), unique=True),
    unschedulable=st.booleans(),
    images=st.dictionaries(st.sampled_from(IMAGES), st.integers(1, 3)),
)


def a_term(kind: str, key: str = ZONE, weight: int = 7) -> dict[str, Any]:
    """Affinity of `kind` with the pods of the same namespace that are labelled app=web."""
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": "web"}}}
    when = "DuringSchedulingIgnoredDuringExecution"
    kinds: dict[str, dict[str, Any]] = {
        "anti": {"podAntiAffinity": {f"required{when}": [term]}},
        "affinity": {"podAffinity": {f"required{when}": [term, term]}},
        "preferred": {"podAffinity": {f"preferred{when}": [{"weight": weight, "podAffinityTerm": term}]}},
    }
    return kinds[kind]


@dataclass(frozen=True)
class Kind:
    """A kind of pod: how it is written, and what it holds of cpu and memory, as it is and as scoring counts it."""

    written: dict[str, Any]
    cpu: tuple[int, int] = (0, 100)
    memory: tuple[int, int] = (0, 200 * MI)
    others: dict[str, int] = field(default_factory=dict)
    ports: tuple[tuple[str, str, int], ...] = ()
    terms: tuple[str, ...] = ()


KINDS = {
    "plain": Kind({"cpu": "500m", "memory": "1Gi"}, (500, 500), (GI, GI)),
    "asking for nothing": Kind({}),
    "asking for zero cpu": Kind({"cpu": "0"}, (0, 0)),
    "with odd resources": Kind(
        {
            "requests": {
                "example.com/gpu": 2,
                "hugepages-2Mi": "4Mi",
                "ephemeral-storage": "1Gi",
                "foo": 3,
                "storage": 1,
            }
        },
        others={"example.com/gpu": 2, "hugepages-2Mi": 4 * MI, "ephemeral-storage": GI},
    ),
    "with a resource that no node has": Kind({"requests": {"example.com/none": 1}}, others={"example.com/none": 1}),
    "with ports": Kind(
        {"host_ports": [*PORTS[:1], PORTS[3], PORTS[4]]}, ports=(("0.0.0.0", "TCP", 80), ("0.0.0.0", "UDP", 80))
    ),
    "with a port of one address": Kind({"host_ports": [PORTS[1]]}, ports=(("10.0.0.1", "TCP", 80),)),
    "with a port of another address": Kind({"host_ports": [PORTS[2]]}, ports=(("10.0.0.2", "TCP", 80),)),
    "asking for more than there is": Kind(
        {"cpu": str(1 << 63), "memory": "1e400", "requests": {"example.com/gpu": 1 << 80}},
        (MAX_AMOUNT, MAX_AMOUNT),
        (MAX_AMOUNT, MAX_AMOUNT),
        others={"example.com/gpu": MAX_AMOUNT},
    ),
    "asking for less than nothing": Kind({"cpu": "-5", "memory": -(1 << 70)}, (0, 0), (0, 0)),
    "asking for what is no quantity": Kind({"cpu": "many"}, (MAX_AMOUNT, MAX_AMOUNT)),
    "keeping others away": Kind({"affinity": a_term("anti")}, terms=("anti",)),
    "seeking others, twice": Kind({"affinity": a_term("affinity", "rack")}, terms=("affinity", "affinity")),
    "preferring others": Kind({"affinity": a_term("preferred")}, terms=("preferred",)),
}


@dataclass(frozen=True)
class Placed:
    """A pod of the model: what it is, and the node it is on."""

    pod: Pod
    kind: Kind
    node: str
    app: str
    is_terminating: bool


class Model:
    """What the table should hold, in plain dictionaries."""

    def __init__(self) -> None:
        self.nodes: dict[str, Facts] = {}
        self.placed: dict[str, Placed] = {}
        self.ports: dict[str, set[tuple[str, str, int]]] = {}
        """Upstream's sets: two pods with the same address and port make one entry, and the first to leave takes it."""
        self.sizes: dict[str, int] = {}
        """Of each image that some node has, the size that the first one said."""
        self.seen: dict[str, dict[str, int]] = {}
        """On how many nodes each node believes its images to be."""
        self.order: dict[str, list[str]] = {}
        """The pods of each node in upstream's order: where one leaves, the last takes its place."""

    def put_node(self, name: str, facts: Facts) -> None:
        self.nodes.pop(name, None)
        self._drop_sizes()
        self.nodes[name] = facts
        for image, size in facts.images.items():
            self.sizes.setdefault(image, size)

    def remove_node(self, name: str) -> None:
        del self.nodes[name]
        self._drop_sizes()

    def settle(self, changed: set[str]) -> None:
        for name in changed:
            images = self.nodes[name].images if name in self.nodes else {}
            self.seen[name] = {image: self.holders(image) for image in images}

    def holders(self, image: str) -> int:
        return sum(image in facts.images for facts in self.nodes.values())

    def _drop_sizes(self) -> None:
        self.sizes = {image: size for image, size in self.sizes.items() if self.holders(image)}

    def names(self) -> set[str]:
        return {*self.nodes, *(placed.node for placed in self.placed.values())}

    def on(self, name: str) -> list[Placed]:
        return [placed for placed in self.placed.values() if placed.node == name]

    def place(self, placed: Placed) -> None:
        self.placed[placed.pod.id] = placed
        self.order.setdefault(placed.node, []).append(placed.pod.id)
        self.ports.setdefault(placed.node, set()).update(placed.kind.ports)

    def displace(self, pod_id: str) -> None:
        placed = self.placed.pop(pod_id)
        order = self.order[placed.node]
        last = order.pop()
        if last != pod_id:
            order[order.index(pod_id)] = last
        self.ports[placed.node].difference_update(placed.kind.ports)

    def copy(self) -> "Model":
        other = Model()
        other.nodes, other.placed = dict(self.nodes), dict(self.placed)
        other.ports = {name: set(ports) for name, ports in self.ports.items()}
        other.order = {name: list(order) for name, order in self.order.items()}
        return other


# ---- what must hold, always


def assert_same(table: NodeTable, model: Model) -> None:
    assert check_table(table) == []
    assert_rows(table, model)
    assert_facts(table, model)
    assert_sums(table, model)
    assert_ports(table, model)


def assert_rows(table: NodeTable, model: Model) -> None:
    """Every node, and every name that only pods speak of, has one row; only nodes are alive."""
    assert {name for name in table.row_book if name in model.names()} == model.names()
    assert table.is_fork or set(table.row_book) == model.names()
    assert sorted(set(table.row_book.values())) == sorted(table.row_book.values())
    assert {table.names[row] for row in np.flatnonzero(table.alive)} == set(model.nodes)
    assert table.alive_count == len(model.nodes)
    assert {name: [pod.id for pod in table.pods_on[row]] for name, row in table.row_book.items()} == {
        name: model.order.get(name, []) for name in table.row_book
    }
    for pod_id, placed in model.placed.items():
        assert table.row_of_pod(pod_id) == table.row_book[placed.node]
    rank = table.order.name_rank(table.row_book, table.capacity)
    assert [rank[table.row_book[name]] for name in sorted(model.nodes)] == list(range(len(model.nodes)))


def assert_facts(table: NodeTable, model: Model) -> None:
    for name, row in table.row_book.items():
        facts = model.nodes.get(name)
        wanted = dict.fromkeys(table.amounts.resource_book, 0)
        if facts is not None:
            wanted["cpu"], wanted["memory"] = CPUS[facts.cpu], 8 * GI
            wanted |= {key: AMOUNTS[text] for key, text in facts.amounts.items() if key in table.amounts.resource_book}
        assert {
            key: table.amounts.allocatable[index, row] for key, index in table.amounts.resource_book.items()
        } == wanted
        assert table.allowed_pods[row] == (facts.pods if facts else 0)
        assert table.unschedulable[row] == (facts.unschedulable if facts else False)
        taints = [
            f"{t.key}={t.value}".rstrip("=") + f":{t.effect}" for t in table.taints.values[table.taints.codes[row]]
        ]
        assert taints == (facts.taints if facts else [])
        assert table.features.values[table.features.codes[row]] == frozenset(facts.features if facts else ())


def assert_sums(table: NodeTable, model: Model) -> None:
    for name, row in table.row_book.items():
        held, scored = Counter[str](), Counter[str]()
        for placed in model.on(name):
            held.update({"cpu": placed.kind.cpu[0], "memory": placed.kind.memory[0], **placed.kind.others})
            scored.update({"cpu": placed.kind.cpu[1], "memory": placed.kind.memory[1], **placed.kind.others})
        for key, index in table.amounts.resource_book.items():
            found = table.amounts.requested[index, row], table.amounts.scored[index, row]
            assert (key, *found) == (key, held[key], scored[key])
        assert table.pod_count[row] == len(model.on(name))


def assert_ports(table: NodeTable, model: Model) -> None:
    for probe in PROBES:
        taken = {name for name, used in model.ports.items() if any(collide(probe, port) for port in used)}
        assert {table.names[row] for row in table.ports.conflicts(probe)} == taken
        assert {name for name, row in table.row_book.items() if table.ports.is_taken(row, probe)} == taken


def collide(wanted: tuple[str, str, int], used: tuple[str, str, int]) -> bool:
    return wanted[1:] == used[1:] and (wanted[0] == "0.0.0.0" or used[0] in ("0.0.0.0", wanted[0]))


def assert_tally(table: NodeTable, model: Model, app: str, namespace: str, with_terminating: bool, key: str) -> None:
    """A tally agrees with a count of the pods, by node and by value of a label."""
    selector = compile_selector(LabelSelector(match_labels={"app": app}))
    predicate = PodPredicate(selector, frozenset((namespace,)))
    tally = table.tallies.matching((predicate,), with_terminating)
    counted = [
        placed
        for placed in model.placed.values()
        if placed.app == app and placed.pod.namespace == namespace and (with_terminating or not placed.is_terminating)
    ]
    by_node = Counter(placed.node for placed in counted)
    assert {name: tally.counts[row] for name, row in table.row_book.items()} == {n: by_node[n] for n in table.row_book}
    assert (tally.counts.sum(), tally.total) == (len(counted), len(counted))
    column = table.labels.column(key)
    by_value = Counter(
        model.nodes[placed.node].labels[key]
        for placed in counted
        if placed.node in model.nodes and key in model.nodes[placed.node].labels
    )
    sums = tally.by_value(column)
    assert {value: sums[code] for value, code in column.value_book.items()} == {
        v: by_value[v] for v in column.value_book
    }
    assert sums[ABSENT] == 0


def said_about(table: NodeTable, namespace: str, app: str) -> list[tuple[Concern, Tally]]:
    """What each list of terms says about a pod with this label."""
    terms = table.tallies.terms
    return list(terms.lists(terms.about(label_set_of(namespace, {"app": app}), {}, 0)))


def assert_terms(table: NodeTable, model: Model, app: str, namespace: str) -> None:
    """The terms that speak of a pod are those of the pods of its namespace, if it is labelled app=web."""
    found = Counter[tuple[str, str]]()
    for concern, tally in said_about(table, namespace, app):
        for row in np.flatnonzero(tally.counts):
            node, count = table.names[row], int(tally.counts[row])
            found.update({("anti", node): count * sum(concern.anti.values())})
            found.update({("affinity", node): count * sum(concern.affinity.values())})
            found.update({("preferred", node): count * len(concern.preferred)})
    expected = Counter(
        (kind, placed.node)
        for placed in model.placed.values()
        for kind in placed.kind.terms
        if app == "web" and placed.pod.namespace == namespace
    )
    assert +found == expected


# ---- the machine


class TableMachine(RuleBasedStateMachine):
    """Small limits everywhere, so that growing, forgetting and evicting happen all the time."""

    def __init__(self) -> None:
        super().__init__()
        self.model = Model()
        self.serial = 0
        self.most_names = 0
        self.watch_terms = False
        self.changed: set[str] = set()
        self.settled = 0
        with mock.patch.object(table_module, "_FIRST_CAPACITY", 1):
            self.table = NodeTable()

    @initialize(tallies=st.integers(1, 4), touches=st.integers(2, 20), watch_terms=st.booleans())
    def set_limits(self, tallies: int, touches: int, watch_terms: bool) -> None:
        self.watch_terms = watch_terms
        self.table.tallies.LIMIT = tallies
        self.table.touches.LIMIT = self.table.node_touches.LIMIT = touches

    @rule(name=st.sampled_from(NAMES), facts=FACTS)
    def put_node(self, name: str, facts: Facts) -> None:
        before = self.table.touches.end, self.table.node_touches.end
        is_same = self.model.nodes.get(name) == facts
        row = self.table.put_node(facts.node(name))
        self.model.put_node(name, facts)
        self.changed.add(name)
        assert self.table.names[row] == name
        assert self.table.touches.since(before[0]) in ([[], [row]] if is_same else [[row]])
        assert self.table.node_touches.since(before[1]) == ([] if is_same else [row])

    @precondition(lambda self: self.model.nodes)
    @rule(data=st.data())
    def remove_node(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.model.nodes)))
        before, row = self.table.node_touches.end, self.table.row_book[name]
        self.table.remove_node(name)
        self.model.remove_node(name)
        self.changed.add(name)
        assert self.table.node_touches.since(before) == [row]

    @rule(name=st.sampled_from(NAMES))
    def remove_a_node_that_is_not_there(self, name: str) -> None:
        if name not in self.model.nodes:
            with pytest.raises(ClusterError, match=f"^node {name} is not found$"):
                self.table.remove_node(name)

    def a_placed(self, data: st.DataObject, names: Any) -> Placed:
        self.serial += 1
        app, is_terminating = data.draw(st.sampled_from(APPS)), data.draw(st.booleans())
        kind = KINDS[data.draw(st.sampled_from(sorted(KINDS)))]
        metadata = {
            "uid": f"u{self.serial}",
            **({"deletionTimestamp": "2026-02-01T00:00:00Z"} if is_terminating else {}),
        }
        namespace = data.draw(st.sampled_from(NAMESPACES))
        pod = a_pod(f"p{self.serial}", namespace=namespace, labels={"app": app}, metadata=metadata, **kind.written)
        return Placed(pod, kind, data.draw(st.sampled_from(names)), app, is_terminating)

    @rule(data=st.data())
    def place(self, data: st.DataObject) -> None:
        placed = self.a_placed(data, (*NAMES, "never seen"))
        before = self.table.touches.end, self.table.node_touches.end
        row = self.table.place(placed.pod, placed.node)
        self.model.place(placed)
        self.changed.add(placed.node)
        assert self.table.touches.since(before[0]) == [row]
        assert self.table.node_touches.since(before[1]) == []

    @rule(data=st.data(), number=st.integers(0, 5), few=st.sampled_from((1, 16)))
    def fill(self, data: st.DataObject, number: int, few: int) -> None:
        """Pods that come at once count as those that come one by one."""
        came = [self.a_placed(data, (*NAMES, "never seen")) for _ in range(number)]
        before = self.table.touches.end, self.table.node_touches.end
        came = [replace(placed, pod=placed.pod.with_node(placed.node)) for placed in came]
        with mock.patch.object(resource_amounts, "_FEW_CELLS", few):
            self.table.fill([placed.pod for placed in came])
        for placed in came:
            self.model.place(placed)
            self.changed.add(placed.node)
        touched = list(dict.fromkeys(self.table.row_book[placed.node] for placed in came))
        assert self.table.touches.since(before[0]) in (touched, None)
        assert self.table.node_touches.since(before[1]) == []

    @precondition(lambda self: self.model.placed)
    @rule(data=st.data())
    def fill_with_a_pod_that_is_there(self, data: st.DataObject) -> None:
        known = self.model.placed[data.draw(st.sampled_from(sorted(self.model.placed)))]
        with pytest.raises(ClusterError, match="is already on"):
            self.table.fill([known.pod.with_node(known.node)])

    @precondition(lambda self: self.model.placed)
    @rule(data=st.data())
    def displace(self, data: st.DataObject) -> None:
        pod_id = data.draw(st.sampled_from(sorted(self.model.placed)))
        before, row = self.table.touches.end, self.table.row_of_pod(pod_id)
        assert self.table.displace(pod_id) is self.model.placed[pod_id].pod
        self.changed.add(self.model.placed[pod_id].node)
        self.model.displace(pod_id)
        assert self.table.touches.since(before) == [row]

    @precondition(lambda self: self.model.placed)
    @rule(data=st.data(), few=st.sampled_from((1, 16)))
    def empty(self, data: st.DataObject, few: int) -> None:
        """Pods that leave a fork at once leave what pods leave that go one by one."""
        gone = data.draw(st.lists(st.sampled_from(sorted(self.model.placed)), unique=True))
        pods = [self.model.placed[pod_id].pod for pod_id in gone]
        at_once, one_by_one = self.table.fork(), self.table.fork()
        with mock.patch.object(resource_amounts, "_FEW_CELLS", few):
            at_once.empty(pods)
        for pod_id in gone:
            one_by_one.displace(pod_id)
        assert check_table(at_once) == []
        assert at_once.pod_ids() == one_by_one.pod_ids()
        assert at_once.ports.uses() == one_by_one.ports.uses()
        assert (at_once.amounts.scored == one_by_one.amounts.scored).all()
        assert at_once.touches.since(0) == list(dict.fromkeys(map(self.table.row_of_pod, gone)))

    @precondition(lambda self: self.model.placed)
    @rule(data=st.data(), labels_touch=st.booleans())
    def relabel(self, data: st.DataObject, labels_touch: bool) -> None:
        """Counts by labels follow, whether or not the row is touched."""
        pod_id = data.draw(st.sampled_from(sorted(self.model.placed)))
        old, app = self.model.placed[pod_id], data.draw(st.sampled_from(APPS))
        metadata = msgspec.structs.replace(old.pod.metadata, labels={"app": app})
        new = replace(old, pod=Pod(metadata=metadata, spec=old.pod.spec, status=old.pod.status), app=app)
        lags, before, row = self.table.images.lags, self.table.touches.end, self.table.row_of_pod(pod_id)
        assert row is not None
        self.table.labels_touch = labels_touch
        assert self.table.exchange(new.pod)
        is_touched = lags(row) or (labels_touch and app != old.app)
        assert self.table.touches.since(before) == ([row] if is_touched else [])
        self.changed.add(old.node)
        self.model.displace(pod_id)
        self.model.place(new)

    @precondition(lambda self: self.model.placed)
    @rule(name=st.sampled_from(NAMES))
    def place_a_pod_again(self, name: str) -> None:
        placed = next(iter(self.model.placed.values()))
        pod = placed.pod
        with pytest.raises(ClusterError, match=rf"^pod {pod.id}\({pod.key}\) is already on {placed.node}$"):
            self.table.place(pod, name)

    @rule()
    def displace_a_pod_that_is_not_there(self) -> None:
        with pytest.raises(ClusterError, match="^pod nobody is on no node$"):
            self.table.displace("nobody")

    @rule()
    def begin_an_attempt(self) -> None:
        """Nodes that changed see how many others have their images; all do when the log forgot who changed."""
        forgot = self.table.touches.since(self.settled) is None
        self.table.settle()
        self.model.settle(set(NAMES) if forgot else self.changed)
        self.settled, self.changed = self.table.touches.end, set()
        for image in IMAGES:
            assert self.table.images.size_bytes(image) == self.model.sizes.get(image, 0)
            counts = self.table.images.counts(image)
            found = {name: 0 if counts is None else int(counts[self.table.row_book[name]]) for name in self.model.nodes}
            assert found == {name: self.model.seen[name].get(image, 0) for name in self.model.nodes}

    @rule(name=st.sampled_from((*SCALARS, *IGNORED)))
    def ask_for_a_resource(self, name: str) -> None:
        """As a scoring strategy does that lists it, or a pod that requests it."""
        is_there = name not in IGNORED and any(name in facts.amounts for facts in self.model.nodes.values())
        assert self.table.amounts.resource(name) == (self.table.amounts.resource_book[name] if is_there else NOWHERE)

    @rule(
        app=st.sampled_from(APPS),
        namespace=st.sampled_from(NAMESPACES),
        with_terminating=st.booleans(),
        key=st.sampled_from(KEYS),
    )
    def ask_for_a_tally(self, app: str, namespace: str, with_terminating: bool, key: str) -> None:
        assert_tally(self.table, self.model, app, namespace, with_terminating, key)

    @rule(app=st.sampled_from(APPS), namespace=st.sampled_from(NAMESPACES))
    def ask_for_terms(self, app: str, namespace: str) -> None:
        assert_terms(self.table, self.model, app, namespace)

    @rule(data=st.data())
    def try_something_in_a_fork(self, data: st.DataObject) -> None:
        """What happens in a fork is right there, and does not happen here."""
        fork, model = self.table.fork(), self.model.copy()
        before = observe(self.table)
        for _ in range(data.draw(st.integers(1, 4), "changes")):
            if data.draw(st.booleans(), "displace") and model.placed:
                pod_id = data.draw(st.sampled_from(sorted(model.placed)))
                assert fork.displace(pod_id) is model.placed[pod_id].pod
                model.displace(pod_id)
            elif fork.row_book:
                placed = self.a_placed(data, sorted(fork.row_book))
                fork.place(placed.pod, placed.node)
                model.place(placed)
        assert_same(fork, model)
        assert_tally(fork, model, "web", "default", True, ZONE)
        assert_terms(fork, model, "web", "default")
        with pytest.raises(ClusterError, match="^node elsewhere is not known, and a fork takes no new nodes$"):
            fork.place(a_pod("lost"), "elsewhere")
        fork.settle()
        assert observe(self.table) == before

    @rule(data=st.data())
    def try_something_in_a_sketch(self, data: st.DataObject) -> None:
        """The light copy: sums, pods and ports of a row are right there, and nothing of it happens here."""
        if not self.table.row_book:
            return
        name = data.draw(st.sampled_from(sorted(self.table.row_book)))
        sketch, model, row = self.table.sketch(), self.model.copy(), self.table.row_book[name]
        asked = SCALARS if data.draw(st.booleans(), "ask") else ()
        for key in asked:
            # or else the sketch would ask for it, and the table gets a place for it as well
            self.table.amounts.resource(key)
        before = observe(self.table)
        for _ in range(data.draw(st.integers(1, 4), "changes")):
            there = [placed.pod for placed in model.on(name)]
            if data.draw(st.booleans(), "release") and there:
                pod = data.draw(st.sampled_from(there))
                sketch.release(pod, row)
                model.displace(pod.id)
            else:
                placed = self.a_placed(data, (name,))
                sketch.hold(placed.pod, row)
                model.place(placed)
        held = Counter[str]()
        for placed in model.on(name):
            held.update({"cpu": placed.kind.cpu[0], "memory": placed.kind.memory[0], **placed.kind.others})
        for key in asked:
            sketch.amounts.resource(key)
        assert {key: sketch.amounts.requested[i, row] for key, i in sketch.amounts.resource_book.items()} == {
            key: held[key] for key in sketch.amounts.resource_book
        }
        assert sketch.pod_count[row] == len(model.on(name))
        assert {pod.id for pod in sketch.pods_on[row]} == {placed.pod.id for placed in model.on(name)}
        assert_ports(sketch, model)
        assert observe(self.table) == before

    @invariant()
    def table_and_model_agree(self) -> None:
        assert_same(self.table, self.model)

    @invariant()
    def terms_that_are_asked_for_all_the_time_agree(self) -> None:
        for app in APPS if self.watch_terms else ():
            assert_terms(self.table, self.model, app, "default")

    @invariant()
    def rows_are_reused(self) -> None:
        self.most_names = max(self.most_names, len(self.model.names()))
        assert self.table.height == self.most_names


def observe(table: NodeTable) -> dict[str, Any]:
    """All that a fork could spoil."""
    return {
        "pods": [list(pods) for pods in table.pods_on],
        "requested": table.amounts.requested.tolist(),
        "scored": table.amounts.scored.tolist(),
        "allocatable": table.amounts.allocatable.tolist(),
        "pod count": table.pod_count.tolist(),
        "resources": dict(table.amounts.resource_book),
        "ports": [sorted(table.ports.conflicts(probe)) for probe in PROBES],
        "tallies": [tally.counts.tolist() for tally in table.tallies.kept().values()],
        "terms": {terms: carriers.tally.counts.tolist() for terms, carriers in table.tallies.terms.carried.items()},
        "touches": (table.touches.end, table.node_touches.end),
        "rows": dict(table.row_book),
        "images": {row: dict(counts) for row, counts in table.images._seen.items()},
    }


TestTable = pytest.mark.slow(TableMachine.TestCase)
TestTable.settings = settings(max_examples=examples(60), stateful_step_count=40)


# ---- rows, plainly


def test_a_node_that_goes_leaves_its_pods_counted_on_a_row_that_is_no_candidate() -> None:
    table = NodeTable()
    row = table.put_node(a_node("n", cpu="4"))
    table.place(a_pod(cpu="1"), "n")
    table.remove_node("n")
    assert (table.alive[row], table.alive_count) == (False, 0)
    assert (table.amounts.allocatable[0, row], table.amounts.requested[0, row]) == (0, 1000)
    assert table.put_node(a_node("n", cpu="4")) == row
    assert (table.alive[row], table.amounts.allocatable[0, row], table.amounts.requested[0, row]) == (True, 4000, 1000)


def test_pods_of_a_node_not_seen_yet_count_once_it_is_seen() -> None:
    table = NodeTable()
    row = table.place(a_pod(cpu="1"), "n9")
    assert not table.alive[row]
    assert table.put_node(a_node("n9")) == row
    assert (table.alive[row], table.amounts.requested[0, row]) == (True, 1000)


def test_a_row_is_free_again_when_node_and_pods_are_gone() -> None:
    table = NodeTable()
    row = table.put_node(a_node("n", labels={ZONE: "a"}, taints=["k:NoSchedule"]))
    table.labels.column(ZONE)
    table.place(a_pod(cpu="1", metadata={"uid": "u"}), "n")
    table.remove_node("n")
    table.displace("u")
    assert table.put_node(a_node("m")) == row
    assert table.labels.column(ZONE).codes[row] == ABSENT
    assert table.taints.values[table.taints.codes[row]] == ()
    assert table.amounts.requested[0, row] == 0


def test_taints_and_features_of_the_past_are_forgotten() -> None:
    table = NodeTable()
    other = table.put_node(a_node("other", taints=["kept:NoSchedule"], features=["Kept"]))
    for i in range(500):
        row = table.put_node(a_node("n", taints=[f"k{i}:NoSchedule"], features=[f"F{i}"]))
        assert [taint.key for taint in table.taints.values[table.taints.codes[row]]] == [f"k{i}"]
        assert table.features.values[table.features.codes[row]] == {f"F{i}"}
        assert [taint.key for taint in table.taints.values[table.taints.codes[other]]] == ["kept"]
        assert table.features.values[table.features.codes[other]] == {"Kept"}
    assert max(len(table.taints.values), len(table.features.values)) < 100


def test_columns_grow_with_the_number_of_nodes() -> None:
    table = NodeTable()
    for i in range(200):
        table.put_node(a_node(f"n{i}", cpu=str(i), labels={ZONE: f"z{i % 3}"}))
    assert table.height == 200 <= table.capacity
    assert table.amounts.allocatable[0, :200].tolist() == [1000 * i for i in range(200)]
    assert check_table(table) == []


@pytest.mark.parametrize("resources", [slice(1, 3), np.array([0, 2], np.intp)], ids=["adjacent", "apart"])
@pytest.mark.parametrize("rows", [slice(1, 4), np.array([3, 0], np.intp)], ids=["a slice", "an array"])
def test_cells_are_resources_by_rows(resources: Any, rows: Any) -> None:
    matrix = np.arange(12).reshape(3, 4)
    expected = [[int(matrix[r, c]) for c in np.arange(4)[rows]] for r in np.arange(3)[resources]]
    assert cells(matrix, resources, rows).tolist() == expected


def test_a_resource_that_only_a_strategy_names_is_not_counted_on_nodes() -> None:
    """Upstream ignores names like `foo` in a node's allocatable, whoever asks for them."""
    table = NodeTable()
    node = a_node("n", allocatable={"foo": 5})
    row = table.put_node(node)
    index = table.amounts.resource("foo")
    table.put_node(a_node("n", allocatable={"foo": 6}))
    assert table.amounts.allocatable[index, row] == 0


def pods_that_prefer(*weights: int) -> list[Pod]:
    """Each with a term that no other has."""
    return [a_pod(f"w{weight}", affinity=a_term("preferred", weight=weight)) for weight in weights]


def weights_about(table: NodeTable) -> dict[int, int]:
    """The weights of the terms that speak of a pod labelled app=web, with the number of pods that have them."""
    found = said_about(table, "default", "web")
    return {weight: tally.total for concern, tally in found if tally.total for weight in concern.preferred.values()}


def test_terms_that_come_later_are_found_too() -> None:
    table = NodeTable()
    for i, pod in enumerate(pods_that_prefer(1, 2, 3)):
        table.place(pod, "n")
        assert weights_about(table) == dict.fromkeys(range(1, i + 2), 1)


def test_terms_that_no_pod_has_any_more_are_forgotten_and_can_return() -> None:
    table = NodeTable()
    table.tallies.terms.MOST_REMEMBERED = 2
    pods = pods_that_prefer(*range(1, 9))
    table.place(pods[0], "n")
    for weight, pod in enumerate(pods[1:], 2):
        table.place(pod, "n")
        assert weights_about(table) == {1: 1, weight: 1}
        table.displace(pod.id)
    assert len(table.tallies.terms.carried) == 1
    again = a_pod("again", affinity=a_term("preferred", weight=1))
    table.place(again, "n")
    table.place(pods[1], "n")
    assert weights_about(table) == {1: 2, 2: 1}
    assert check_table(table) == []


def test_the_ports_of_a_sketch_are_its_own() -> None:
    table = NodeTable()
    row = table.put_node(a_node("n"))
    holder, other = a_pod("a", host_ports=[80, 81]), a_pod("b", host_ports=[PORTS[1]])
    table.place(holder, "n")
    sketch = table.sketch()
    sketch.release(holder, row)
    assert not sketch.ports.is_taken(row, ("0.0.0.0", "TCP", 80))
    sketch.hold(other, row)
    assert sketch.ports.is_taken(row, ("10.0.0.1", "TCP", 80))
    assert not sketch.ports.is_taken(row, ("10.0.0.2", "TCP", 80))
    assert table.ports.is_taken(row, ("10.0.0.2", "TCP", 80))
    assert table.ports.is_taken(row, ("0.0.0.0", "TCP", 81))


def test_check_finds_what_is_wrong() -> None:
    """Or else a clean check would mean nothing."""
    table = NodeTable()
    row = table.put_node(a_node("n", labels={ZONE: "a"}))
    table.place(a_pod(labels={"app": "web"}, cpu="1", affinity=a_term("anti")), "n")
    column = table.labels.column(ZONE)
    predicate = PodPredicate(compile_selector(LabelSelector(match_labels={"app": "web"})), frozenset(("default",)))
    tally = table.tallies.tally((predicate, True))
    tally.by_value(column)
    assert check_table(table) == []
    table.amounts.requested[0, row] += 1
    table.pod_count[row] += 1
    tally.add((row, 1))
    column.codes[row] = ABSENT
    next(iter(table.tallies.terms.carried.values())).tally.add((row, -1))
    table.alive[row] = False
    assert check_table(table) == [
        "alive rows are not those that have a node",
        "row 0: cpu requested is 1001 (scored 1000), pods hold 1000 (1000)",
        "row 0: counts 2 pods, has 1",
        f"row 0: label {ZONE} is encoded as None",
        f"tally of {predicate!r} differs from a recount",
        "carried terms differ from a recount",
        f"sums over {ZONE} differ from a recount",
    ]


# ---- ports


PORT_CASES = {
    "any address collides with one": ("10.0.0.1", "0.0.0.0", True),
    "one address collides with any": ("0.0.0.0", "10.0.0.1", True),
    "the same address": ("10.0.0.1", "10.0.0.1", True),
    "two addresses do not collide": ("10.0.0.1", "10.0.0.2", False),
    "the IPv6 wildcard is an ordinary address": ("::", "10.0.0.1", False),
    "asking for the IPv6 wildcard": ("10.0.0.1", "::", False),
}


@pytest.mark.parametrize(("used", "wanted", "taken"), PORT_CASES.values(), ids=PORT_CASES.keys())
def test_addresses(used: str, wanted: str, taken: bool) -> None:
    ports = PortUse()
    ports.occupy(3, [(used, "TCP", 80)])
    assert list(ports.conflicts((wanted, "TCP", 80))) == ([3] if taken else [])
    assert ports.is_taken(3, (wanted, "TCP", 80)) == taken
    assert not ports.is_taken(3, (wanted, "UDP", 80))
    assert not ports.is_taken(3, (wanted, "TCP", 81))


def test_the_first_of_two_pods_that_leaves_frees_their_port() -> None:
    ports = PortUse()
    ports.occupy(0, [("0.0.0.0", "TCP", 80)])
    ports.occupy(0, [("0.0.0.0", "TCP", 80)])
    ports.release(0, [("0.0.0.0", "TCP", 80)])
    assert not ports.is_taken(0, ("0.0.0.0", "TCP", 80))
    ports.release(0, [("0.0.0.0", "TCP", 80)])
    assert not ports.is_taken(0, ("0.0.0.0", "TCP", 80))


# ---- the orders of nodes


def an_order(**zones: str) -> NodeOrder:
    """Zones by name, with the nodes that arrive there: an_order(z1="a b")."""
    order = NodeOrder()
    for zone, names in zones.items():
        for name in names.split():
            order.add(name, {ZONE: zone})
    return order


def test_zones_take_turns() -> None:
    assert an_order(z1="a b c", z2="d", z3="e f").round_robin() == ["a", "d", "e", "b", "f", "c"]


def test_a_zone_that_became_empty_comes_last_when_it_returns() -> None:
    order = an_order(z1="a", z2="b c")
    order.remove("a")
    assert order.round_robin() == ["b", "c"]
    order.add("a", {ZONE: "z1"})
    assert order.round_robin() == ["b", "a", "c"]


def test_a_node_that_changes_zone_keeps_its_place_until_a_node_comes_or_goes() -> None:
    order = an_order(z1="a b", z2="c")
    assert order.round_robin() == ["a", "c", "b"]
    order.relabel("a", {ZONE: "z2"})
    assert order.round_robin() == ["a", "c", "b"]
    order.add("d", {ZONE: "z1"})
    assert order.round_robin() == ["b", "c", "d", "a"]


def test_a_label_that_does_not_change_the_zone_changes_nothing() -> None:
    order = an_order(z1="a b")
    order.relabel("a", {ZONE: "z1", "other": "label"})
    order.add("c", {ZONE: "z1"})
    assert order.round_robin() == ["a", "b", "c"]


def test_a_node_that_goes_and_returns_between_two_looks_keeps_its_place() -> None:
    order = an_order(z1="a b c")
    assert order.round_robin() == ["a", "b", "c"]
    order.remove("a")
    order.add("a", {ZONE: "z1"})
    assert order.round_robin() == ["a", "b", "c"]
    order.remove("a")
    assert order.round_robin() == ["b", "c"]
    order.add("a", {ZONE: "z1"})
    assert order.round_robin() == ["b", "c", "a"]


OLD = "failure-domain.beta.kubernetes.io/zone"
ZONES: dict[str, tuple[dict[str, str], dict[str, str], bool]] = {
    "no labels are a zone too": ({}, {"x": "y"}, True),
    "the older label counts first": ({OLD: "a", ZONE: "b"}, {OLD: "a"}, True),
    "an empty older label does not count": ({OLD: "", ZONE: "b"}, {ZONE: "b"}, True),
    "the same zone of two regions": ({ZONE: "a", "topology.kubernetes.io/region": "r"}, {ZONE: "a"}, False),
    "the older label of regions": (
        {"failure-domain.beta.kubernetes.io/region": "r"},
        {"topology.kubernetes.io/region": "r"},
        True,
    ),
}


@pytest.mark.parametrize(("one", "other", "same"), ZONES.values(), ids=ZONES.keys())
def test_what_a_zone_is(one: dict[str, str], other: dict[str, str], same: bool) -> None:
    order = NodeOrder()
    order.add("a", one)
    order.add("b", one)
    order.add("c", other)
    assert order.round_robin() == (["a", "b", "c"] if same else ["a", "c", "b"])


def test_rank_goes_by_name() -> None:
    table = NodeTable()
    for name in ("c", "a", "b"):
        table.put_node(a_node(name))
    assert table.order.name_rank(table.row_book, table.capacity)[:3].tolist() == [2, 0, 1]
    table.remove_node("a")
    table.put_node(a_node("d"))
    assert [table.order.name_rank(table.row_book, table.capacity)[table.row_book[name]] for name in "bcd"] == [0, 1, 2]


def test_names_are_in_order_after_every_few_nodes_that_come_and_go() -> None:
    dice, table = random.Random(3), NodeTable()
    names = [f"n{number}" for number in range(60)]
    for name in dice.sample(names, 40):
        table.put_node(a_node(name))
    for _ in range(60):
        for name in dice.sample(names, dice.choice((1, 2, 3, 20))):
            if name in table.row_book:
                table.remove_node(name)
            if dice.random() < 0.7:
                table.put_node(a_node(name))
        there = sorted(table.row_book)
        assert [table.names[row] for row in table.rows_by_name()] == there
        assert [int(table.name_rank()[table.row_book[name]]) for name in there] == [*range(len(there))]
        in_rows = [name for _, name in sorted((row, name) for name, row in table.row_book.items())]
        assert table.is_named_by_row() == (in_rows == there)


# ---- images


def seen(table: NodeTable, image: str, *names: str) -> list[int]:
    """On how many nodes each of these nodes believes the image to be, when an attempt begins now."""
    table.settle()
    counts = table.images.counts(image)
    return [0 if counts is None else int(counts[table.row_book[name]]) for name in names]


def test_the_first_size_counts_until_the_image_is_gone_everywhere() -> None:
    images = Images()
    images.grow(4)
    images.put(0, {"x": 10})
    images.put(1, {"x": 20})
    assert images.size_bytes("x") == 10
    images.put(0, {})
    assert images.size_bytes("x") == 10
    images.put(1, {})
    assert images.size_bytes("x") == 0
    images.put(2, {"x": 30})
    assert images.size_bytes("x") == 30


def test_the_only_node_with_an_image_may_change_its_size() -> None:
    images = Images()
    images.put(0, {"x": 10})
    images.put(0, {"x": 20})
    assert images.size_bytes("x") == 20


def test_a_node_that_lists_an_image_twice_means_the_first_size() -> None:
    node = a_node("n")
    node.status.images = [
        ContainerImage(names=["x", "y"], size_bytes=10),
        ContainerImage(names=["x"], size_bytes=20),
    ]
    table = NodeTable()
    table.put_node(node)
    assert (table.images.size_bytes("x"), table.images.size_bytes("y")) == (10, 10)


def test_a_node_sees_the_count_of_the_last_time_it_changed() -> None:
    table = NodeTable()
    table.put_node(a_node("a", images={"x": 1}))
    assert seen(table, "x", "a") == [1]
    table.put_node(a_node("b", images={"x": 1}))
    assert seen(table, "x", "a", "b") == [1, 2]
    table.place(a_pod(), "a")
    assert seen(table, "x", "a", "b") == [2, 2]


def test_an_update_of_the_node_that_changes_nothing_else_refreshes_the_count() -> None:
    """Upstream takes every update of a node for a change: heartbeats do it."""
    table = NodeTable()
    table.put_node(a_node("a", images={"x": 1}))
    seen(table, "x")
    table.put_node(a_node("b", images={"x": 1}))
    assert seen(table, "x", "a") == [1]
    table.put_node(a_node("a", images={"x": 1}))
    assert seen(table, "x", "a") == [2]


def test_counts_fall_too_late_as_well() -> None:
    table = NodeTable()
    for name in "ab":
        table.put_node(a_node(name, images={"x": 1}))
    assert seen(table, "x", "a", "b") == [2, 2]
    table.remove_node("a")
    assert seen(table, "x", "b") == [2]
    table.put_node(a_node("b", images={"x": 1, "y": 1}))
    assert seen(table, "x", "b") == [1]


def test_an_image_that_is_nowhere_has_no_counts() -> None:
    table = NodeTable()
    table.put_node(a_node("a", images={"x": 1}))
    assert seen(table, "x", "a") == [1]
    table.put_node(a_node("a"))
    table.settle()
    assert table.images.counts("x") is None
    assert table.images.counts("never") is None


def test_what_a_fork_sees_of_images_stays_in_the_fork() -> None:
    table = NodeTable()
    table.put_node(a_node("a", images={"x": 1}))
    assert seen(table, "x", "a") == [1]
    table.put_node(a_node("b", images={"x": 1}))
    assert seen(table, "x", "a") == [1]
    fork = table.fork()
    fork.place(a_pod(), "a")
    fork.settle()
    assert seen(table, "x", "a", "b") == [1, 2]


def test_a_fork_sees_images_that_came_just_before() -> None:
    table = NodeTable()
    table.put_node(a_node("a", images={"x": 1}))
    assert seen(table.fork(), "x", "a") == [1]


def test_nodes_that_are_written_alike_share_their_amounts_and_texts() -> None:
    texts = '{"cpu": "4", "memory": "8Gi", "pods": "110"}'
    written = (
        '{"metadata": {"name": "%s", "labels": {"kubernetes.io/hostname": "%s", "zone": "zone-north"}}, "status": {'
        '"allocatable": %s, "capacity": %s, "conditions": [{"type": "Ready", "status": "Unknown", "reason": "Lost"}]}}'
    )
    table = NodeTable()
    nodes = [
        msgspec.json.decode(written % (name, name, amounts, texts), type=Node)
        for name, amounts in (("a", texts), ("b", texts), ("c", '{"cpu": 4}'), ("d", '{"cpu": 4.0}'))
    ]
    before = [msgspec.json.encode(node) for node in nodes]
    for node in nodes:
        table.put_node(node)
    assert [msgspec.json.encode(node) for node in nodes] == before
    first, second = nodes[:2]
    assert first.status.allocatable is second.status.allocatable is second.status.capacity
    assert first.labels["zone"] is second.labels["zone"]
    assert second.labels["kubernetes.io/hostname"] is second.metadata.name
    one, other = ((node.status.conditions or [])[0] for node in (first, second))
    assert one.reason is other.reason and one.status is other.status
