"""The two extension points of pod groups, which are asked once for a group and not for each pod (points.py has the others).

They need the gate TopologyAwareWorkloadScheduling. The scheduler tries the group in each placement that PlacementGenerate
gives, and takes the one with the highest score among those where enough members fit. `plain.py` has both in the plain form:
names of nodes instead of rows, one placement at a time.
"""

from abc import abstractmethod
from collections.abc import Sequence

from mooring.framework.contract.group_context import PodGroupAssignments, PodGroupContext, PodGroupPlacement
from mooring.framework.contract.points import Plugin, Scores
from mooring.framework.contract.status import Rejection
from mooring.model.pod import Pod


class PlacementGeneratePlugin(Plugin):
    """Names the sets of nodes on which a pod group is tried; a profile has at most one of them."""

    @abstractmethod
    def generate_placements(
        self, group: PodGroupContext, parent: PodGroupPlacement
    ) -> Sequence[PodGroupPlacement] | Rejection:
        """The placements to try, all within `parent`; a Rejection rejects the group. The order must not depend on chance:
        the lowest place wins ties where the seed does not decide, and the group's status tells about the first one."""


class PlacementScorePlugin(Plugin):
    """Ranks the placements where enough pods of a group fit."""

    def grows_with_pods(self, pods: Sequence[Pod]) -> bool:
        """Whether a score follows from the placement and from which of these members fit there, whichever nodes they get,
        and is never lower with more of them, normalised or not. Then `node_names` may be empty.

        Hot: where this holds for all plugins, the group is tried in the placements that promise most, and not in all of
        them.
        """
        return False

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
