"""What holds for all changes of all clusters: no pod is lost or doubled, drains break no budget, and pods on nodes that no
change touches stay where they are unless they are preempted."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from how_many import examples
from mooring.answers.form.utilisation import utilisation_of
from mooring.answers.trial.changing_cluster import ChangingCluster
from mooring.answers.trial.changing_nodes import drain
from mooring.answers.what_if.question import what_if
from mooring.cluster.columns.facts import amounts_on
from mooring.inputs.loaded_cluster import LoadedCluster
from mooring.model.pod import Pod
from what_if_building import a_budget, a_cluster, a_daemon_set, a_deployment, a_running_pod, a_zone_node

pytestmark = pytest.mark.slow

NODES = ("a-1", "a-2", "b-1", "b-2")
APPS = ("red", "green", "blue")
BUDGETS = st.one_of(
    st.none(),
    st.builds(lambda n: {"maxUnavailable": n}, st.sampled_from((0, 1, "0%", "34%", "50%"))),
    st.builds(lambda n: {"minAvailable": n}, st.sampled_from((0, 1, 2, "50%", "100%"))),
)


@st.composite
def clusters(draw: st.DrawFn) -> LoadedCluster:
    """Four nodes in two zones, up to three Deployments with budgets and priorities, daemons, bare and pending pods."""
    parts: list[Any] = [a_zone_node(name, name[0], cpu=draw(st.sampled_from(("3", "6")))) for name in NODES]
    if draw(st.booleans()):
        parts += a_daemon_set("agent", NODES)
    for app in APPS[: draw(st.integers(1, 3))]:
        places = draw(st.lists(st.sampled_from((*NODES, "")), min_size=1, max_size=5))
        spec = {"priority": draw(st.sampled_from((0, 0, 10)))}
        parts += a_deployment(app, places, draw(st.sampled_from(("500m", "1"))), **spec)
        budget = draw(BUDGETS)
        if budget is not None:
            parts.append(a_budget(f"{app}-budget", app, **budget))
    parts += [
        a_running_pod(f"bare-{i}", node) for i, node in enumerate(draw(st.lists(st.sampled_from(NODES), max_size=2)))
    ]
    return a_cluster(*parts)


CHANGES = st.one_of(
    st.tuples(st.sampled_from(("drain", "cordon", "remove-nodes")), st.sampled_from(NODES[:3])),
    st.just(("add-nodes", "1=b-2")),
    st.tuples(st.just("scale"), st.builds(lambda n: f"Deployment/red={n}", st.integers(0, 7))),
    st.just(("taint", "b-1=x:NoExecute")),
    st.just(("label", "a-2=disk=ssd")),
)


def nodes_named(change: tuple[str, str]) -> set[str]:
    return {name for name in NODES if change[0] != "add-nodes" and change[1].split("=")[0] == name}


@settings(deadline=None, max_examples=examples(150))
@given(clusters(), st.lists(CHANGES, max_size=3, unique_by=lambda change: change[0]))
def test_every_pod_is_in_one_place_and_only_pods_of_touched_nodes_move(
    cluster: LoadedCluster, changes: list[tuple[str, str]]
) -> None:
    removed = {name for change in changes if change[0] == "remove-nodes" for name in nodes_named(change)}
    changes = [change for change in changes if change[0] == "remove-nodes" or not nodes_named(change) & removed]
    answer = what_if(cluster, changes)
    entries: list[Any] = [*answer.moved, *answer.pending, *answer.placed, *answer.gone]
    told = Counter(each.key for each in entries)
    assert set(told.values()) <= {1}, "nothing is told twice"
    before = {pod.key for pod in cluster.pods()}
    coming: list[Any] = [*answer.placed, *answer.pending]
    gone, new = {each.key for each in answer.gone}, {each.key for each in coming if each.is_new}
    assert {*answer.after_nodes} == (before - gone) | new, "nothing is lost"
    touched = {name for change in changes for name in nodes_named(change)}
    preempted = {each.key for each in answer.preempted}
    for moved in answer.moved:
        assert moved.node in touched or moved.key in preempted
    for pending in answer.pending:
        assert not pending.node or pending.node in touched or pending.key in preempted


@settings(deadline=None, max_examples=examples(150))
@given(clusters(), st.sets(st.sampled_from(NODES), min_size=1, max_size=3))
def test_a_drain_breaks_no_budget_and_leaves_only_what_a_budget_protects(
    cluster: LoadedCluster, names: set[str]
) -> None:
    changing = WatchedCluster(cluster)
    changing.settle()
    drain(changing, sorted(names))
    assert not changing.broken
    for name in names:
        for pod in changing.pods_on(name):
            owner = pod.controller()
            if owner is None or owner.kind != "DaemonSet":
                assert changing.blocked[pod.key].node == name
                assert not can_go(changing, pod), "whatever is blocked is so for a reason"
    assert {each.node for each in changing.blocked.values()} <= names


class WatchedCluster(ChangingCluster):
    """Counts anew, pod by pod, whether each eviction is one that the budgets allow."""

    def __init__(self, loaded: LoadedCluster) -> None:
        self.broken: list[str] = []
        super().__init__(loaded)

    def evict(self, pod: Pod, reason: str) -> bool:
        could_go = can_go(self, pod)
        is_evicted = super().evict(pod, reason)
        if is_evicted and not could_go:
            self.broken.append(pod.key)
        return is_evicted


def can_go(cluster: ChangingCluster, pod: Pod) -> bool:
    """The plain twin of the counts: by the text of the budget and a walk over all pods."""
    app = pod.labels["app"]
    spec = next((item.spec for item in budgets(cluster) if item.name == f"{app}-budget"), None)
    if spec is None:
        return True
    replicas = next(each.spec.replicas for name, each in cluster.book.workloads.items() if name.key == f"default/{app}")
    assert replicas is not None
    healthy = sum(each.labels.get("app") == app and bool(each.spec.node_name) for each in cluster.pods())
    if spec.max_unavailable is not None:
        desired = replicas - share(spec.max_unavailable, replicas)
    else:
        desired = share(spec.min_available, replicas)
    return healthy - 1 >= max(desired, 0)


def budgets(cluster: ChangingCluster) -> list[Any]:
    return [item for (kind, _), item in cluster.driver.objects.items() if kind == "PodDisruptionBudget"]


def share(written: int | str | None, whole: int) -> int:
    if isinstance(written, str):
        return -(-whole * int(written.rstrip("%")) // 100)
    return written or 0


@settings(deadline=None, max_examples=examples(100))
@given(clusters(), st.sets(st.sampled_from(NODES), max_size=3))
def test_sums_over_columns_equal_sums_over_nodes(cluster: LoadedCluster, cordoned: set[str]) -> None:
    changing = ChangingCluster(cluster)
    changing.settle()
    drain(changing, sorted(cordoned))
    table = changing.simulated.cluster.nodes
    found = utilisation_of(table)
    for zone in ("a", "b"):
        rows = [row for name, row in table.row_book.items() if name[0] == zone and name not in cordoned]
        assert (found.zones[zone].nodes, found.zones[zone].cordoned) == (len(rows), 2 - len(rows))
        assert found.zones[zone].pods == sum(len(table.pods_on[row]) for row in rows)
        for resource in ("cpu", "memory"):
            sums = [amounts_on(table.nodes[row], table.pods_on[row])[resource] for row in rows]
            wanted = (sum(used for used, _ in sums), sum(room for _, room in sums))
            assert found.zones[zone].amounts.get(resource, (0, 0)) == wanted
    assert found.total.pods == found.zones["a"].pods + found.zones["b"].pods
    shares = [use.share("cpu") for use in found.fullest.values()]
    assert shares == sorted(shares, key=lambda each: -(each or 0)) and not cordoned & {*found.fullest}
