"""Scores by groups of rows: a runner that follows groups decides what one that scores all rows does."""

from random import Random
from typing import Any
from unittest import mock

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from build import a_cluster, a_node, a_pod
from how_many import examples
from mooring.cluster.cluster import Cluster
from mooring.framework import config
from mooring.framework.attempts.runner import Runner
from mooring.framework.kept import score_by_group
from mooring.framework.kept.score_by_group import BestOfGroups, GroupedRows
from mooring.model.pod import Pod
from mooring.model.workloads import Service
from mooring.scheduler.decide import DecideOptions, decide
from mooring.scheduler.decision import Placement
from mooring.state.scheduler_assembly import build_runners

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
NAMES = tuple(f"n{i}" for i in range(8))
PROFILE = build_runners(config.default())["default-scheduler"].profile


def a_service() -> Service:
    written = {"metadata": {"name": "s", "namespace": "default"}, "spec": {"selector": {"app": "web"}}}
    return msgspec.convert(written, Service)


def a_zoned(name: str, zone: str = "a", **more: Any) -> Any:
    return a_node(name, cpu="4", labels={HOST: name, **({ZONE: zone} if zone else {})}, **more)


OVER_ZONES = {
    "topologyKey": ZONE,
    "maxSkew": 2,
    "whenUnsatisfiable": "ScheduleAnyway",
    "labelSelector": {"matchLabels": {"app": "web"}},
}
NEAR = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": ZONE, "namespaces": ["default", "other"]}
PREFERRED_ZONE = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 3, "podAffinityTerm": NEAR}]}
TEMPLATES: tuple[dict[str, Any], ...] = (
    {"cpu": "250m"},
    {"cpu": "1"},
    {"cpu": "500m", "topologySpreadConstraints": [OVER_ZONES]},
    {"cpu": "250m", "namespace": "other", "affinity": {"podAffinity": PREFERRED_ZONE}},
)
"""Two that are spread by default, over hosts and zones, one over zones alone, and one that prefers the zone of others."""


class Walk:
    """A cluster with a Service, by which pods are spread by default, and a runner that lives through its changes."""

    def __init__(self, seed: int) -> None:
        self.random, self.serial = Random(seed), 0
        names = self.random.sample(NAMES, len(NAMES)) if seed % 2 else NAMES  # rows by name, or in any order
        self.cluster: Cluster = a_cluster(a_service(), *(a_zoned(name, "abb"[i % 3]) for i, name in enumerate(names)))
        self.cluster.nodes.labels_touch = False  # as in a scheduler whose plugins keep nothing about single pods
        self.runner = Runner(PROFILE)

    def a_pod(self) -> Pod:
        self.serial += 1
        template = self.random.choice(TEMPLATES)
        return a_pod(f"p{self.serial}", labels={"app": "web"}, **template)

    def place(self) -> None:
        """A pod goes where it is best, as nearly all do, or anywhere."""
        pod = self.a_pod()
        decision = decide(self.runner, pod, self.cluster, DecideOptions())
        is_best = isinstance(decision, Placement) and self.random.random() < 0.8
        self.cluster.nodes.place(pod, decision.node if is_best else self.random.choice(NAMES))  # type: ignore[union-attr]

    def place_some(self) -> None:
        for _ in range(self.random.randint(2, 9)):
            self.place()

    def displace(self) -> None:
        pods = sorted(pod.id for pod in self.cluster.nodes.pods())
        if pods:
            self.cluster.nodes.displace(self.random.choice(pods))

    def relabel(self) -> None:
        """A pod gets other labels, which touches no row that scores follow."""
        pods = sorted(self.cluster.nodes.pods(), key=lambda pod: pod.id)
        if pods:
            pod = self.random.choice(pods)
            metadata = msgspec.structs.replace(pod.metadata, labels={"app": self.random.choice(("web", "db"))})
            self.cluster.nodes.exchange(Pod(metadata=metadata, spec=pod.spec, status=pod.status))

    def put_node(self) -> None:
        name = self.random.choice((*NAMES, "n9"))
        zone, is_cordoned = self.random.choice(("a", "b", "c", "")), self.random.random() < 0.4
        self.cluster.put(a_zoned(name, zone, unschedulable=is_cordoned))

    def compare(self) -> None:
        """Twice, because groups are followed from the second pod in a row."""
        pod = self.a_pod()
        for _ in range(2):
            found = decide(self.runner, pod, self.cluster, DecideOptions())
            wanted = decide(Runner(PROFILE), pod, self.cluster, DecideOptions(explain=True))
            assert type(found) is type(wanted)
            if isinstance(found, Placement) and isinstance(wanted, Placement):
                assert (found.node, found.score, found.row) == (wanted.node, wanted.score, wanted.row)


STEPS = (Walk.place, Walk.place_some, Walk.place_some, Walk.displace, Walk.relabel, Walk.put_node)


@pytest.mark.parametrize(
    ("most_groups", "listed"),
    [(4096, 4096), (40, 4096), (4096, 1), (4096, 2)],
    ids=["few groups", "too many groups at times", "one row of a group listed", "two rows listed"],
)
@given(seed=st.integers(0, 1 << 32))
@settings(max_examples=examples(40))
def test_groups_never_show(most_groups: int, listed: int, seed: int) -> None:
    walk = Walk(seed)
    with mock.patch.multiple(score_by_group, MOST_GROUPS=most_groups, MOST_LISTED=listed):
        for _ in range(8):
            walk.random.choice(STEPS)(walk)
            walk.compare()


def test_pods_of_a_template_are_decided_by_groups() -> None:
    """Four nodes in two zones: the emptiest zone first, then the emptiest node of it, then the lowest name."""
    cluster = a_cluster(a_service(), *(a_zoned(name, zone) for name, zone in zip(NAMES, "aabb", strict=False)))
    assert nodes_by_groups(cluster, 6, labels={"app": "web"}) == ["n0", "n2", "n1", "n3", "n0", "n2"]


def test_pods_that_prefer_a_zone_are_decided_by_groups() -> None:
    """The zone of the pod that is there, although the nodes of the other one are emptier."""
    cluster = a_cluster(*(a_zoned(name, zone) for name, zone in zip(NAMES, "aabb", strict=False)))
    cluster.nodes.place(a_pod("there", cpu="1", labels={"app": "web"}), "n3")
    preferred = {"affinity": {"podAffinity": PREFERRED_ZONE}}
    assert nodes_by_groups(cluster, 4, labels={"app": "web"}, **preferred) == ["n2", "n2", "n2", "n2"]


def nodes_by_groups(cluster: Cluster, count: int, **pod: Any) -> list[str]:
    """The nodes of pods of one template. All but the first two are decided by groups."""
    runner, found = Runner(PROFILE), []
    best, groups = GroupedRows.best, list[BestOfGroups | None]()

    def counted(self: GroupedRows, *args: Any) -> BestOfGroups | None:
        groups.append(best(self, *args))
        return groups[-1]

    with mock.patch.object(GroupedRows, "best", counted):
        for number in range(count):
            like = a_pod(f"p{number}", cpu="100m", **pod)
            decision = decide(runner, like, cluster, DecideOptions())
            assert isinstance(decision, Placement)
            found.append(decision.node)
            cluster.nodes.place(like, decision.node)
    assert len(groups) == count - 2 and all(groups)
    return found
