"""The cache's state machine: every row of the table of states and calls, with the words of each error."""

from collections.abc import Callable
from typing import Any

import pytest

from build import CPU, a_node, a_pod
from mooring.cluster.cache import Cache
from mooring.cluster.cluster import Cluster
from mooring.cluster.nodes.table import ClusterError
from mooring.cluster.pods.pod_groups import PodGroups
from mooring.model.affinity import PodPredicate
from mooring.model.meta import LabelSelector
from mooring.model.pod import Pod
from mooring.model.selectors import compile_selector

World = tuple[Cluster, Cache]


def the_pod(node: str = "", cpu: str = "1") -> Pod:
    return a_pod("p", cpu=cpu, metadata={"uid": "u1"}, nodeName=node)


def a_world(state: str) -> World:
    """Nodes n1 and n2, and the pod in one of three states; where it is, it is on n1."""
    cluster = Cluster()
    cluster.put(a_node("n1"))
    cluster.put(a_node("n2"))
    cache = Cache(cluster)
    if state == "assumed":
        cache.assume(the_pod(), "n1")
    elif state == "added":
        cache.confirm(the_pod("n1"))
    return cluster, cache


def cpu_by_node(cluster: Cluster) -> dict[str, int]:
    """Milli-CPU requested, where it is any; rows without a node count too."""
    nodes = cluster.nodes
    return {
        name: int(nodes.amounts.requested[CPU, row])
        for name, row in nodes.row_book.items()
        if nodes.amounts.requested[CPU, row]
    }


CALLS: dict[str, Callable[[Cache, str, str], Any]] = {
    "assume": lambda cache, node, cpu: cache.assume(the_pod("", cpu), node),
    "forget": lambda cache, node, cpu: cache.forget(the_pod(node, cpu)),
    "confirm": lambda cache, node, cpu: cache.confirm(the_pod(node, cpu)),
    "update": lambda cache, node, cpu: cache.update(the_pod("n1"), the_pod(node, cpu)),
    "remove": lambda cache, node, cpu: cache.remove(the_pod(node, cpu)),
}

EFFECTS = {
    "an absent pod that is assumed counts, and is assumed": ("absent", "assume", "n1", "1", {"n1": 1000}, True),
    "forgetting an absent pod does nothing": ("absent", "forget", "n1", "1", {}, False),
    "forgetting an assumed pod frees its node": ("assumed", "forget", "n1", "1", {}, False),
    "an absent pod that is seen counts": ("absent", "confirm", "n2", "1", {"n2": 1000}, False),
    "an assumed pod seen where it was assumed counts once": ("assumed", "confirm", "n1", "1", {"n1": 1000}, False),
    "an assumed pod seen elsewhere moves there": ("assumed", "confirm", "n2", "1", {"n2": 1000}, False),
    "an assumed pod seen with other requests counts by those": ("assumed", "confirm", "n1", "3", {"n1": 3000}, False),
    "an update counts the new object": ("added", "update", "n1", "2", {"n1": 2000}, False),
    "removing a pod frees its node": ("added", "remove", "n1", "1", {}, False),
    "removing an assumed pod frees its node": ("assumed", "remove", "n1", "1", {}, False),
    "a pod without a node is removed from where it counts": ("added", "remove", "", "1", {}, False),
    "what is removed is the object that counts, not the argument": ("added", "remove", "n1", "4", {}, False),
}


@pytest.mark.parametrize(("state", "call", "node", "cpu", "counted", "assumed"), EFFECTS.values(), ids=EFFECTS.keys())
def test_a_call_has_its_effect(
    state: str, call: str, node: str, cpu: str, counted: dict[str, int], assumed: bool
) -> None:
    cluster, cache = a_world(state)
    CALLS[call](cache, node, cpu)
    assert cpu_by_node(cluster) == counted
    assert cache.is_assumed("u1") is assumed
    assert cache.assumed_count == int(assumed)
    known = cache.get("u1")
    assert ({known.spec.node_name} if known else set()) == counted.keys()
    assert cache.check() == []


