"""Faults in the middle of a change: the table and the cache are as before, or, when something leaves, it has left."""

from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest

from build import CPU, a_node, a_pod
from mooring.cluster.cache import Cache
from mooring.cluster.cluster import Cluster
from mooring.cluster.columns.images import Images
from mooring.cluster.columns.labels import LabelColumns
from mooring.cluster.columns.ports import PortUse
from mooring.cluster.columns.resource_amounts import ResourceAmounts
from mooring.cluster.pods.nominated import Load, NominatedLoad
from mooring.cluster.pods.pod_groups import PodGroups
from mooring.cluster.tallies.carried_terms import CarriedTerms
from mooring.cluster.tallies.tallies import PodTallies
from mooring.cluster.tallies.tally import Tally
from mooring.model.affinity import PodPredicate
from mooring.model.meta import LabelSelector
from mooring.model.node import Node
from mooring.model.pod import Pod
from mooring.model.selectors import compile_selector

WEB = PodPredicate(compile_selector(LabelSelector(match_labels={"app": "web"})), frozenset(("default",)))
AWAY = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}}
        ]
    }
}


class Fault(Exception):
    """A bug that strikes once."""


def a_web(name: str, node: str = "n1", **more: Any) -> Pod:
    """A pod that is counted in every way there is: sums, tallies, carried terms, ports."""
    made = {"cpu": "1", "requests": {"example.com/gpu": 1}, "labels": {"app": "web"}, "host_ports": [len(name)]}
    return a_pod(name, metadata={"uid": name}, nodeName=node, affinity=AWAY, **{**made, **more})


def a_world() -> tuple[Cluster, Cache]:
    """Two nodes, a pod on the first, an assumed one on the second; everything that can be counted is asked for."""
    cluster = Cluster()
    cluster.groups = PodGroups()
    for name in ("n1", "n2"):
        cluster.put(a_node(name, labels={"zone": name}, images={"x:1": 5}))
    cache = Cache(cluster)
    cache.confirm(a_web("seen"))
    cache.assume(a_web("assumed", ""), "n2")
    tally = cluster.nodes.tallies.matching((WEB,), with_terminating=True)
    tally.by_value(cluster.nodes.labels.column("zone"))
    assert cache.check() == []
    return cluster, cache


def fails_on(owner: type, name: str, call: int) -> Any:
    """Let the call with this number (from 0) of a method fail before it does anything, or, if negative, after it."""
    work, calls = getattr(owner, name), iter(range(1000))

    def once(self: Any, *args: Any, **more: Any) -> Any:
        number = next(calls)
        if call >= 0 and number == call:
            raise Fault
        answer = work(self, *args, **more)
        if call < 0 and number == -call - 1:
            raise Fault
        return answer

    return mock.patch.object(owner, name, once)


def seen(cluster: Cluster, cache: Cache) -> dict[str, Any]:
    """Everything that can be seen from outside."""
    nodes = cluster.nodes
    tally = nodes.tallies.matching((WEB,), with_terminating=True)
    column = nodes.labels.column("zone")
    return {
        "pods": {pod.id: (pod, nodes.names[row]) for row, pods in enumerate(nodes.pods_on) for pod in pods},
        "cache": {pod_id: cache.get(pod_id) for pod_id in cache.pod_ids()},
        "assumed": cache.assumed_ids(),
        "requested": {name: nodes.amounts.requested[:3, row].tolist() for name, row in nodes.row_book.items()},
        "allocatable": {name: nodes.amounts.allocatable[:3, row].tolist() for name, row in nodes.row_book.items()},
        "zones": {name: column.values[column.codes[row]] for name, row in nodes.row_book.items()},
        "nodes": {node.name: node for node in nodes.nodes if node is not None},
        "tally": {name: int(tally.counts[row]) for name, row in nodes.row_book.items()},
        "by zone": {
            value: int(tally.by_value(column)[code])
            for value, code in column.value_book.items()
            if value in ("n1", "n2")
        },
        "ports": {
            name: [port for port in range(9) if nodes.ports.is_taken(row, ("0.0.0.0", "TCP", port))]
            for name, row in nodes.row_book.items()
        },
        "images": {name: set(image.rows) for name, image in nodes.images._images.items()},
    }


COUNTING = [
    (Tally, "add", 0),
    (Tally, "add", 1),
    (Tally, "add", -1),
    (PodTallies, "add", 0),
    (PodTallies, "add", -1),
    (CarriedTerms, "add", 0),
    (ResourceAmounts, "add", 0),
    (ResourceAmounts, "add", -1),
]
ARRIVING = [*COUNTING, (PortUse, "occupy", 0), (PortUse, "occupy", -1)]
LEAVING = [*COUNTING, (PortUse, "release", 0), (PortUse, "release", -1)]
FACTS = [
    (LabelColumns, "put", 0),
    (LabelColumns, "put", -1),
    (Images, "put", 0),
    (Images, "put", -1),
]


def named(fault: Any) -> str:
    owner, name, call = fault
    return f"{owner.__name__}.{name} {'after' if call < 0 else 'before'} call {call if call >= 0 else -call - 1}"


