"""A change that others make to a cluster while a day passes: an object comes, is changed, or goes."""

from dataclasses import dataclass

from mooring.model.meta import KubeObject


@dataclass(frozen=True, slots=True)
class PlannedChange:
    """What happens to an object at a time."""

    at_ns: int
    """Since the beginning."""
    item: KubeObject
    """As it is from then on; a pod keeps the node and the status that the simulation gave it."""
    is_removal: bool = False
