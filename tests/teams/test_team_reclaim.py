"""TeamQueues: quota that was lent is reclaimed, from those who have borrowed and from nobody else."""

import msgspec
import pytest

from mooring.plugin import PodDisruptionBudget
from team_stage import TeamStage, a_team

GROUP_GATES = {"GenericWorkload": True}


def test_a_team_within_its_quota_takes_it_back_from_borrowers() -> None:
    stage = TeamStage(a_team("a", "2"), a_team("b", "2"))
    stage.nodes("n-1")
    stage.pods("a", "a-1", "a-2", "a-3", "a-4")
    assert len(stage.running("a")) == 4
    stage.pods("b", "b-1", "b-2")
    stage.wait(15)
    assert (len(stage.running("a")), stage.running("b")) == (2, ["b-1", "b-2"])
    assert len(stage.evicted) == 2


def test_a_team_beyond_its_quota_takes_nothing() -> None:
    stage = TeamStage(a_team("a", "2"), a_team("b", "2"), a_team("c", "2"))
    stage.nodes("n-1")
    stage.pods("a", "a-1", "a-2", "a-3")
    stage.pods("b", "b-1")
    stage.pods("b", "b-2", "b-3", cpu="2")
    stage.wait(60)
    assert (stage.running("b"), stage.evicted) == (["b-1"], [])
    assert stage.said("b", "b-2") == (
        "0/1 nodes are available: 1 Insufficient cpu. "
        'team "b" does not reclaim quota: with this pod it would have more than its quota'
    )


def test_no_team_is_brought_below_its_quota() -> None:
    """`a` has one cpu too much, in pods of two: whichever left, it would have less than its quota."""
    stage = TeamStage(a_team("a", "3"), a_team("b", "2"))
    stage.nodes("n-1")
    stage.pods("a", "a-1", "a-2", cpu="2")
    stage.pods("b", "b-1")
    stage.wait(60)
    assert (stage.running(), stage.evicted) == (["a-1", "a-2"], [])
    assert stage.said("b", "b-1") == (
        "0/1 nodes are available: 1 Insufficient cpu. "
        'team "b" has quota left, but no node has enough pods of teams that have more than theirs'
    )


def test_the_least_important_borrowers_leave_first() -> None:
    stage = TeamStage(a_team("a", "2"), a_team("b", "2"))
    stage.nodes("n-1")
    stage.pods("a", "low", priority=1)
    stage.pods("a", "high-1", "high-2", "high-3", priority=5)
    stage.pods("b", "b-1")
    stage.wait(15)
    assert stage.evicted == ["low"]


@pytest.mark.parametrize(
    ("policy", "evicted"), [("Any", ["a-1"]), ("LowerPriority", []), ("Never", [])], ids=lambda value: str(value)
)
def test_the_policy_of_the_team_says_from_whom_it_reclaims(policy: str, evicted: list[str]) -> None:
    stage = TeamStage(a_team("a", "0"), a_team("b", "2", reclaim=policy))
    stage.nodes("n-1", cpu="1")
    stage.pods("a", "a-1", priority=9)
    stage.pods("b", "b-1")
    stage.wait(15)
    assert stage.evicted == evicted


@pytest.mark.parametrize(("policy", "running"), [("LowerPriority", ["high"]), ("Never", ["low"])])
def test_a_team_may_preempt_its_own_pods_of_lower_priority(policy: str, running: list[str]) -> None:
    stage = TeamStage(a_team("a", "2", preemptWithinTeam=policy))
    stage.nodes("n-1", cpu="1")
    stage.pods("a", "low")
    stage.pods("a", "high", priority=9)
    stage.wait(15)
    assert stage.running() == running


def test_a_pod_of_high_priority_does_not_take_the_quota_of_another_team() -> None:
    stage = TeamStage(a_team("a", "2"), a_team("b", "2"))
    stage.nodes("n-1", cpu="2")
    stage.pods("a", "a-1", "a-2")
    stage.pods("b", "b-1", priority=1000)
    stage.wait(60)
    assert (stage.running(), stage.evicted) == (["a-1", "a-2"], [])


def test_pods_without_a_team_preempt_as_usual() -> None:
    stage = TeamStage(a_team("a", "2"))
    stage.nodes("n-1", cpu="2")
    stage.pods("a", "a-1", "a-2")
    stage.pods("kube-system", "dns", priority=1000)
    stage.wait(15)
    assert "dns" in stage.running()


def test_a_disruption_budget_is_kept_where_it_can_be() -> None:
    stage = TeamStage(a_team("a", "0"), a_team("b", "2"))
    budget = {"spec": {"selector": {"matchLabels": {"app": "db"}}}, "status": {"disruptionsAllowed": 0}}
    stage.create(msgspec.convert({"metadata": {"name": "db", "namespace": "a"}, **budget}, PodDisruptionBudget))
    stage.nodes("n-1", "n-2", cpu="1")
    stage.pods("a", "db", labels={"app": "db"})
    stage.pods("a", "web", labels={"app": "web"})
    stage.pods("b", "b-1")
    stage.wait(15)
    assert stage.evicted == ["web"]
    stage.pods("b", "b-2")
    stage.wait(15)
    assert stage.evicted == ["web", "db"]


def test_a_gang_of_borrowers_leaves_as_a_whole() -> None:
    stage = TeamStage(a_team("a", "0"), a_team("b", "4"), gates=GROUP_GATES)
    stage.nodes("n-1", "n-2", cpu="2")
    stage.gang("a", "crew", "g-1", "g-2", "g-3", "g-4")
    assert len(stage.running()) == 4
    stage.pods("b", "b-1")
    stage.wait(15)
    assert (sorted(stage.evicted), stage.running()) == (["g-1", "g-2", "g-3", "g-4"], ["b-1"])


def test_a_gang_is_kept_where_its_team_would_have_less_than_its_quota_without_it() -> None:
    stage = TeamStage(a_team("a", "3"), a_team("b", "1"), gates=GROUP_GATES)
    stage.nodes("n-1", "n-2", cpu="2")
    stage.gang("a", "crew", "g-1", "g-2", "g-3", "g-4")
    stage.pods("b", "b-1")
    stage.wait(60)
    assert (stage.evicted, stage.running()) == ([], ["g-1", "g-2", "g-3", "g-4"])


def test_the_members_of_a_gang_reclaim_together_and_no_more_than_was_borrowed() -> None:
    stage = TeamStage(a_team("a", "2"), a_team("b", "2"), gates=GROUP_GATES)
    stage.nodes("n-1", "n-2", cpu="2")
    stage.pods("a", "a-1", "a-2", "a-3", "a-4")
    stage.gang("b", "crew", "g-1", "g-2")
    stage.wait(30)
    assert (len(stage.running("a")), stage.running("b")) == (2, ["g-1", "g-2"])
    assert len(stage.evicted) == 2


def test_nobody_is_evicted_for_a_gang_that_would_not_fit_even_then() -> None:
    stage = TeamStage(a_team("a", "3"), a_team("b", "2"), gates=GROUP_GATES)
    stage.nodes("n-1", "n-2", cpu="2")
    stage.pods("a", "a-1", "a-2", "a-3", "a-4")
    stage.gang("b", "crew", "g-1", "g-2")
    stage.wait(60)
    assert (len(stage.running("a")), stage.running("b"), stage.evicted) == (4, [], [])
