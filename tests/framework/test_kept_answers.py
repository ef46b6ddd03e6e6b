"""What is kept stays within its bytes, and a pass over many templates does not evict those that come again and again."""

from collections import Counter
from collections.abc import Iterator

import msgspec
import numpy as np
import pytest

from build import a_cluster, a_node, a_pod
from mooring.cluster.cluster import Cluster
from mooring.framework import config
from mooring.framework.attempts.attempt import Attempt, Narrowing
from mooring.framework.attempts.runner import Runner
from mooring.framework.contract.context import SchedulingContext
from mooring.framework.contract.points import Codes, Rows
from mooring.framework.kept import kept_answers
from mooring.framework.kept.feasible import PASSED
from mooring.framework.kept.kept_answers import DEFAULT_LIMIT_BYTES, KeptAnswers
from mooring.framework.kept.memo import MEMO_OVERHEAD_BYTES
from mooring.framework.kept.part_memo import PartMemo
from mooring.model.pod import Pod
from mooring.model.shape import PodPart
from mooring.model.workloads import Service
from mooring.plugins.resources.node_resources_fit import NodeResourcesFit
from mooring.scheduler.decide import DecideOptions, decide
from mooring.scheduler.decision import Placement
from mooring.state.scheduler_assembly import build_runners

PROFILE = build_runners(config.default())["default-scheduler"].profile
NODES = 20


def a_small_cluster() -> Cluster:
    return a_cluster(*(a_node(f"n{number:02}") for number in range(NODES)))


def templates(count: int, first: int = 1) -> list[Pod]:
    return [a_pod(f"p{number}", cpu=f"{number}m") for number in range(first, first + count)]


class World:
    def __init__(self, limit_bytes: int | None) -> None:
        self.kept = KeptAnswers(limit_bytes)
        self.runner = Runner(PROFILE, kept=self.kept)
        self.cluster = a_small_cluster()

    def decide(self, pod: Pod) -> None:
        decide(self.runner, pod, self.cluster, DecideOptions())
        assert self.kept.check() == []

    def is_kept(self, pod: Pod) -> bool:
        """Whether the answers about a pod's shape are still there."""
        return self.kept.look(self.runner, pod.shape, self.cluster.nodes) is not None


def all_parts(kept: KeptAnswers) -> list[PartMemo]:
    return [memo for by_part in kept._parts.values() for memo in by_part.values()]


@pytest.fixture
def one_shape_bytes() -> Iterator[int]:
    world, pod = World(1 << 30), a_pod("alone", cpu="1m")
    world.decide(pod)
    yield world.kept.byte_count.bytes


def test_bytes_stay_within_the_limit_but_for_the_shape_in_use(one_shape_bytes: int) -> None:
    world = World(one_shape_bytes * 5)
    for pod in templates(60):
        world.decide(pod)
        assert world.kept.byte_count.bytes <= one_shape_bytes * 6


def test_a_pass_over_many_templates_leaves_those_that_are_used_again(one_shape_bytes: int) -> None:
    world = World(one_shape_bytes * 8)
    favourites = templates(3)
    for _ in range(2):
        for pod in favourites:
            world.decide(pod)
    once = templates(100, first=1000)
    for pod in once:
        world.decide(pod)
    assert all(world.is_kept(pod) for pod in favourites)
    assert not world.is_kept(once[0])


def test_favourites_of_the_past_make_room_for_new_ones(one_shape_bytes: int) -> None:
    world = World(one_shape_bytes * 6)
    past, present = templates(5), templates(5, first=1000)
    for pods in (past, present):
        for _ in range(20):
            for pod in pods:
                world.decide(pod)
    assert sum(world.is_kept(pod) for pod in present) >= 3
    assert sum(world.is_kept(pod) for pod in past) <= 3


def test_what_is_kept_goes_with_the_last_pod_of_its_shape() -> None:
    world = World(1 << 30)
    world.decide(a_pod(cpu="777m"))  # no pod of this shape is left afterwards
    assert world.kept.byte_count.bytes == 0
    assert world.kept.check() == []


def test_evicted_shapes_are_remembered_while_they_have_pods(one_shape_bytes: int) -> None:
    world = World(one_shape_bytes * 5)
    pods = templates(60, first=71_237)  # shapes that no other test has: one that is kept elsewhere would stay
    for pod in pods:
        world.decide(pod)
    assert len(world.kept._evicted) >= 50
    del pod, pods[:]
    assert len(world.kept._evicted) == 0


