"""TeamQueues under any course of events: limits hold, no team is brought below its quota, and no pod starves."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from team_queues.reclaim import VictimRule
from team_queues.teams import Teams
from team_queues.usage import add, amounts_of, subtract

from build import a_pod
from how_many import examples
from mooring.plugin import Cluster, Pod
from team_stage import TeamStage, a_team, held

TEAMS = ("a", "b", "c")
GROUP_GATES = {"GenericWorkload": True}

quotas = st.integers(0, 6)
limits = st.one_of(st.none(), st.integers(0, 3))
teams = st.tuples(quotas, limits, limits, st.sampled_from([1, 2]), st.sampled_from(["Any", "LowerPriority"]))
arrivals = st.tuples(
    st.just("arrive"), st.sampled_from(TEAMS), st.integers(1, 3), st.integers(0, 1), st.sampled_from([1, 1, 1, 3])
)
"""Team, cpu, priority, and how many: more than one are a gang."""
ends = st.tuples(st.just("end"), st.integers(0, 99))
waits = st.tuples(st.just("wait"), st.integers(1, 12))


def staged(plan: list[tuple[int, int | None, int | None, int, str]]) -> TeamStage:
    written = []
    for name, (quota, borrowing, lending, weight, reclaim) in zip(TEAMS, plan, strict=True):
        more: dict[str, Any] = {"weight": weight, "reclaim": reclaim}
        if borrowing is not None:
            more["borrowingLimit"] = {"cpu": borrowing}
        if lending is not None:
            more["lendingLimit"] = {"cpu": lending}
        written.append(a_team(name, str(quota), **more))
    return TeamStage(*written, gates=GROUP_GATES)


def happen(stage: TeamStage, step: tuple[Any, ...], number: int) -> None:
    if step[0] == "arrive":
        _, team, cpu, priority, count = step
        names = [f"p{number}-{i}" for i in range(count)]
        if count == 1:
            stage.pods(team, *names, cpu=str(cpu), priority=priority)
        else:
            stage.gang(team, f"g{number}", *names, cpu=str(cpu), priority=priority)
    elif step[0] == "end":
        there = sorted(stage.driver.pods(), key=lambda pod: pod.key)
        if there:
            pod = there[step[1] % len(there)]
            stage.delete(pod.namespace, pod.name)
    else:
        stage.wait(step[1])


def admitted(stage: TeamStage, team: str) -> int:
    """What the team has: its pods on nodes, and those in the queue that TeamQueues has let in. A member that was tried keeps
    its quota while GangScheduling holds its gang back, which has lost another member."""
    queued = [
        entry
        for entry in stage.core.queue.entries()
        if not entry.is_gated or (entry.gating_plugin == "GangScheduling" and entry.attempts)
    ]
    return stage.used(team) + sum(held(entry.pod) for entry in queued if entry.pod.namespace == team)


def assert_limits(stage: TeamStage) -> None:
    ledger = stage.ledger
    lendable = sum(min(team.most_lent[0], team.quota[0]) for team in ledger.teams.teams)
    borrowed = 0
    for place, (name, team) in enumerate(zip(TEAMS, ledger.teams.teams, strict=True)):
        used = stage.used(name)
        assert used <= team.quota[0] + team.most_borrowed[0], f"{name} has {used}"
        borrowed += max(0, used - team.quota[0])
        assert ledger.used(place)[0] == admitted(stage, name), f"the books of {name}"
    assert borrowed <= lendable


def assert_gangs_whole(stage: TeamStage) -> None:
    """Of a gang all members are admitted, or none; those that ended leave the others."""
    gangs: dict[str, list[Pod]] = {}
    for pod in stage.driver.pods():
        if pod.group_key is not None:
            gangs.setdefault(pod.group_key, []).append(pod)
    for members in gangs.values():
        if len(members) == 3:
            gated = [pod for pod in members if stage.gate(pod.namespace, pod.name)]
            assert len(gated) in (0, 3), [pod.key for pod in gated]


def assert_nobody_waits_in_vain(stage: TeamStage) -> None:
    """The plain loop: no unit that comes first in its team could be admitted now."""
    ledger = stage.ledger
    used = [admitted(stage, name) for name in TEAMS]
    pairs = [*zip(ledger.teams.teams, used, strict=True)]
    for place, heap in ledger._waiting.items():
        unit, team = heap.sorted()[0], ledger.teams.teams[place]
        over = used[place] + unit.amounts[0] - team.quota[0]
        others = [pair for i, pair in enumerate(pairs) if i != place]
        lent = sum(max(0, min(one.most_lent[0], one.quota[0] - has)) for one, has in others)
        borrowed = sum(max(0, has - one.quota[0]) for one, has in others)
        assert over > 0 and over > min(team.most_borrowed[0], lent - borrowed), unit.key


@settings(max_examples=examples(60))
@given(
    st.tuples(teams, teams, teams), st.integers(1, 4), st.lists(st.one_of(arrivals, arrivals, ends, waits), max_size=24)
)
def test_limits_hold_and_no_team_is_brought_below_its_quota(
    plan: tuple[Any, ...], nodes: int, steps: list[tuple[Any, ...]]
) -> None:
    stage = staged([*plan])
    below: list[str] = []

    def evicted(victim: Pod, by: Pod) -> None:
        quota = stage.ledger.teams.teams[TEAMS.index(victim.namespace)].quota[0]
        if victim.namespace != by.namespace and stage.used(victim.namespace) < quota:
            below.append(victim.key)

    stage.driver.on_evicted = evicted
    stage.nodes(*(f"n-{i}" for i in range(nodes)))
    for number, step in enumerate(steps):
        happen(stage, step, number)
        assert_limits(stage)
        assert_gangs_whole(stage)
        assert_nobody_waits_in_vain(stage)
        assert below == []


@settings(max_examples=examples(30))
@given(st.tuples(teams, teams, teams), st.lists(arrivals, min_size=1, max_size=16))
def test_every_unit_that_is_not_larger_than_the_quota_of_its_team_runs_in_the_end(
    plan: tuple[Any, ...], steps: list[tuple[Any, ...]]
) -> None:
    stage = staged([*plan])
    stage.nodes("n-1", "n-2", "n-3")
    due = set()
    ran: set[str] = set()
    stage.driver.on_bound = lambda pod: ran.add(pod.name)
    for number, step in enumerate(steps):
        happen(stage, step, number)
        _, team, cpu, _, count = step
        quota = stage.ledger.teams.teams[TEAMS.index(team)].quota[0]
        if cpu * count * 1000 <= quota:
            due |= {f"p{number}-{i}" for i in range(count)}
    for _ in range(100):
        stage.wait(12)
        running = [pod for pod in stage.driver.pods() if pod.spec.node_name]
        if not running:
            break
        for pod in running:
            stage.delete(pod.namespace, pod.name)
    assert due <= ran


amounts = st.tuples(st.integers(0, 3), st.integers(0, 3))
placed = st.lists(st.tuples(st.sampled_from(TEAMS), amounts, st.integers(0, 2)), max_size=12)


@given(st.lists(amounts, min_size=3, max_size=3), placed, amounts, st.sampled_from(["Any", "LowerPriority"]))
def test_the_pods_that_may_leave_leave_their_team_its_quota_of_what_the_preemptor_needs(
    quotas: list[tuple[int, int]], pods: list[tuple[str, tuple[int, int], int]], wanted: tuple[int, int], policy: str
) -> None:
    """With two resources: of one that the preemptor asks for, each team still has its quota when all have left."""
    written = [
        {"name": name, "namespaces": [name], "quota": {"cpu": quota[0], "example.com/gpu": quota[1]}, "reclaim": policy}
        for name, quota in zip(TEAMS, quotas, strict=True)
    ]
    all_teams = Teams.read({"teams": written})
    present = [
        a_pod(f"p{i}", namespace=team, priority=priority, requests={"cpu": asked[0], "example.com/gpu": asked[1]})
        for i, (team, asked, priority) in enumerate(pods)
    ]
    used = {name: [0, 0] for name in TEAMS}
    for pod in present:
        add(used[pod.namespace], amounts_of(all_teams, pod))
    preemptor = a_pod("preemptor", namespace="a", priority=1, requests={"cpu": wanted[0], "example.com/gpu": wanted[1]})
    asked = amounts_of(all_teams, preemptor)
    spare = [[u - q for u, q in zip(used[team.name], team.quota, strict=True)] for team in all_teams.teams]
    rule = VictimRule(all_teams, preemptor, 0, asked, True, spare, Cluster())
    present = sorted(present, key=lambda pod: -pod.priority)
    leaving = rule.may_leave(present)
    for place, team in enumerate(all_teams.teams[1:], 1):
        left = [pod for pod in leaving if pod.namespace == team.name]
        after = [*spare[place]]
        for pod in left:
            subtract(after, amounts_of(all_teams, pod))
        assert not left or any(amount and rest >= 0 for amount, rest in zip(asked, after, strict=True))
        assert policy == "Any" or all(pod.priority < 1 for pod in left)
    assert all(pod.priority < 1 for pod in leaving if pod.namespace == "a")
