"""TeamQueues: quotas, borrowing, the order of the queue, and gangs as one unit."""

from team_stage import TeamStage, a_team

GROUP_GATES = {"GenericWorkload": True}


def test_a_team_has_its_quota_and_no_more_than_it_may_borrow() -> None:
    stage = TeamStage(a_team("a", "2", borrowingLimit={"cpu": "1"}), a_team("b", "4"))
    stage.nodes("n-1", "n-2")
    stage.pods("a", "a-1", "a-2", "a-3", "a-4")
    assert stage.running() == ["a-1", "a-2", "a-3"]
    assert stage.gate("a", "a-4") == (
        'team "a" has 3 cpu of its quota of 2 cpu and may borrow 0 cpu more: the pod asks for 1 cpu'
    )
    assert stage.ledger.waiting() == ["a/a-4"]


def test_a_pod_that_ends_lets_the_next_one_in_at_once() -> None:
    stage = TeamStage(a_team("a", "2", borrow=False), a_team("b", "4"))
    stage.nodes("n-1", "n-2")
    stage.pods("a", "a-1", "a-2", "a-3")
    assert stage.running() == ["a-1", "a-2"]
    stage.delete("a", "a-1")
    assert stage.running() == ["a-2", "a-3"]


def test_a_pod_without_a_node_that_is_deleted_gives_its_quota_to_the_next() -> None:
    stage = TeamStage(a_team("a", "2", borrow=False))
    stage.nodes("n-1")
    stage.pods("a", "lost", cpu="2", nodeSelector={"no": "node"})
    stage.pods("a", "next", cpu="2")
    assert (stage.running(), stage.ledger.waiting()) == ([], ["a/next"])
    stage.delete("a", "lost")
    assert stage.running() == ["next"]


def test_teams_that_do_not_lend_keep_their_quota_idle() -> None:
    stage = TeamStage(a_team("a", "1"), a_team("b", "4", lend=False), a_team("c", "4", lendingLimit={"cpu": "1"}))
    stage.nodes("n-1", "n-2", "n-3")
    stage.pods("a", "a-1", "a-2", "a-3")
    assert stage.running() == ["a-1", "a-2"]


def test_a_pod_larger_than_a_team_can_ever_have_holds_nobody_up() -> None:
    stage = TeamStage(a_team("a", "2"), a_team("b", "4", lendingLimit={"cpu": "1"}))
    stage.nodes("n-1", "n-2")
    stage.pods("a", "giant", cpu="4")
    assert stage.gate("a", "giant") == (
        'team "a" can have 3 cpu at most, its quota and what others lend: the pod asks for 4 cpu'
    )
    stage.pods("a", "small")
    assert stage.running() == ["small"]


def test_within_a_team_no_pod_passes_a_larger_one_that_waits() -> None:
    stage = TeamStage(a_team("a", "4", borrow=False))
    stage.nodes("n-1", "n-2")
    stage.pods("a", "first", cpu="3")
    stage.pods("a", "large", cpu="4")
    stage.pods("a", "small", cpu="1")
    assert stage.running() == ["first"]
    assert stage.gate("a", "small") == 'team "a": a/large comes first'
    stage.delete("a", "first")
    assert stage.running() == ["large"]
    stage.delete("a", "large")
    assert stage.running() == ["small"]


def test_within_a_team_the_higher_priority_waits_less() -> None:
    stage = TeamStage(a_team("a", "1", borrow=False))
    stage.nodes("n-1")
    stage.pods("a", "first")
    stage.pods("a", "low", priority=0)
    stage.pods("a", "high", priority=9)
    stage.delete("a", "first")
    assert stage.running() == ["high"]


def test_what_can_be_borrowed_goes_to_the_team_with_the_smallest_weighted_share() -> None:
    stage = TeamStage(a_team("a", "0"), a_team("b", "0", weight=2), a_team("c", "6"))
    stage.nodes("n-1", "n-2")
    stage.pods("c", "c-1", cpu="6")
    stage.pods("a", *(f"a-{i}" for i in range(6)))
    stage.pods("b", *(f"b-{i}" for i in range(6)))
    stage.delete("c", "c-1")
    assert (len(stage.running("a")), len(stage.running("b"))) == (2, 4)


def test_the_dominant_resource_decides() -> None:
    """`a` asks for much memory, `b` for much cpu: each is measured by what it has most of."""
    teams = [a_team("a", "0"), a_team("b", "0"), a_team("c", "12")]
    stage = TeamStage(*({**team, "quota": {**team["quota"], "memory": "0"}} for team in teams[:2]),
                      {**teams[2], "quota": {"cpu": "12", "memory": "12Gi"}})  # fmt: skip
    stage.nodes("n-1", cpu="12", memory="12Gi")
    stage.pods("c", "c-1", cpu="12")
    stage.pods("a", *(f"a-{i}" for i in range(8)), cpu="500m", memory="2Gi")
    stage.pods("b", *(f"b-{i}" for i in range(8)), cpu="2", memory="512Mi")
    stage.delete("c", "c-1")
    assert (len(stage.running("a")), len(stage.running("b"))) == (5, 4)
    assert stage.ledger.teams.share(0, stage.ledger.used(0)) >= stage.ledger.teams.share(1, stage.ledger.used(1))


