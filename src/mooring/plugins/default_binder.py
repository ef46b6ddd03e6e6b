"""DefaultBinder: binds the pod to its node through the API server."""

from mooring.framework.contract.context import SchedulingContext
from mooring.framework.contract.intents import Bind
from mooring.framework.contract.points import BindPlugin


class DefaultBinder(BindPlugin):
    """Answers with an intent: the driver calls the API server and reports what became of it."""

    name = "DefaultBinder"

    def bind(self, context: SchedulingContext, node_name: str) -> Bind:
        return Bind(context.pod, node_name)