ERRORS = {
    "an assumed pod is not assumed again": (
        "assumed",
        "assume",
        "n2",
        "pod u1(default/p) is in the cache, so can't be assumed",
    ),
    "an added pod is not assumed": ("added", "assume", "n1", "pod u1(default/p) is in the cache, so can't be assumed"),
    "an assumed pod is forgotten only where it is": (
        "assumed",
        "forget",
        "n2",
        "pod u1(default/p) was assumed on n2 but assigned to n1",
    ),
    "an added pod elsewhere is said to be elsewhere": (
        "added",
        "forget",
        "n2",
        "pod u1(default/p) was assumed on n2 but assigned to n1",
    ),
    "an added pod is not forgotten": (
        "added",
        "forget",
        "n1",
        "pod u1(default/p) is not assumed, so it cannot be removed or forgotten",
    ),
    "an added pod is not added again": ("added", "confirm", "n1", "pod u1(default/p) was already in added state"),
    "an absent pod is not updated": (
        "absent",
        "update",
        "n1",
        "pod u1(default/p) is not added to scheduler cache, so cannot be updated",
    ),
    "an assumed pod is not updated": ("assumed", "update", "n1", "assumed pod u1(default/p) should not be updated"),
    "an absent pod is not removed": (
        "absent",
        "remove",
        "n1",
        "pod u1(default/p) is not found in scheduler cache, so cannot be removed from it",
    ),
}


@pytest.mark.parametrize(("state", "call", "node", "text"), ERRORS.values(), ids=ERRORS.keys())
def test_a_call_that_contradicts_the_state_fails_and_changes_nothing(
    state: str, call: str, node: str, text: str
) -> None:
    cluster, cache = a_world(state)
    before = cpu_by_node(cluster), cache.get("u1"), cache.is_assumed("u1")
    with pytest.raises(ClusterError) as raised:
        CALLS[call](cache, node, "2")
    assert str(raised.value) == text
    assert (cpu_by_node(cluster), cache.get("u1"), cache.is_assumed("u1")) == before
    assert cache.check() == []


def test_the_object_that_the_watch_showed_takes_the_place_of_the_assumed_one() -> None:
    cluster, cache = a_world("assumed")
    seen = the_pod("n1")
    touched = cluster.nodes.touches.end
    cache.confirm(seen)
    assert cluster.nodes.touches.end == touched, "answers that are kept about the node stay good"
    assert cache.get("u1") is seen
    assert cluster.nodes.pods()[0] is seen


def test_an_update_that_changes_no_count_is_kept_all_the_same() -> None:
    """What is looked up later, and taken off in the end, is the object that the watch showed last."""
    cluster, cache = a_world("added")
    newer = the_pod("n1")
    newer.status.phase = "Running"
    touched = cluster.nodes.touches.end
    cache.update(the_pod("n1"), newer)
    assert cluster.nodes.touches.end == touched, "answers that are kept about the node stay good"
    assert cache.get("u1") is newer
    assert cluster.nodes.pods() == [newer] and cluster.nodes.pods()[0] is newer
    assert cache.check() == []


def test_labels_that_the_server_adds_with_the_bind_are_counted_and_touch_no_row() -> None:
    """An API server copies topology labels of the node to the pod: no plugin of ours keeps answers about them."""
    cluster, cache = a_world("assumed")
    cluster.nodes.labels_touch = False
    predicate = PodPredicate(compile_selector(LabelSelector(match_labels={"zone": "a"})), frozenset(("default",)))
    tally = cluster.nodes.tallies.matching((predicate,), True)
    seen = a_pod("p", cpu="1", metadata={"uid": "u1"}, labels={"zone": "a"}, nodeName="n1")
    touched = cluster.nodes.touches.end
    cache.confirm(seen)
    assert cluster.nodes.touches.end == touched, "answers that are kept about the node stay good"
    assert tally.counts[cluster.nodes.row_book["n1"]] == 1
    assert cache.get("u1") is seen and cluster.nodes.pods()[0] is seen and cache.check() == []


def test_an_update_that_changes_counts_is_kept_too() -> None:
    cluster, cache = a_world("added")
    newer = the_pod("n1", "2")
    cache.update(the_pod("n1"), newer)
    assert cache.get("u1") is newer and cluster.nodes.pods()[0] is newer


