"""PlacementGenerate and PlacementScore: what plugins are handed, how scores become a choice, and what their faults say."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from mooring.cluster.pods.pod_groups import GroupName
from mooring.framework.attempts.group_asking import generate_placements, score_placements
from mooring.framework.contract.group_points import (
    PlacementGeneratePlugin,
    PlacementScorePlugin,
    PodGroupAssignments,
    PodGroupContext,
    PodGroupPlacement,
    RowsByPlacement,
)
from mooring.framework.contract.plain import NodeView, PlacementView, PlainPlugin, lift
from mooring.framework.contract.points import Handle, Plugin, Scores
from mooring.framework.contract.status import PluginError, Rejection, curable
from mooring.model.pod import Pod
from mooring.model.workloads import AnyPodGroup
from racks import RackWorld


def a_world(*plugins: type[Plugin], **weights: int) -> RackWorld:
    """Racks of one, two and three nodes; these plugins in the place of those that the profile has."""
    world = RackWorld()
    profile = world.core.runners["default-scheduler"].profile
    made = [plugin(None, Handle()) for plugin in plugins]
    generators = tuple(each for each in made if isinstance(each, PlacementGeneratePlugin))
    profile.placement_generates = generators or profile.placement_generates
    profile.placement_scores = tuple(each for each in made if isinstance(each, PlacementScorePlugin))
    profile.placement_weights = {each.name: weights.get(each.name, 1) for each in profile.placement_scores}
    world.racks(r1=1, r2=2, r3=3)
    world.rack_group(min_count=2)
    return world


class ByName(PlacementScorePlugin):
    """The last rack is the best. It asks for the nodes, and notes which it was shown."""

    name = "ByName"

    def __init__(self, args: Any, handle: Handle) -> None:
        self.shown: list[tuple[str, tuple[str, ...]]] = []

    def score_placements(self, group: PodGroupContext, candidates: Sequence[PodGroupAssignments]) -> Scores:
        self.shown += [(each.placement.name, each.node_names) for each in candidates]
        return np.array([int(each.placement.name[1:]) for each in candidates], np.int64)


class Few(ByName):
    """The first rack is the best, by far once normalised."""

    name = "Few"

    def grows_with_pods(self, pods: Sequence[Pod]) -> bool:
        return True

    def normalize_placements(self, group: PodGroupContext, scores: Scores) -> Scores:
        found: Scores = (scores.max() - scores) * 50
        return found


def test_the_highest_score_wins_and_nodes_are_shown_where_they_are_asked_for() -> None:
    world = a_world(ByName)
    world.members("a", "b")
    assert world.racks_of("a", "b") == {"r3"}
    (plugin,) = world.core.runners["default-scheduler"].profile.placement_scores
    assert isinstance(plugin, ByName)
    assert [name for name, _ in plugin.shown] == ["r1", "r2", "r3"]
    assert dict(plugin.shown)["r1"] == ("r1-1", "r1-1")


@pytest.mark.parametrize(("weight", "rack"), [(1, "r1"), (100, "r3")])
def test_weights_decide_between_plugins(weight: int, rack: str) -> None:
    world = a_world(ByName, Few, ByName=weight)
    world.members("a", "b")
    assert world.racks_of("a", "b") == {rack}


def test_without_scores_the_first_placement_wins() -> None:
    world = a_world()
    world.members("a", "b")
    assert world.racks_of("a", "b") == {"r1"}


# ---- faults


class Faulty(PlacementScorePlugin):
    name = "Faulty"
    answer: Any = None

    def score_placements(self, group: PodGroupContext, candidates: Sequence[PodGroupAssignments]) -> Scores:
        if isinstance(self.answer, Exception):
            raise self.answer
        found: Scores = self.answer
        return found


class FaultyNormalize(Faulty):
    def normalize_placements(self, group: PodGroupContext, scores: Scores) -> Scores:
        raise PluginError("no idea")


SCORES: dict[str, tuple[type[Faulty], Any, str]] = {
    "an error": (
        Faulty,
        PluginError("no idea"),
        'running PlacementScore plugins: plugin "Faulty" failed with: no idea',
    ),
    "too few scores": (
        Faulty,
        np.zeros(1, np.int64),
        'running PlacementScore plugins: plugin "Faulty" failed with: scores must be an array of 3 signed integers',
    ),
    "a score beyond 100": (
        Faulty,
        np.array([0, 101, -1]),
        'applying score defaultWeights on PlacementScore plugins: plugin "Faulty" returns an invalid score 101, '
        "it should in the range of [0, 100] after normalizing",
    ),
    "an error in normalize": (
        FaultyNormalize,
        np.zeros(3, np.int64),
        'running NormalizePlacementScore on PlacementScore plugins: plugin "Faulty" failed with: no idea',
    ),
}


@pytest.mark.parametrize(("kind", "answer", "text"), SCORES.values(), ids=SCORES.keys())
def test_scores_that_fail_are_an_error_of_all_members(kind: type[Faulty], answer: Any, text: str) -> None:
    world = a_world(type("Made", (kind,), {"answer": answer}))
    before = world.held_milli()
    world.members("a", "b")
    assert world.where() == {}
    assert world.held_milli() == before
    assert [world.said(name) for name in "ab"] == [text, text]
    assert world.group_says() == [("PodGroupInitiallyScheduled", "False", "SchedulerError", text)]


class Generator(PlacementGeneratePlugin):
    name = "Generator"
    answer: Any = None

    def generate_placements(
        self, group: PodGroupContext, parent: PodGroupPlacement
    ) -> Sequence[PodGroupPlacement] | Rejection:
        if isinstance(self.answer, Exception):
            raise self.answer
        if isinstance(self.answer, Rejection):
            return self.answer
        return [PodGroupPlacement(f"p{i}", np.array(rows)) for i, rows in enumerate(self.answer)]


FAULTS: dict[str, tuple[Any, str, str]] = {
    "a rejection": (curable("not today"), "Unschedulable", "not today"),
    "no placement": ([], "Unschedulable", "no feasible placements found"),
    "an error": (PluginError("no idea"), "SchedulerError", "no idea"),
    "rows that do not exist": (
        [[0, 99]],
        "SchedulerError",
        'running PlacementGenerate plugin "Generator": a placement has rows that its parent does not have',
    ),
    "rows out of order": (
        [[0, 1], [3, 2]],
        "SchedulerError",
        'running PlacementGenerate plugin "Generator": the rows of a placement must be ascending',
    ),
    "no rows": (
        [[0.5]],
        "SchedulerError",
        'running PlacementGenerate plugin "Generator": the rows of a placement must be an array of intp',
    ),
}


@pytest.mark.parametrize(("answer", "reason", "text"), FAULTS.values(), ids=FAULTS.keys())
def test_a_generator_that_fails_rejects_all_members(answer: Any, reason: str, text: str) -> None:
    world = a_world(type("Made", (Generator,), {"answer": answer}))
    world.members("a", "b")
    assert world.where() == {}
    assert [world.said(name) for name in "ab"] == [text, text]
    no_victims = "pod group preemption: No preemption victims found for incoming preemptor"
    told = text if reason == "SchedulerError" else f"{text}, {no_victims}"
    assert world.group_says() == [("PodGroupInitiallyScheduled", "False", reason, told)]


def test_a_bug_of_a_generator_is_told_with_its_place() -> None:
    world = a_world(type("Made", (Generator,), {"answer": ValueError("no x")}))
    world.members("a", "b")
    assert world.said("a").startswith('running PlacementGenerate plugin "Generator": ValueError: no x (')
    assert world.said("a") == world.said("b")


def test_a_placement_without_nodes_is_one_that_holds_nothing() -> None:
    world = a_world(type("Made", (Generator,), {"answer": [np.zeros(0, np.intp), [1, 2]]}))
    world.members("a", "b")
    assert world.racks_of("a", "b") == {"r2"}


def test_placements_may_share_nodes() -> None:
    """The last rows of both racks, and the first ones of both: the seed of the attempt does not matter."""
    world = a_world(type("Made", (Generator,), {"answer": [[0, 1], [0, 1, 2]]}), ByRowCount)
    world.members("a", "b", "c", "d", "e", "f")
    assert len(world.where()) == 6
    assert set(world.where().values()) == {"r1-1", "r2-1", "r2-2"}


class ByRowCount(PlacementScorePlugin):
    name = "ByRowCount"

    def score_placements(self, group: PodGroupContext, candidates: Sequence[PodGroupAssignments]) -> Scores:
        return np.array([len(each.placement.rows) for each in candidates], np.int64)


def test_without_a_generator_all_nodes_are_one_placement() -> None:
    world = a_world()
    profile = world.core.runners["default-scheduler"].profile
    profile.placement_generates = ()
    group = PodGroupContext(GroupName("default/gang"), [Pod()], world.core.cluster)
    placements = generate_placements(profile, group)
    assert not isinstance(placements, Rejection)
    assert [(each.name, each.rows.tolist()) for each in placements] == [("", [0, 1, 2, 3, 4, 5])]
    assert score_placements(profile, group, []).tolist() == []


def test_sums_over_placements() -> None:
    placements = [PodGroupPlacement("", np.array(rows, np.intp)) for rows in ([0, 1], [], [2], [])]
    by_placement = RowsByPlacement(placements)
    assert by_placement.sum(np.array([[1, 2, 3], [4, 5, 6]])).tolist() == [[3, 0, 3, 0], [9, 0, 6, 0]]
    assert RowsByPlacement([]).sum(np.zeros((2, 0))).shape == (2, 0)
    assert by_placement.are_ascending()
    assert not RowsByPlacement([PodGroupPlacement("", np.array([2, 1]))]).are_ascending()
    assert not RowsByPlacement([PodGroupPlacement("", np.array([1, 1]))]).are_ascending()


# ---- the plain form


class EvenRacks(PlainPlugin):
    """Two racks a placement; the one with the most nodes left over is the best."""

    name = "EvenRacks"

    def placements(
        self, group: AnyPodGroup, pods: Sequence[Pod], nodes: Sequence[NodeView]
    ) -> Mapping[str, Sequence[str]] | str | Rejection:
        if group.name == "odd":
            return "not for odd groups"
        if group.name == "lost":
            return {"nowhere": ["nothing"]}
        names = {"low": ("r1", "r2"), "high": ("r2", "r3")}
        return {name: [node.name for node in nodes if node.labels["rack"] in racks] for name, racks in names.items()}

    def score_placement(self, group: AnyPodGroup, placement: PlacementView) -> int:
        assert len(placement.pods) == len(placement.node_of) == 2
        return len(placement.nodes) - len(set(placement.node_of.values()))

    def normalize_placements(self, scores: list[int]) -> list[int]:
        return [min(100, 10 * score) for score in scores]


def test_a_plain_plugin_makes_and_scores_placements() -> None:
    world = a_world(lift(EvenRacks))
    world.members("a", "b", cpu="2")
    assert len(world.where()) == 2
    assert world.racks_of("a", "b") <= {"r2", "r3"}


@pytest.mark.parametrize(
    ("group", "text"),
    [
        ("odd", "not for odd groups"),
        (
            "lost",
            'running PlacementGenerate plugin "EvenRacks": placements must name nodes of the cluster, '
            "and 'nothing' is none",
        ),
    ],
)
def test_what_a_plain_generator_refuses_is_said_of_all_members(group: str, text: str) -> None:
    world = a_world(lift(EvenRacks))
    world.rack_group(group, min_count=1)
    world.members("a", group=group)
    assert world.said("a") == text


def test_plain_scores_must_be_whole_numbers() -> None:
    class Half(EvenRacks):
        def score_placement(self, group: AnyPodGroup, placement: PlacementView) -> int:
            return 0.5  # type: ignore[return-value]

    class Short(EvenRacks):
        def normalize_placements(self, scores: list[int]) -> list[int]:
            return scores[1:]

    for plugin, text in (
        (Half, "score_placement must return a whole number"),
        (Short, "returned 1 scores for 2 placements"),
    ):
        world = a_world(lift(plugin))
        world.members("a", "b")
        assert text in world.said("a")
