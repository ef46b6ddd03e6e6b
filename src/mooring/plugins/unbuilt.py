"""Default plugins whose behaviour is not built yet: none at present.

One that comes stands in profiles as upstream has it (same points, same order, same weights) and does nothing there;
`concerns` tells which pods would need it, so that callers can warn of placements that may be wrong without it.
"""

from mooring.framework.points import Plugin
from mooring.model.pod import Pod


class Unbuilt(Plugin):
    """Base of what is not built yet."""

    @classmethod
    def concerns(cls, pod: Pod) -> bool:
        """Whether this pod would need the plugin, so that its placement may be wrong without it."""
        return False


UNBUILT: tuple[type[Unbuilt], ...] = ()
