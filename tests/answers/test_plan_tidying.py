"""Fewer steps for the same nodes: nothing that fitted before is left, and trials leave the cluster as it was."""

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st
from test_plan import a_loaded, offer, pod

from how_many import examples
from mooring.answers.plan.demand import NodeDemand, demand_of
from mooring.answers.plan.offers import read_offers
from mooring.answers.plan.search import FoundNodes, StepTidier, StepWalk, by_preference, found_steps, sum_of
from mooring.answers.plan.trials import Additions, NodeTrials, OfferedNodes, TrialPlacer
from mooring.inputs.loaded_cluster import LoadedCluster
from mooring.model.pod import Pod

OFFERS = [offer("small", 1.0, "4"), offer("large", 1.9, "8")]


def trial(loaded: LoadedCluster) -> tuple[NodeTrials, NodeDemand, list[Pod]]:
    trials = NodeTrials(TrialPlacer(loaded), [OfferedNodes(each) for each in read_offers(OFFERS, loaded)])
    pods = trials.queued([item for item in loaded.objects if isinstance(item, Pod)])
    return trials, demand_of(trials, pods), pods


def left_after(trials: NodeTrials, demand: NodeDemand, pods: Sequence[Pod], steps: Sequence[Additions]) -> list[str]:
    """Step by step from the beginning, without any short cut."""
    walk = StepWalk(trials, demand, pods)
    for step in steps:
        walk.make(step)
    left = [pod.id for pod in walk.left]
    walk.undo(0)
    return left


def tidied(cpus: Sequence[str], steps: Sequence[Additions]) -> tuple[FoundNodes, FoundNodes]:
    """The steps, and what comes out of them."""
    trials, demand, pods = trial(a_loaded(*(pod(f"p{i:02}", cpu) for i, cpu in enumerate(cpus))))
    left = set(left_after(trials, demand, pods, steps))
    found = found_steps(demand, steps, [each for each in pods if each.id in left])
    best = StepTidier(trials, demand, pods, 10_000).tidied([found], 0.0)[0]
    assert left_after(trials, demand, pods, best.steps) == [each.id for each in best.left]
    assert not any(offered.present for offered in trials.offers), "no trial node stays"
    return found, best


@settings(max_examples=examples(60))
@given(
    cpus=st.lists(st.sampled_from(["500m", "1", "2", "4", "7"]), min_size=1, max_size=14),
    steps=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)).filter(any), min_size=1, max_size=6),
)
def test_fewer_steps_and_nodes_place_as_much(cpus: list[str], steps: list[Additions]) -> None:
    found, best = tidied(cpus, steps)
    assert len(best.left) <= len(found.left)
    assert (best.cost, len(best.steps)) <= (found.cost, len(found.steps))
    assert all(any(step) for step in best.steps)


def test_steps_are_joined_where_everything_still_fits() -> None:
    """Four pods need a node each; whether the nodes come one by one makes no difference."""
    _, best = tidied(["4"] * 4, [(1, 0)] * 4)
    assert best.steps == ((4, 0),)


def test_steps_that_are_needed_stay() -> None:
    _, best = tidied(["1"] * 8 + ["7"], [(1, 0), (1, 0), (0, 1)])
    assert best.steps == ((2, 0), (0, 1))


def test_nodes_that_stay_empty_go() -> None:
    _, best = tidied(["4"], [(1, 0), (0, 1)])
    assert best.steps == ((1, 0),)


def test_fewer_steps_are_preferred_unless_they_cost_much_more() -> None:
    def plan(cost: float, steps: int) -> FoundNodes:
        return FoundNodes((1,), (), cost, ((1,),) * steps)

    cheap, similar, dear = plan(100, 9), plan(101.9, 3), plan(103, 0)
    assert by_preference([cheap, similar, dear], 99) == [similar, cheap]
    assert by_preference([cheap, similar, dear], 92) == [cheap], "101.9 is more than 10 % above the bound"


def joined_plainly(
    trials: NodeTrials, demand: NodeDemand, pods: Sequence[Pod], steps: Sequence[Additions], most_left: int
) -> tuple[Additions, ...]:
    """Twice as many steps at a time are one, while all steps from the beginning leave no more pods."""
    done: list[Additions] = []
    rest = list(steps)
    while rest:
        together = 1
        while together < len(rest):
            wider = min(2 * together, len(rest))
            tried = [*done, sum_of(*rest[:wider]), *rest[wider:]]
            if len(left_after(trials, demand, pods, tried)) > most_left:
                break
            together = wider
        done.append(sum_of(*rest[:together]))
        del rest[:together]
    return tuple(done)


@settings(max_examples=examples(60))
@given(
    cpus=st.lists(st.sampled_from(["1", "2", "4", "7"]), min_size=1, max_size=14),
    steps=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)).filter(any), min_size=2, max_size=6),
)
def test_steps_are_joined_as_if_all_were_made_again_each_time(cpus: list[str], steps: list[Additions]) -> None:
    trials, demand, pods = trial(a_loaded(*(pod(f"p{i:02}", cpu) for i, cpu in enumerate(cpus))))
    left = set(left_after(trials, demand, pods, steps))
    found = found_steps(demand, steps, [each for each in pods if each.id in left])
    merged = StepTidier(trials, demand, pods, 10_000).merged(found)
    assert merged.steps == joined_plainly(trials, demand, pods, steps, len(left))
