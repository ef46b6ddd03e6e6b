"""What plugins declare with @reads is all that they read of a pod: kept answers are silently stale otherwise."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from build import FreshValues, a_cluster, a_node, a_pod
from mooring.framework import config
from mooring.framework.contract.context import SchedulingContext
from mooring.framework.contract.points import Reads, Rows, ScorePlugin, Scores, reads
from mooring.framework.contract.status import SKIP_FOR_NOW, SKIP_SHAPE
from mooring.kit.clock import VirtualClock
from mooring.model.pod import Pod
from mooring.model.shape import PodPart, PodShape
from mooring.scheduler.decide import DecideOptions, decide
from mooring.scheduler.decision import DecisionError
from mooring.state.scheduler_assembly import all_plugins, build_runners, build_scheduler

ZONE = "topology.kubernetes.io/zone"
WHEN = "DuringSchedulingIgnoredDuringExecution"
RUNNER = build_runners(config.default())["default-scheduler"]
NARROW = [question for question in RUNNER.kept_questions if question.part is not PodPart.WHOLE]
POD = a_pod(
    cpu="1",
    memory="1Gi",
    requests={"example.com/gpu": 1},
    image="app",
    host_ports=[80],
    nodeSelector={"disk": "ssd"},
    tolerations=[{"key": "dedicated", "operator": "Exists"}],
    affinity={
        "nodeAffinity": {
            f"required{WHEN}": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["a"]}]}]
            },
            f"preferred{WHEN}": [
                {"weight": 3, "preference": {"matchExpressions": [{"key": ZONE, "operator": "Exists"}]}}
            ],
        }
    },
)
CLUSTER = a_cluster(
    *(
        a_node(
            f"n{number}",
            labels={ZONE: "ab"[number % 2], "disk": "ssd"},
            taints=["dedicated=x:NoSchedule", "slow:PreferNoSchedule"] if number % 3 == 0 else [],
            images={"app:latest": 600 << 20} if number < 3 else {},
            allocatable={"example.com/gpu": 2},
            unschedulable=number == 5,
        )
        for number in range(8)
    ),
    a_pod("other", nodeName="n1", host_ports=[80], cpu="4"),
)


class RecordingShape:
    """Stands for a shape, and notes what is read of it."""

    def __init__(self, shape: PodShape) -> None:
        self._shape = shape
        self.read: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        if name != "part":
            self.read.add(name)
        return getattr(self._shape, name)


def recorded(pod: Pod, ask: Any, rows: Any) -> set[str]:
    """What a question reads of a pod: attributes of its shape, and `pod` for anything else of it."""
    context = SchedulingContext(pod, CLUSTER, 0, FreshValues())
    context.shape = shape = RecordingShape(pod.shape)  # type: ignore[assignment]
    touched: set[str] = set()

    class Untouchable(SimpleNamespace):
        def __getattr__(self, name: str) -> Any:
            touched.add(f"pod.{name}")
            return getattr(pod, name)

    context.pod = Untouchable()  # type: ignore[assignment]
    ask(context, rows)
    return shape.read | touched


@pytest.mark.parametrize("rows", [slice(0, 8), np.array([1, 3, 5])], ids=["all rows", "some rows"])
@pytest.mark.parametrize("question", NARROW, ids=[f"{q.plugin.name} {q.point}" for q in NARROW])
def test_a_plugin_reads_no_more_of_a_pod_than_it_declares(question: Any, rows: Any) -> None:
    allowed = set(question.part.value)
    assert recorded(POD, question.ask, rows) <= allowed
    before = "pre_filter" if question.point == "Filter" else "pre_score"
    if hasattr(question.plugin, before):
        asked = getattr(question.plugin, before)
        assert asked.reads is Reads.SHAPE
        call = (lambda context, _: asked(context)) if before == "pre_filter" else asked
        assert recorded(POD, call, rows) <= allowed


OF_KIN = {"pod.label_set", "pod.labels", "pod.namespace", "pod.controller", "pod.shape"}
"""What SKIP_FOR_NOW may depend on beside a part of the shape; the shape of the pod itself is recorded as well."""


@pytest.mark.parametrize("asked", RUNNER.asked, ids=[f"{each[1].name} {each[0]}" for each in RUNNER.asked])
def test_a_skip_that_is_kept_follows_from_the_part_that_the_plugin_declares(asked: Any) -> None:
    point, plugin, part = asked
    rows = slice(0, 8)
    said: list[Any] = []

    def call(context: Any, _: Any) -> None:
        said.append(plugin.pre_filter(context) if point == "PreFilter" else plugin.pre_score(context, rows))

    read = recorded(a_pod(cpu="1", labels={"app": "x"}), call, rows)
    if said == [SKIP_SHAPE]:
        assert read <= set(part.value)
    elif said == [SKIP_FOR_NOW]:
        assert read <= set(part.value) | OF_KIN


BY_PART = [plugin for plugin in (*RUNNER.filters, *RUNNER.scores) if plugin.concerned_by is not None]


@pytest.mark.parametrize("plugin", BY_PART, ids=[plugin.name for plugin in BY_PART])
def test_whether_a_plugin_concerns_a_pod_follows_from_the_part_that_it_declares(plugin: Any) -> None:
    read = recorded(POD, lambda context, _: plugin.concerns(SimpleNamespace(shape=context.shape)), slice(0, 8))
    assert read <= set(plugin.concerned_by.value)


def test_a_plugin_that_concerns_no_pod_of_a_shape_is_asked_about_none() -> None:
    """NodeName goes by the pod itself; VolumeBinding and DynamicResources are out for all pods without storage and claims."""
    runner = build_runners(config.default())["default-scheduler"]

    def asked_next(pod: Pod) -> tuple[set[str], set[str]]:
        decide(runner, pod, CLUSTER, DecideOptions())
        memo = runner.kept.memo(runner, pod.shape, CLUSTER.nodes)
        assert memo.pre_filter_outcomes is not None and memo.pre_score_outcomes is not None
        filters, scores = memo.pre_filter_outcomes.asked_next, memo.pre_score_outcomes.asked_next
        return {plugin.name for _, plugin in filters}, {plugin.name for _, plugin in scores}

    filters, scores = asked_next(a_pod(cpu="1"))
    assert "NodeName" in filters
    assert not {"VolumeBinding", "DynamicResources"} & (filters | scores)
    filters, scores = asked_next(a_pod(cpu="1", requests={"example.com/gpu": 1}))
    assert "DynamicResources" in filters & scores and "VolumeBinding" not in filters | scores


class SaysNothing(ScorePlugin):
    """Fails to say whether it concerns a pod: it is named in each attempt, as if nothing were kept."""

    name = "SaysNothing"
    concerned_by = PodPart.REQUESTS

    @classmethod
    def concerns(cls, pod: Pod) -> bool:
        raise KeyError(pod.name)

    def score(self, context: SchedulingContext, rows: Rows) -> Scores | None:
        return None


def test_a_plugin_that_fails_to_say_whom_it_concerns_is_named_in_each_attempt() -> None:
    registry = all_plugins()
    registry.register_factory("SaysNothing", SaysNothing)
    profile = {"plugins": {"score": {"enabled": [{"name": "SaysNothing"}]}}}
    configured = config.from_object(
        {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", "profiles": [profile]}
    )
    runner = build_runners(configured, registry)["default-scheduler"]
    for name in ("one", "two"):
        decision = decide(runner, a_pod(name, cpu="1"), CLUSTER, DecideOptions())
        assert isinstance(decision, DecisionError)
        assert decision.error.startswith(
            f"running Score plugins: plugin \"SaysNothing\" failed with: KeyError: '{name}'"
        )


def test_skips_are_kept_for_pods_without_rules_about_other_pods() -> None:
    """Or else each attempt asks PodTopologySpread and InterPodAffinity for nothing."""
    runner, pod = build_runners(config.default())["default-scheduler"], a_pod(labels={"app": "x"})
    decide(runner, pod, CLUSTER, DecideOptions())
    memo = runner.kept.memo(runner, pod.shape, CLUSTER.nodes)
    kept = {(key[0], key[1]) for part in memo.parts for key in part.skips_for_now}
    assert kept == {
        ("InterPodAffinity", "PreFilter"),
        ("InterPodAffinity", "PreScore"),
        ("PodTopologySpread", "PreScore"),
    }
    assert memo.pre_filter_outcomes is not None
    assert "PodTopologySpread" in memo.pre_filter_outcomes.skipped


def test_the_recording_shows_what_is_read() -> None:
    assert recorded(POD, lambda context, _: (context.shape.request, context.pod.spec), slice(0, 8)) == {
        "request",
        "pod.spec",
    }


def test_most_kept_plugins_go_by_a_part() -> None:
    """Or else pods that differ in their requests alone are asked about taints again."""
    assert {question.plugin.name for question in NARROW} >= {
        "NodeAffinity",
        "NodePorts",
        "NodeResourcesFit",
        "NodeResourcesBalancedAllocation",
        "NodeUnschedulable",
        "TaintToleration",
        "ImageLocality",
    }


DIFFERENT: dict[PodPart, dict[str, Any]] = {
    PodPart.REQUESTS: {"cpu": "2"},
    PodPart.TOLERATIONS: {"tolerations": [{"key": "slow", "operator": "Exists"}]},
    PodPart.NODE_SELECTION: {"nodeSelector": {"disk": "hdd"}},
    PodPart.PORTS: {"host_ports": [81]},
    PodPart.IMAGES: {"image": "other"},
}


@pytest.mark.parametrize("part", DIFFERENT)
def test_pods_that_differ_in_one_part_share_the_others(part: PodPart) -> None:
    common: dict[str, Any] = {"cpu": "1", "image": "app", "host_ports": [80], "nodeSelector": {"disk": "ssd"}}
    one, other = a_pod(**common).shape, a_pod(**{**common, **DIFFERENT[part]}).shape
    shared = {each for each in DIFFERENT if one.part(each) is other.part(each)}
    assert shared == set(DIFFERENT) - {part}
    assert one.part(PodPart.WHOLE) is not other.part(PodPart.WHOLE)


def test_labels_of_pods_touch_rows_only_where_a_plugin_keeps_answers_about_pods() -> None:
    """No plugin of ours does. One of a user that reads pods_on must be asked again."""

    class CountsWebPods(ScorePlugin):
        name = "CountsWebPods"

        @reads(Reads.ROW)
        def score(self, context: SchedulingContext, rows: Rows) -> Scores:
            on = [context.nodes.pods_on[row] for row in np.arange(context.nodes.height)[rows]]
            return np.array([sum(pod.labels.get("app") == "web" for pod in pods) for pods in on], np.int64)

    registry = all_plugins()
    registry.register_factory("CountsWebPods", CountsWebPods)
    profile = {"plugins": {"score": {"enabled": [{"name": "CountsWebPods"}]}}}
    configured = config.from_object(
        {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", "profiles": [profile]}
    )
    clock = VirtualClock(0)
    assert not build_scheduler(config.default(), clock, all_plugins()).cluster.nodes.labels_touch
    assert build_scheduler(configured, clock, registry).cluster.nodes.labels_touch
