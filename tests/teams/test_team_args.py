"""The arguments of TeamQueues: what they mean, and what is said about those that cannot be used."""

from typing import Any

import pytest
from team_queues import TeamQueues
from team_queues.teams import NO_LIMIT, Teams

import mooring
from mooring.plugin import Handle
from team_stage import HEAD, PLUGINS, a_team, configured


def read(*teams: Any) -> Teams:
    return Teams.read({"teams": list(teams)})


def test_amounts_are_in_the_units_of_the_node_table() -> None:
    teams = read(
        {"name": "a", "namespaces": ["x", "y"], "quota": {"cpu": "1500m", "memory": "1Gi"}, "borrow": False},
        a_team("b", "2", weight=3, borrowingLimit={"cpu": 1}, lendingLimit={"memory": "1Mi"}),
    )
    a, b = teams.teams
    assert (teams.resources, teams.total) == (("cpu", "memory"), (3500, 1 << 30))
    assert teams.of_namespace == {"x": 0, "y": 0, "b": 1}
    assert (a.quota, a.most_borrowed, a.most_lent) == ((1500, 1 << 30), (0, 0), (NO_LIMIT, NO_LIMIT))
    assert (b.quota, b.most_borrowed, b.most_lent) == ((2000, 0), (1000, NO_LIMIT), (NO_LIMIT, 1 << 20))


def test_the_share_is_that_of_the_dominant_resource_by_the_weight() -> None:
    teams = read({"name": "a", "namespaces": ["a"], "quota": {"cpu": "10", "pods": 100}, "weight": 2})
    assert teams.share(0, (5000, 10)) == 0.25
    assert teams.share(0, (1000, 80)) == 0.4
    nothing = read(a_team("a", "0"))
    assert nothing.share(0, (5000,)) == 0, "of a resource of which there is no quota nobody has a share"


REFUSED: dict[str, tuple[Any, str]] = {
    "no arguments": (None, "Object missing required field `teams`"),
    "no teams": ({"teams": []}, "teams: Invalid value: 0 teams: write 1 to 1000"),
    "an unknown field": (
        {"teams": [{**a_team("a"), "quotas": {}}]},
        "teams[0]: Object contains unknown field `quotas`; did you mean quota?",
    ),
    "a wrong type": ({"teams": [{**a_team("a"), "weight": "x"}]}, "teams[0].weight: Expected `float`, got `str`"),
    "an unknown policy": ({"teams": [a_team("a", reclaim="Always")]}, "teams[0].reclaim: Invalid enum value 'Always'"),
    "no name": ({"teams": [a_team("")]}, "teams[0].name: Required value: name the team"),
    "a name twice": (
        {"teams": [a_team("a"), {**a_team("a"), "namespaces": ["b"]}]},
        'teams[1].name: Duplicate value: "a"',
    ),
    "no namespaces": (
        {"teams": [{**a_team("a"), "namespaces": []}]},
        "teams[0].namespaces: Required value: name the namespaces of the team",
    ),
    "a namespace of two teams": (
        {"teams": [a_team("a"), {**a_team("b"), "namespaces": ["a"]}]},
        'teams[1].namespaces: Duplicate value: "a": it belongs to teams[0] already',
    ),
    "no weight": ({"teams": [a_team("a", weight=0)]}, "teams[0].weight: Invalid value: 0: must be greater than 0"),
    "an infinite weight": (
        {"teams": [a_team("a", weight=float("inf"))]},
        "teams[0].weight: Invalid value: inf: must be greater than 0",
    ),
    "no quota": (
        {"teams": [{**a_team("a"), "quota": {}}]},
        "teams[0].quota: Required value: name an amount of at least one resource",
    ),
    "no quantity": (
        {"teams": [a_team("a", "much")]},
        "teams[0].quota.cpu: Invalid value: 'much': quantities must match the regular expression "
        "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$', e.g. 500m, 2, 1.5Gi",
    ),
    "a negative quota": (
        {"teams": [a_team("a", "-1")]},
        "teams[0].quota.cpu: Invalid value: '-1': must not be negative",
    ),
    "a limit of something else": (
        {"teams": [a_team("a", borrowingLimit={"cpus": 1})]},
        'teams[0].borrowingLimit: Invalid value: "cpus": no team has a quota of it; did you mean cpu?',
    ),
    "two faults": (
        {"teams": [a_team("", weight=-1)]},
        "teams[0].name: Required value: name the team; teams[0].weight: Invalid value: -1: must be greater than 0",
    ),
}


@pytest.mark.parametrize(("args", "text"), REFUSED.values(), ids=REFUSED.keys())
def test_arguments_that_cannot_be_used_are_refused_with_what_is_wrong_and_where(args: Any, text: str) -> None:
    with pytest.raises(ValueError) as refusal:
        TeamQueues(args, Handle())
    assert str(refusal.value) == text


def test_the_configuration_is_refused_with_the_text() -> None:
    with pytest.raises(mooring.InputError, match="teams.0..name: Required value: name the team"):
        mooring.simulate([], configured(a_team("")), plugins=[TeamQueues])


def two_profiles(*teams: str) -> dict[str, Any]:
    """The profiles default-scheduler and other, each with one team of this name."""
    profiles = []
    for name, team in zip(("default-scheduler", "other"), teams, strict=True):
        args = {"name": "TeamQueues", "args": {"teams": [a_team(team, "2")]}}
        profiles.append({"schedulerName": name, "plugins": PLUGINS, "pluginConfig": [args]})
    return {**HEAD, "profiles": profiles}


def test_profiles_share_their_teams() -> None:
    status = {"allocatable": {"cpu": "8", "pods": 9}}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "status": status}
    pods = [a_pod_of("one", "default-scheduler"), a_pod_of("two", "other"), a_pod_of("three", "other")]
    report = mooring.simulate([node, *pods], two_profiles("a", "a"), plugins=[TeamQueues])
    assert [result.pod.name for result in report.placed] == ["one", "two"]


def test_profiles_with_other_teams_are_refused() -> None:
    with pytest.raises(mooring.InputError, match="all profiles must have the same teams"):
        mooring.simulate([], two_profiles("a", "b"), plugins=[TeamQueues])


def a_pod_of(name: str, scheduler: str) -> dict[str, Any]:
    container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": "1"}}}
    metadata = {"name": name, "namespace": "a"}
    spec = {"schedulerName": scheduler, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