def test_groups_follow_the_cache() -> None:
    cluster = Cluster()
    cluster.groups = groups = PodGroups()
    cluster.put(a_node("n1"))
    cache = Cache(cluster)
    member = a_pod("m", metadata={"uid": "u1"}, schedulingGroup={"podGroupName": "g"})
    groups.add(member)
    placed = cache.assume(member, "n1")
    group = groups.of(member)
    assert group is not None and list(group.assumed) == ["u1"] and cache.check() == []
    cache.forget(placed)
    assert list(group.unscheduled) == ["u1"] and cache.check() == []
    cache.assume(member, "n1")
    cache.remove(member)
    assert groups.of(member) is None and cache.check() == []


def test_v137_4_9_an_assumed_member_that_is_gone_leaves_its_group() -> None:
    cluster = Cluster()
    cluster.groups = groups = PodGroups()
    cluster.put(a_node("n1"))
    cache = Cache(cluster)
    member = a_pod("m", metadata={"uid": "u1"}, schedulingGroup={"podGroupName": "g"})
    groups.add(member)
    cache.forget(cache.assume(member, "n1"), is_gone=True)
    assert groups.of(member) is None and cache.check() == []


def test_check_asks_the_groups_as_well() -> None:
    cluster = Cluster()
    cluster.groups = PodGroups()
    cluster.groups.add(a_pod("m", metadata={"uid": "u1"}, nodeName="n1", schedulingGroup={"podGroupName": "g"}))
    assert Cache(cluster).check() == ["default/m is assigned in default/g only"]


def test_check_tells_of_a_pod_that_is_assumed_but_unknown() -> None:
    _, cache = a_world("absent")
    cache._assumed.add("u7")
    assert cache.check() == ["a pod is assumed that is not in the cache"]


def test_a_failed_binding_is_forgotten_and_the_late_deletion_is_only_an_error() -> None:
    cluster, cache = a_world("assumed")
    cache.forget(the_pod("n1"))
    with pytest.raises(ClusterError, match="is not found in scheduler cache"):
        cache.remove(the_pod("n1"))
    cache.forget(the_pod("n1"))
    assert cpu_by_node(cluster) == {}


def test_a_node_that_goes_leaves_a_ghost_until_its_last_pod_goes() -> None:
    cluster, cache = a_world("added")
    cluster.nodes.remove_node("n1")
    assert (cluster.nodes.alive_count, cpu_by_node(cluster)) == (1, {"n1": 1000})
    cache.remove(the_pod("n1"))
    assert cluster.nodes.row_book.keys() == {"n2"}
    assert cache.check() == []


def test_a_node_that_returns_has_its_pods_again() -> None:
    cluster, cache = a_world("added")
    cluster.nodes.remove_node("n1")
    row = cluster.nodes.put_node(a_node("n1"))
    assert (cluster.nodes.alive_count, int(cluster.nodes.amounts.requested[CPU, row])) == (2, 1000)
    assert cache.check() == []


def test_a_pod_seen_before_its_node_counts_when_the_node_comes() -> None:
    cluster, cache = a_world("absent")
    cache.confirm(the_pod("n9"))
    assert (cluster.nodes.alive_count, cpu_by_node(cluster)) == (2, {"n9": 1000})
    row = cluster.nodes.put_node(a_node("n9"))
    assert (cluster.nodes.alive_count, int(cluster.nodes.amounts.requested[CPU, row])) == (3, 1000)
    assert cache.check() == []


def test_the_pods_of_a_node_share_its_name() -> None:
    """A name of its own takes 59 bytes for each pod."""
    cluster, cache = a_world("absent")
    placed = [a_pod(f"q{i}", metadata={"uid": f"q{i}"}, nodeName="".join(("n", "1"))) for i in range(2)]
    for pod in placed:
        cache.confirm(pod)
    newer = a_pod("q0", metadata={"uid": "q0", "resourceVersion": "2"}, nodeName="".join(("n", "1")))
    newer.inherit(placed[0])
    cache.update(placed[0], newer)
    assert newer.spec.node_name is placed[1].spec.node_name is cluster.nodes.names[cluster.nodes.row_book["n1"]]
