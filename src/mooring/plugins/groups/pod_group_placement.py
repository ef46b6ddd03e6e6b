"""TopologyPlacementGenerator and PodGroupPodsCount: plugins that profiles may list, for the placement of pod groups.

Later: they do nothing yet. Pods of a group are placed together (GangScheduling), but not within one topology domain.
"""

from mooring.framework.points import Plugin


class TopologyPlacementGenerator(Plugin):
    """Accepted in profiles, so that upstream's configurations load."""

    name = "TopologyPlacementGenerator"

    def events(self) -> tuple[()]:
        """It rejects no pod, so no event can help one."""
        return ()


class PodGroupPodsCount(Plugin):
    """Accepted in profiles, as above."""

    name = "PodGroupPodsCount"

    def events(self) -> tuple[()]:
        return ()
