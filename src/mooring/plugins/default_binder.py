"""DefaultBinder: binds the pod to its node through the API server."""

from mooring.framework.context import SchedulingContext
from mooring.framework.intents import Bind
from mooring.framework.points import BindPlugin


class DefaultBinder(BindPlugin):
    name = "DefaultBinder"

    def bind(self, context: SchedulingContext, node_name: str) -> Bind:
        return Bind(context.pod, node_name)
