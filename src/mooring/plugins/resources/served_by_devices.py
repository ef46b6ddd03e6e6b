"""Extended resources that devices serve, as the scores of resources count them: by devices, on nodes that have none of the
resource themselves."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from mooring.cluster.columns.kernels import Ints
from mooring.framework.contract.context import DEVICE_TOTALS, SchedulingContext
from mooring.framework.contract.points import Rows
from mooring.plugins.resources.pod_amounts import FIRST_CLASS

Totals = Callable[[str, NDArray[np.intp]], "Ints | None"]
"""The devices for a resource on rows, and those of them that are taken: 2 x rows; None: devices do not serve it."""


def served(context: SchedulingContext, names: Sequence[str]) -> list[int]:
    """The places of the resources that devices may serve. Kept scores that count devices become void when these change
    hands, so the cluster has to follow them."""
    if context.cluster.serving_classes.is_empty or context.state.find(DEVICE_TOTALS) is None:
        return []
    classes = context.cluster.serving_classes
    places = [place for place, name in enumerate(names) if name not in FIRST_CLASS and classes.get(name) is not None]
    if places:
        context.cluster.follow_devices()
    return places


def count_devices_in(
    context: SchedulingContext, names: Sequence[str], rows: Rows, allocatable: Ints, held: Ints
) -> tuple[Ints, Ints]:
    """Allocatable and held amounts, resources x rows, with devices where the node has nothing and devices serve it:

    allocatable [0 4], held [0 1], devices [2 2], taken [1 1]  ->  allocatable [2 4], held [1 1]
    """
    places = served(context, names)
    if not places or allocatable[places].all():
        return allocatable, held
    totals: Totals = context.state.read(DEVICE_TOTALS)
    asked = np.arange(context.nodes.height)[rows]
    allocatable, held = allocatable.copy(), held.copy()
    for place in places:
        found = totals(names[place], asked)
        if found is not None:
            here = (allocatable[place] == 0) & (found[0] > 0)
            allocatable[place, here], held[place, here] = found[0, here], found[1, here]
    return allocatable, held
