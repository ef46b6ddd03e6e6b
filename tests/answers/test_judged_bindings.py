"""What is thought of a binding, and in which order another scheduler decided: small cases, counted by hand."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from build import a_node, a_pod
from mooring.answers.recorded.agree import ArrivedPods, Foresight, bound_by, was_rejected
from mooring.answers.recorded.judging import BindingJudge, BindingVerdict, JudgeSettings
from mooring.framework import config as configuration
from mooring.framework.config.types import KubeSchedulerConfiguration
from mooring.kit.clock import NS_PER_S
from mooring.model.meta import KubeObject
from mooring.model.pod import Pod
from mooring.scheduler.inputs import ObjectAdded, ObjectRemoved, ObjectUpdated
from mooring.state.recording.run_reading import RecordedStep
from mooring.state.replay.run_reader import ClusterBegins, ClusterStep


def a_configuration(**fields: Any) -> KubeSchedulerConfiguration:
    header = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    return configuration.from_object({**header, **fields})


def a_judge(*items: KubeObject, **fields: Any) -> BindingJudge:
    judge = BindingJudge(JudgeSettings(a_configuration(**fields)))
    for item in items:
        judge.take_in(ObjectAdded(item), NS_PER_S)
    return judge


def waiting(name: str = "p", **fields: Any) -> Pod:
    return a_pod(name, metadata={"uid": f"uid-{name}"}, schedulerName="default-scheduler", **fields)


EQUAL = (a_node("a"), a_node("b"))
LARGER = (a_node("a"), a_node("b", cpu="8", memory="16Gi"), a_node("tiny", cpu="1"))


# ---- verdicts


def test_a_node_that_is_not_there_gives_no_verdict() -> None:
    found = a_judge(*EQUAL).judge(waiting(), "c", 5)
    assert (found.verdict, found.message) == (BindingVerdict.UNDECIDED, "the recording has no node c")
    assert (found.pod, found.node, found.profile, found.at_ns, found.node_count) == (
        "default/p",
        "c",
        "default-scheduler",
        5,
        2,
    )
    gone = a_judge(*EQUAL)
    gone.take_in(ObjectRemoved(EQUAL[1]), 2 * NS_PER_S)
    assert gone.judge(waiting(), "b", 5).message == "the recording has no node b"


def test_the_only_best_node_is_the_same_and_one_of_several_is_tied() -> None:
    same = a_judge(*LARGER).judge(waiting(cpu="2"), "b", 5)
    assert (same.verdict, same.tied_count, same.feasible_count, same.best, same.message) == (
        BindingVerdict.SAME,
        1,
        2,
        "b",
        "",
    )
    assert same.score == same.best_score > 0
    for node in ("a", "b"):
        tied = a_judge(*EQUAL).judge(waiting(cpu="2"), node, 5)
        assert (tied.verdict, tied.tied_count, tied.feasible_count, tied.best) == (BindingVerdict.TIED, 2, 2, node)


def test_a_node_of_a_lower_score_is_behind_by_its_plugins() -> None:
    found = a_judge(*LARGER).judge(waiting(cpu="2"), "a", 5)
    assert (found.verdict, found.best, found.better_count, found.may_be_sampled) == (
        BindingVerdict.LOWER,
        "b",
        1,
        False,
    )
    assert (found.plugin, found.differences[0].plugin) == ("NodeResourcesFit", "NodeResourcesFit")
    assert found.best_score - found.score == sum(best - own for _, own, best in found.differences) > 0
    behind = [best - own for _, own, best in found.differences]
    assert behind == sorted(behind, reverse=True)
    assert (found.node_count, found.feasible_count, found.tied_count) == (3, 2, 1)


def test_a_node_that_a_filter_rejects() -> None:
    judge = a_judge(*LARGER)
    found = judge.judge(waiting(cpu="2"), "tiny", 5)
    assert (found.verdict, found.plugin, found.message, found.best) == (
        BindingVerdict.REJECTED,
        "NodeResourcesFit",
        "Insufficient cpu",
        "b",
    )
    nowhere = judge.judge(waiting(cpu="64"), "a", 5)
    assert (nowhere.verdict, nowhere.plugin, nowhere.best, nowhere.feasible_count) == (
        BindingVerdict.REJECTED,
        "NodeResourcesFit",
        "",
        0,
    )


def test_a_pod_that_has_its_node_is_judged_as_if_it_had_none() -> None:
    found = a_judge(*LARGER).judge(waiting(cpu="2", nodeName="b"), "b", 5)
    assert found.verdict is BindingVerdict.SAME


@pytest.mark.parametrize(
    ("nominated", "node", "verdict"),
    [
        ("a", "a", BindingVerdict.SAME),
        ("a", "b", BindingVerdict.SAME),
        ("b", "a", BindingVerdict.LOWER),
        ("", "a", BindingVerdict.LOWER),
    ],
    ids=["where it was nominated", "elsewhere, on the best", "elsewhere, on another", "not nominated"],
)
def test_a_nomination_counts_only_for_its_node(nominated: str, node: str, verdict: BindingVerdict) -> None:
    pod = waiting(cpu="2", status={"nominatedNodeName": nominated})
    assert a_judge(*LARGER).judge(pod, node, 5).verdict is verdict


def test_pods_that_are_counted_on_their_node_take_its_room() -> None:
    judge, first = a_judge(*LARGER), waiting("first", cpu="8")
    judge.take_in(ObjectAdded(first), NS_PER_S)
    judge.assume(first, "b")
    assert judge.is_assumed(first)
    assert judge.judge(waiting(cpu="2"), "a", 5).verdict is BindingVerdict.SAME
    judge.give_up(first.id)
    assert not judge.is_assumed(first)
    assert judge.judge(waiting(cpu="2"), "a", 5).verdict is BindingVerdict.LOWER
    judge.give_up("nobody")
    assert judge.contradictions == 0


def test_changes_that_do_not_fit_are_counted() -> None:
    judge = a_judge(*EQUAL)
    pod = waiting("first")
    judge.assume(pod, "a")
    judge.assume(pod, "a")
    assert judge.contradictions == 1


def test_the_share_of_nodes_is_that_of_the_profile() -> None:
    profiles = [{"schedulerName": "own", "percentageOfNodesToScore": 40}, {"schedulerName": "shared"}]
    settings = JudgeSettings(a_configuration(percentageOfNodesToScore=60, profiles=profiles))
    assert settings.sought_nodes("own", 1000) == 400
    assert settings.sought_nodes("shared", 1000) == 600
    assert settings.sought_nodes("unknown", 1000) == 600


# ---- order


def rejected(pod: Pod, status: str = "False") -> Pod:
    condition = [{"type": "PodScheduled", "status": status}]
    return msgspec.structs.replace(pod, status=a_pod(status={"conditions": condition}).status)


def on(pod: Pod, node: str) -> Pod:
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=node))


def step(change: Any, is_known: bool = False) -> ClusterStep:
    return ClusterStep(RecordedStep(0, NS_PER_S, change, ()), is_known)


P, Q = waiting("p"), waiting("q")


def test_a_pod_was_rejected_if_its_condition_says_so() -> None:
    assert was_rejected(rejected(P))
    assert not was_rejected(P) and not was_rejected(rejected(P, "True"))


def static(pod: Pod) -> Pod:
    owner = {"apiVersion": "v1", "kind": "Node", "name": "a", "uid": "u"}
    made = a_pod(pod.name, metadata={"uid": pod.id, "ownerReferences": [owner]}, nodeName="a")
    return rejected(made, "True")


@pytest.mark.parametrize(
    ("shown", "pods"),
    [
        (step(ObjectUpdated(P, on(P, "a"))), (P, on(P, "a"))),
        (step(ObjectUpdated(on(P, "a"), on(P, "a"))), None),
        (step(ObjectUpdated(P, P)), None),
        (step(ObjectUpdated(Q, on(P, "a"))), None),
        (step(ObjectAdded(on(P, "a"))), None),
        (step(ObjectAdded(on(rejected(P, "True"), "a"))), (on(rejected(P, "True"), "a"),) * 2),
        (step(ObjectAdded(on(rejected(P, "True"), "a")), is_known=True), None),
        (step(ObjectAdded(on(rejected(P), "a"))), None),
        (step(ObjectAdded(rejected(P, "True"))), None),
        (step(ObjectAdded(static(P))), None),
        (step(ObjectAdded(a_node("a"))), None),
        (step(ObjectUpdated(a_node("a"), a_node("a"))), None),
        (step(ObjectRemoved(on(P, "a"))), None),
    ],
    ids=[
        "it gets its node",
        "it has it already",
        "it gets none",
        "another pod of the name",
        "created with its node",
        "bound while nobody watched",
        "it was there before",
        "created with its node, and rejected",
        "scheduled without a node",
        "a pod of the kubelet",
        "a node comes",
        "a node changes",
        "a pod goes",
    ],
)
def test_what_a_step_shows_to_be_bound(shown: ClusterStep, pods: tuple[Pod, Pod] | None) -> None:
    assert bound_by(shown) == pods


def names(pods: Sequence[Pod]) -> list[str]:
    return [pod.name for pod in pods]


def test_pods_come_before_others_of_no_higher_priority_that_came_later() -> None:
    arrived = ArrivedPods()
    low, first, second, high = (
        waiting("low"),
        waiting("a", priority=5),
        waiting("b", priority=5),
        waiting("c", priority=9),
    )
    for pod in (low, first, second, high):
        arrived.arrived(pod)
    assert names(arrived.before(second)) == ["a"]
    assert names(arrived.before(second)) == [], "each is told once"
    assert names(arrived.before(high)) == []
    last = waiting("last")
    arrived.arrived(last)
    arrived.gone(high)
    assert names(arrived.before(last)) == ["b", "low"], "by priority, and then by time"
    assert names(arrived.before(waiting("unknown"))) == []


def test_the_next_steps_tell_who_is_bound_and_who_is_rejected() -> None:
    steps: list[ClusterBegins | ClusterStep] = [
        step(ObjectAdded(P)),
        step(ObjectUpdated(Q, rejected(Q))),
        step(ObjectUpdated(P, on(P, "a"))),
        step(ObjectRemoved(rejected(Q))),
        step(ObjectRemoved(a_node("a"))),
    ]
    foresight = Foresight(steps, limit=2)
    seen = [(each, dict(foresight.bound), set(foresight.rejected)) for each in foresight]
    assert [each for each, _, _ in seen] == steps
    assert [bound for _, bound, _ in seen] == [{P.id: "a"}, {P.id: "a"}, {}, {}, {}]
    assert [refused for _, _, refused in seen] == [{Q.id}, {Q.id}, {Q.id}, set(), set()]
