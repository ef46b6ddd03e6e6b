"""The two extension points of pod groups, which are asked once for a group and not for each pod (points.py has the others).

They need the gate TopologyAwareWorkloadScheduling. The scheduler tries the group in each placement that PlacementGenerate
gives, and takes the one with the highest score among those where enough members fit. `mooring.framework.plain_groups` has
both in the plain form: names of nodes instead of rows, one placement at a time.
"""

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from mooring.framework.group_context import PodGroupAssignments, PodGroupContext, PodGroupPlacement
from mooring.framework.points import Plugin, Scores
from mooring.framework.status import Rejection


class PlacementGeneratePlugin(Plugin):
    """A profile has at most one of them."""

    @abstractmethod
    def generate_placements(
        self, group: PodGroupContext, parent: PodGroupPlacement
    ) -> Sequence[PodGroupPlacement] | Rejection:
        """The placements to try, all within `parent`; a Rejection rejects the group. The order must not depend on chance:
        the lowest place wins ties where the seed does not decide, and the group's status tells about the first one."""


class PlacementScorePlugin(Plugin):
    needs_nodes: ClassVar[bool] = True
    """Whether a score depends on which member goes to which node. False: `node_names` may be empty. Hot: where no plugin
    needs them, the group is tried in the placement with the highest score alone, and not in all of them."""

    @abstractmethod
    def score_placements(self, group: PodGroupContext, candidates: Sequence[PodGroupAssignments]) -> Scores:
        """Any integer for each candidate, the higher the better. Must end in 0..100 after `normalize_placements`.

        The room of the members is not held meanwhile: the node table is as it was before the trial.
        """

    def normalize_placements(self, group: PodGroupContext, scores: Scores) -> Scores:
        """Bring the scores of all candidates to 0..100. Must not write to `scores`."""
        return scores

    @classmethod
    def normalizes_placements(cls) -> bool:
        return cls.normalize_placements is not PlacementScorePlugin.normalize_placements


GROUP_POINTS: dict[str, type[Plugin]] = {
    "placementGenerate": PlacementGeneratePlugin,
    "placementScore": PlacementScorePlugin,
}
"""Configuration name -> point, after those of points.POINTS in the order in which upstream builds them."""