def test_the_queue_serves_the_team_that_has_least() -> None:
    """All are admitted while there is no node; then the nodes go to the teams in turn."""
    stage = TeamStage(a_team("a", "4"), a_team("b", "4"))
    stage.pods("a", "a-1", "a-2", "a-3", "a-4")
    stage.pods("b", "b-1", "b-2", "b-3", "b-4")
    assert stage.ledger.waiting() == []
    stage.nodes("n-1", cpu="4")
    stage.wait(30)
    assert stage.running() == ["a-1", "a-2", "b-1", "b-2"]


def test_pods_without_a_team_are_not_limited() -> None:
    stage = TeamStage(a_team("a", "1"))
    stage.nodes("n-1")
    stage.pods("kube-system", "dns", "proxy", cpu="2")
    assert stage.running() == ["dns", "proxy"]


def test_a_quota_of_pods_counts_them() -> None:
    stage = TeamStage({"name": "a", "namespaces": ["a"], "quota": {"pods": 2}})
    stage.nodes("n-1")
    stage.pods("a", "a-1", "a-2", "a-3", cpu="100m")
    assert stage.running() == ["a-1", "a-2"]
    assert stage.gate("a", "a-3") == (
        'team "a" has 2 pods of its quota of 2 pods and may borrow 0 pods more: the pod asks for 1 pods'
    )


def test_a_pod_on_borrowed_quota_that_found_no_node_waits_again_when_the_quota_is_needed_back() -> None:
    stage = TeamStage(a_team("a", "2"), a_team("b", "2"))
    stage.nodes("n-1", cpu="2")
    stage.pods("a", "a-1", "a-2")
    stage.pods("a", "a-3", "a-4")
    assert (stage.running(), stage.ledger.waiting()) == (["a-1", "a-2"], [])
    stage.pods("b", "b-1", "b-2", nodeSelector={"no": "node"})
    stage.nodes("n-2", cpu="0")  # an event: the pods of `a` are tried again
    stage.wait(400)
    assert stage.ledger.waiting() == ["a/a-3", "a/a-4"]
    stage.delete("b", "b-1", "b-2")
    assert stage.ledger.waiting() == []


# ---- gangs


def test_a_gang_is_admitted_as_a_whole_or_not_at_all() -> None:
    stage = TeamStage(a_team("a", "4", borrow=False), gates=GROUP_GATES)
    stage.nodes("n-1", "n-2")
    stage.pods("a", "single", cpu="2")
    stage.gang("a", "crew", "g-1", "g-2", "g-3")
    assert stage.running() == ["single"]
    assert (
        stage.gate("a", "g-1")
        == stage.gate("a", "g-3")
        == ('team "a" has 2 cpu of its quota of 4 cpu and may borrow 0 cpu more: the 3 pods of its gang ask for 3 cpu')
    )
    stage.delete("a", "single")
    stage.wait(15)
    assert stage.running() == ["g-1", "g-2", "g-3"]


def test_a_gang_that_lost_a_member_is_judged_anew_when_it_is_replaced() -> None:
    stage = TeamStage(a_team("a", "4", borrow=False), gates=GROUP_GATES)
    stage.nodes("n-1", "n-2")
    stage.pods("a", "single", cpu="2")
    stage.gang("a", "crew", "g-1", "g-2", "g-3")
    stage.delete("a", "g-2")
    assert stage.ledger.waiting() == []
    stage.delete("a", "single")
    assert stage.running() == []
    stage.pods("a", "g-4", schedulingGroup={"podGroupName": "crew"})
    stage.wait(15)
    assert stage.running() == ["g-1", "g-3", "g-4"]


def test_a_member_beyond_the_minimum_is_judged_alone() -> None:
    stage = TeamStage(a_team("a", "2", borrow=False), gates=GROUP_GATES)
    stage.nodes("n-1", "n-2")
    stage.gang("a", "crew", "g-1", "g-2", min_count=2)
    stage.pods("a", "g-3", schedulingGroup={"podGroupName": "crew"})
    assert (stage.running(), stage.ledger.waiting()) == (["g-1", "g-2"], ["a/g-3"])
    stage.delete("a", "g-1")
    stage.wait(15)
    assert stage.running() == ["g-2", "g-3"]


def test_of_a_gang_that_is_larger_than_its_team_can_have_the_minimum_is_admitted() -> None:
    stage = TeamStage(a_team("a", "3", borrow=False), gates=GROUP_GATES)
    stage.nodes("n-1", "n-2")
    stage.pods("a", "single", cpu="2")
    stage.gang("a", "crew", "g-1", "g-2", "g-3", "g-4", "g-5", min_count=2)
    assert stage.running() == ["single"]
    stage.delete("a", "single")
    stage.wait(15)
    assert (len(stage.running()), len(stage.ledger.waiting())) == (3, 2)
    stage.delete("a", stage.running()[0])
    stage.wait(15)
    assert (len(stage.running()), len(stage.ledger.waiting())) == (3, 1)


def test_a_gang_whose_minimum_its_team_can_never_have_waits() -> None:
    stage = TeamStage(a_team("a", "2", borrow=False), gates=GROUP_GATES)
    stage.nodes("n-1", "n-2")
    stage.gang("a", "crew", "g-1", "g-2", "g-3")
    stage.pods("a", "single")
    assert stage.running() == ["single"]
    assert stage.gate("a", "g-3") == (
        'team "a" can have 2 cpu at most, its quota and what others lend: the 3 pods of its gang ask for 3 cpu'
    )