def test_answers_are_shared_by_shapes_that_agree_in_a_part() -> None:
    world = World(1 << 30)
    one, other = templates(2)
    world.decide(one)
    alone = world.kept.byte_count.bytes
    world.decide(other)
    assert world.kept.byte_count.bytes - alone <= alone
    parts = [memo.questions.part for memo in all_parts(world.kept)]
    assert parts.count(PodPart.TOLERATIONS) == 1
    assert parts.count(PodPart.REQUESTS) == 2


def test_profiles_with_the_same_plugins_share_what_depends_on_nothing_else() -> None:
    written = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: one
- schedulerName: two
- schedulerName: other
  pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}
"""
    runners, pod, cluster = build_runners(config.load(written)), a_pod(cpu="1"), a_small_cluster()
    kept = runners["one"].kept
    for name in ("one", "two", "other", "one", "two"):
        assert runners[name].kept is kept
        decide(runners[name], pod, cluster, DecideOptions())
        assert kept.check() == []
    parts = Counter(memo.questions.part for memo in all_parts(kept))
    assert parts[PodPart.TOLERATIONS] == 1
    assert parts[PodPart.REQUESTS] == 2


def test_profiles_with_other_arguments_share_nothing_that_depends_on_them() -> None:
    """One profile has hard default constraints, so that its PodTopologySpread rejects; the others skip Filter."""
    written = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: lax
- schedulerName: strict
  pluginConfig:
  - name: PodTopologySpread
    args:
      defaultingType: List
      defaultConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}]
"""
    service = {"metadata": {"name": "s", "namespace": "default"}, "spec": {"selector": {"app": "x"}}}
    cluster = a_cluster(
        msgspec.convert(service, Service),
        a_node("a", cpu="9", labels={"zone": "a"}),
        a_node("b", cpu="1", labels={"zone": "b"}),
    )
    cluster.nodes.place(a_pod("first", labels={"app": "x"}), "a")
    runners, pod = build_runners(config.load(written)), a_pod(cpu="500m", labels={"app": "x"})
    for _ in range(2):
        for name, nodes in (("lax", ["a", "b"]), ("strict", ["b"])):
            decision = decide(runners[name], pod, cluster, DecideOptions(explain=True))
            assert isinstance(decision, Placement)
            assert decision.details is not None
            assert sorted(decision.details.feasible) == nodes


def test_another_table_voids_what_is_kept() -> None:
    world = World(1 << 30)
    pod = templates(1)[0]
    world.decide(pod)
    world.cluster = a_small_cluster()
    world.decide(pod)
    assert world.kept.byte_count.bytes >= MEMO_OVERHEAD_BYTES
    assert world.kept.memo_count == 1


def test_the_default_limit_grows_with_the_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_answers, "DEFAULT_NODE_BYTES", DEFAULT_LIMIT_BYTES // 10)
    world, chosen = World(None), World(77)
    assert (world.kept.limit_bytes, chosen.kept.limit_bytes) == (DEFAULT_LIMIT_BYTES, 77)
    world.decide(a_pod())
    chosen.decide(a_pod())
    assert world.kept.limit_bytes == NODES * (DEFAULT_LIMIT_BYTES // 10)
    assert chosen.kept.limit_bytes == 77, "a limit that was chosen stays"


def test_nodes_that_come_raise_the_default_limit_before_anything_is_evicted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_answers, "DEFAULT_LIMIT_BYTES", 1)
    world, pods = World(None), templates(3)
    for pod in pods:
        world.decide(pod)
    assert (world.kept.evictions, world.kept.memo_count) == (0, 3), "3 KiB a node are 60 KiB"


def test_lookups_and_evictions_are_counted(one_shape_bytes: int) -> None:
    world = World(one_shape_bytes * 4)
    one, *others = templates(20)
    for pod in (one, one, one, *others):
        world.decide(pod)
    kept = world.kept
    assert (kept.hits, kept.misses) == (2, 20)
    assert kept.memo_count == 20 - kept.evictions
    assert 0 < kept.memo_count < 10


