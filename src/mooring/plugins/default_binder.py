"""DefaultBinder: binds the pod to its node through the API server."""

from mooring.framework.cycle import Cycle
from mooring.framework.intents import Bind
from mooring.framework.points import BindPlugin


class DefaultBinder(BindPlugin):
    name = "DefaultBinder"

    def bind(self, cycle: Cycle, node_name: str) -> Bind:
        return Bind(cycle.pod, node_name)
