"""The kept fork without pods of lower priority has what a plain loop over the cluster leaves, whatever changes in between."""

from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from build import a_node, a_pod
from gangs import a_composite, a_group, a_member
from mooring.cluster.cache import check_table
from mooring.cluster.cluster import Cluster
from mooring.cluster.lower_pods_away import LowerPodsAway
from mooring.model.workloads import CompositePodGroup, PodGroup

GATES = {"GenericWorkload": True, "CompositePodGroup": True}
NUMBER, NODE = st.integers(0, 7), st.integers(0, 3)
CHANGES = st.lists(
    st.one_of(
        st.tuples(st.just("place"), NUMBER, NODE, st.integers(0, 3), st.sampled_from(["", "", "a", "b"])),
        st.tuples(st.just("remove"), NUMBER),
        st.tuples(st.just("label"), NUMBER, st.sampled_from("xy")),
        st.tuples(st.just("group"), st.sampled_from("ab"), st.integers(0, 3), st.booleans()),
        st.tuples(st.just("tree"), st.integers(0, 3)),
        st.tuples(st.just("no group"), st.sampled_from(["a", "b", "tree"])),
        st.tuples(st.just("node"), NODE, st.sampled_from(["z1", "z2"]), st.sampled_from(["image-1", "image-2"])),
        st.tuples(st.just("no node"), NODE),
        st.tuples(st.just("follow"), st.integers(-1, 4)),
    ),
    min_size=4,
    max_size=30,
)


def carry_out(cluster: Cluster, change: tuple[Any, ...]) -> None:
    nodes = cluster.nodes
    match change:
        case ("place", number, node, priority, group):
            if nodes.row_of_pod(f"uid-p{number}") is None:
                about: dict[str, Any] = {"cpu": "1", "priority": priority, "labels": {"app": "x"}}
                name = f"p{number}"
                alone = a_pod(name, metadata={"uid": f"uid-{name}"}, **about)
                pod = (a_member(name, group, **about) if group else alone).with_node(f"n{node}")
                nodes.place(pod, f"n{node}")
                cluster.groups.add(pod)  # type: ignore[union-attr]
        case ("remove", number):
            if nodes.row_of_pod(f"uid-p{number}") is not None:
                cluster.groups.remove(nodes.displace(f"uid-p{number}"))  # type: ignore[union-attr]
        case ("label", number, app):
            old = nodes.placed(f"uid-p{number}")
            if old is not None:
                about = {"cpu": "1", "priority": old.spec.priority, "labels": {"app": app}}
                key = old.group_key
                alone = a_pod(old.name, metadata={"uid": old.id}, **about)
                new = a_member(old.name, key.rpartition("/")[2], **about) if key else alone
                assert nodes.exchange(new.with_node(old.spec.node_name))
        case ("group", name, priority, is_nested):
            parent: dict[str, Any] = {"parentCompositePodGroupName": "tree"} if is_nested else {}
            cluster.put(a_group(name, priority=priority, **parent))
        case ("tree", priority):
            cluster.put(a_composite("tree", priority=priority))
        case ("no group", name):
            cluster.remove(CompositePodGroup if name == "tree" else PodGroup, f"default/{name}")
        case ("node", number, zone, image):
            labels = {"topology.kubernetes.io/zone": zone}
            cluster.put(a_node(f"n{number}", labels=labels, images={image: 1 << 20}))
        case ("no node", number):
            if f"n{number}" in nodes.row_book and nodes.nodes[nodes.row_book[f"n{number}"]] is not None:
                nodes.remove_node(f"n{number}")


@example([("place", 0, 0, 1, "a"), ("place", 1, 0, 3, "a")])  # a group that is not there
@given(CHANGES)
def test_the_fork_has_the_pods_that_a_plain_loop_leaves(changes: list[tuple[Any, ...]]) -> None:
    cluster = Cluster(GATES)
    for number in range(3):
        cluster.put(a_node(f"n{number}"))
    away = LowerPodsAway(cluster)
    for change in (*changes, ("follow", 2)):
        if change[0] != "follow":
            carry_out(cluster, change)
            continue
        priority = change[1]
        if not away.follow(priority):
            away = LowerPodsAway(cluster)
            assert away.follow(priority)
        fork = away.cluster.nodes
        for row, pods in enumerate(cluster.nodes.pods_on):
            has_node = cluster.nodes.nodes[row] is not None
            tree = cluster.group_tree
            staying = [pod for pod in pods if not has_node or tree.victim_priority(pod) >= priority]
            assert fork.pods_on[row] == staying
        assert check_table(fork) == []
        assert (fork.images.epoch, fork.alive_count) == (cluster.nodes.images.epoch, cluster.nodes.alive_count)


def test_rows_that_are_touched_meanwhile_are_touched_in_the_fork() -> None:
    cluster = Cluster(GATES)
    cluster.put(a_node("n1"))
    cluster.put(a_node("n2"))
    away = LowerPodsAway(cluster)
    away.follow(10)
    touches = away.cluster.nodes.touches
    end = touches.end
    cluster.nominated.promise(a_pod("p", cpu="1"), "n2")
    away.pass_on_touches()
    assert touches.since(end) == [cluster.nodes.row_book["n2"]]
    cluster.nodes.touch_totals()
    away.pass_on_touches()
    assert touches.since(end) is None