def test_a_look_at_what_is_kept_changes_nothing() -> None:
    """A copy takes in what was touched since, and the original stays behind: the next attempt finds it as it was."""
    world, pod = World(None), a_pod("p", cpu="1")
    world.decide(pod)
    kept, nodes = world.kept, world.cluster.nodes
    counts = kept.hits, kept.misses, kept.byte_count.bytes
    (original,) = [memo for memos in (kept._new, kept._protected) for memo in memos.values()]
    before = [(part.first, part.sum) for part in original.parts]
    arrays = [array for pair in before for array in pair if array is not None]
    frozen = [array.copy() for array in arrays]
    nodes.put_node(a_node("n03", cpu="0"))
    copy = kept.look(world.runner, pod.shape, nodes)
    assert copy is not None
    attempt = Attempt(world.runner, SchedulingContext(pod, world.cluster, 0, copy), copy)
    narrowing = attempt.pre_filter()
    assert isinstance(narrowing, Narrowing)
    rejected = attempt.filter(narrowing).first != PASSED
    assert [nodes.names[row] for row in rejected.nonzero()[0]] == ["n03"]
    attempt.score(slice(0, 3))
    assert [(part.first, part.sum) for part in original.parts] == before, "the same arrays"
    assert all(np.array_equal(array, old) for array, old in zip(arrays, frozen, strict=True))
    assert (kept.hits, kept.misses, kept.byte_count.bytes) == counts
    assert kept.look(world.runner, a_pod("q", cpu="2").shape, nodes) is None
    assert kept.look(world.runner, pod.shape, a_small_cluster().nodes) is None
    assert kept.check() == []


def test_a_copy_of_what_is_kept_has_the_scores_that_are_normalised() -> None:
    world = World(None)
    world.cluster.put(a_node("n03", labels={"disk": "ssd"}))
    preferred = {"weight": 1, "preference": {"matchExpressions": [{"key": "disk", "operator": "Exists"}]}}
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [preferred]}}
    pod = a_pod("p", cpu="1", affinity=affinity)
    world.decide(pod)
    copy = world.kept.look(world.runner, pod.shape, world.cluster.nodes)
    assert copy is not None
    attempt = Attempt(world.runner, SchedulingContext(pod, world.cluster, 0, copy), copy)
    assert isinstance(attempt.pre_filter(), Narrowing)
    card = attempt.score(slice(0, NODES), explain=True)
    assert card.by_plugin["NodeAffinity"].nonzero()[0].tolist() == [world.cluster.nodes.row_book["n03"]]


def test_a_row_that_comes_without_a_node_is_taken_in() -> None:
    """A pod may be on a node that was not seen yet: the table is higher then, and has no other nodes than before."""
    world, pod = World(None), a_pod("p", cpu="1")
    world.decide(pod)
    version = world.cluster.nodes.node_set_version
    world.cluster.nodes.place(a_pod("early", cpu="1"), "not-seen")
    assert (world.cluster.nodes.height, world.cluster.nodes.node_set_version) == (NODES + 1, version)
    options = DecideOptions(explain=True)
    kept, fresh = (decide(runner, pod, world.cluster, options) for runner in (world.runner, Runner(PROFILE)))
    assert isinstance(kept, Placement)
    assert isinstance(fresh, Placement)
    assert kept.details == fresh.details
    world.decide(pod)
    world.cluster.nodes.place(a_pod("second", cpu="1"), "not-seen")
    world.decide(pod)


@pytest.mark.parametrize(("reads_others", "passes"), [(False, 0), (True, 1)], ids=["its own", "also those of others"])
def test_nodes_that_come_and_go_are_asked_about_alone_where_answers_are_about_the_own_row(
    monkeypatch: pytest.MonkeyPatch, reads_others: bool, passes: int
) -> None:
    monkeypatch.setattr(NodeResourcesFit, "reads_other_nodes", reads_others)
    profile = build_runners(config.default())["default-scheduler"].profile
    world, pod = World(None), a_pod("p", cpu="1")
    world.runner = Runner(profile, kept=world.kept)
    world.decide(pod)
    whole = NodeResourcesFit.filter
    asked: list[Rows] = []

    def filter_and_note(self: NodeResourcesFit, context: SchedulingContext, rows: Rows) -> Codes | None:
        asked.append(rows)
        return whole(self, context, rows)

    monkeypatch.setattr(NodeResourcesFit, "filter", filter_and_note)
    world.cluster.nodes.remove_node("n05")
    world.cluster.put(a_node("large", cpu="500"))
    found = decide(world.runner, pod, world.cluster, DecideOptions())
    assert isinstance(found, Placement)
    assert found.node == "large"
    assert asked == [slice(0, NODES)] * passes


def test_a_value_of_requests_is_built_anew_when_a_resource_gets_a_place() -> None:
    world, pod = World(None), a_pod("p", cpu="1")
    context = world.runner.open(pod, world.cluster).context
    built: list[int] = []

    def build(context: SchedulingContext) -> int:
        built.append(context.nodes.amounts.resources_version)
        return len(built)

    assert [context.of_requests("key", build) for _ in range(2)] == [1, 1]
    assert world.runner.open(pod, world.cluster).context.of_requests("key", build) == 1
    world.cluster.put(a_node("n99", allocatable={"example.com/gpu": "1"}))
    assert [context.of_requests("key", build) for _ in range(2)] == [2, 2]
    assert built[0] < built[1]