COMINGS: dict[str, Callable[[Cluster, Cache], object]] = {
    "a pod is seen": lambda cluster, cache: cache.confirm(a_web("new")),
    "a pod of an unknown node is seen": lambda cluster, cache: cache.confirm(a_web("new", "n9")),
    "a pod is assumed": lambda cluster, cache: cache.assume(a_web("new", ""), "n2"),
    "a pod changes": lambda cluster, cache: cache.update(a_web("seen"), a_web("seen", cpu="3")),
    "an assumed pod is seen elsewhere": lambda cluster, cache: cache.confirm(a_web("assumed", "n1")),
}


@pytest.mark.parametrize("fault", ARRIVING, ids=named)
@pytest.mark.parametrize("case", COMINGS)
def test_a_fault_while_a_pod_comes_changes_nothing(case: str, fault: Any) -> None:
    cluster, cache = a_world()
    before = seen(cluster, cache)
    with fails_on(*fault), pytest.raises(Fault):
        COMINGS[case](cluster, cache)
    assert cache.check() == []
    assert seen(cluster, cache) == before
    COMINGS[case](cluster, cache)
    assert cache.check() == []


GOINGS: dict[str, tuple[str, Callable[[Cache], object]]] = {
    "a pod is gone": ("seen", lambda cache: cache.remove(a_web("seen"))),
    "an assumed pod is gone": ("assumed", lambda cache: cache.remove(a_web("assumed", "n2"))),
    "an assumed pod is given up": ("assumed", lambda cache: cache.forget(a_web("assumed", "n2"))),
}


@pytest.mark.parametrize("fault", LEAVING, ids=named)
@pytest.mark.parametrize("case", GOINGS)
def test_a_fault_while_a_pod_goes_does_not_keep_it(case: str, fault: Any) -> None:
    cluster, cache = a_world()
    clean, cleanly = a_world()
    gone, act = GOINGS[case]
    act(cleanly)
    with fails_on(*fault), pytest.raises(Fault):
        act(cache)
    assert cache.check() == [] and cache.get(gone) is None
    assert {k: v for k, v in seen(cluster, cache).items() if k not in ("pods", "cache", "nodes")} == {
        k: v for k, v in seen(clean, cleanly).items() if k not in ("pods", "cache", "nodes")
    }


CHANGED = a_node("n1", cpu="9", labels={"zone": "other"}, images={"y:1": 5}, allocatable={"example.com/fpga": 1})
NODE_CHANGES: dict[str, Node] = {
    "a node changes": CHANGED,
    "a node comes": a_node("n9", labels={"zone": "n9"}, images={"x:1": 1}, allocatable={"example.com/fpga": 1}),
}


@pytest.mark.parametrize("fault", FACTS, ids=named)
@pytest.mark.parametrize("case", NODE_CHANGES)
def test_a_fault_while_a_node_changes_changes_nothing(case: str, fault: Any) -> None:
    cluster, cache = a_world()
    before = seen(cluster, cache)
    with fails_on(*fault), pytest.raises(Fault):
        cluster.nodes.put_node(NODE_CHANGES[case])
    assert cache.check() == []
    assert seen(cluster, cache) == before
    cluster.nodes.put_node(NODE_CHANGES[case])
    assert cache.check() == []
    assert seen(cluster, cache)["zones"][NODE_CHANGES[case].name] == NODE_CHANGES[case].labels["zone"]


@pytest.mark.parametrize("fault", FACTS[:4], ids=named)
def test_a_fault_while_a_node_goes_does_not_keep_it(fault: Any) -> None:
    cluster, cache = a_world()
    with fails_on(*fault), pytest.raises(Fault):
        cluster.nodes.remove_node("n1")
    assert not cluster.nodes.alive[cluster.nodes.row_book["n1"]] and cluster.nodes.alive_count == 1
    cluster.nodes.put_node(a_node("n1", labels={"zone": "n1"}, images={"x:1": 5}))
    assert cache.check() == []
    assert cluster.nodes.amounts.requested[CPU, cluster.nodes.row_book["n1"]] == 1000


@pytest.mark.parametrize("call", [0, 1, -1])
def test_a_fault_while_room_is_promised_leaves_loads_that_add_up(call: int) -> None:
    cluster, _ = a_world()
    nominated = NominatedLoad(cluster.nodes)
    row = cluster.nodes.row_book["n1"]
    asking = a_pod("asking", metadata={"uid": "asking"}, priority=-1)
    other = a_pod("other", metadata={"uid": "other"}, priority=-2)
    nominated.promise(a_web("one", ""), "n1")
    for pod in (asking, other):
        nominated.load_beside(pod)
    with fails_on(Load, "add", call), pytest.raises(Fault):
        nominated.promise(a_web("two", ""), "n1")
    assert nominated.load_beside(asking).requested[CPU, row] == 1000 * len(nominated.on("n1"))
    nominated.load_beside(other)
    with fails_on(Load, "add", call), pytest.raises(Fault):
        nominated.withdraw("one")
    assert nominated.node_of("one") is None
    assert nominated.load_beside(asking).requested[CPU, row] == 1000 * len(nominated.on("n1"))
