"""All cures that a search finds for the pod `wanted` of some written objects."""

from written import Written

from mooring.answers.explain.cure import Cure
from mooring.answers.explain.cure_search import find_cures
from mooring.answers.trial.counterfactual import Counterfactual
from mooring.inputs.loaded_cluster import load

Row = tuple[str, str, str, float]


def cures_of(*objects: Written, decisions: int = 2000) -> list[Cure]:
    loaded = load(list(objects))
    return list(find_cures(Counterfactual(loaded), loaded.pod("wanted"), decisions).found)


def rows_of(*objects: Written) -> list[Row]:
    """Kind, text, node and cost of each cure."""
    return [(cure.kind, cure.change, cure.node, round(cure.cost, 1)) for cure in cures_of(*objects)]
