"""Steps before and after a single decision, without a queue and without time: gates before it, Reserve and writes after it.

Scenarios of the conformance corpus attempt pods this way, and answers place copies of pods.
"""

from mooring.cluster.cluster import Cluster
from mooring.drivers.simulated_driver import after
from mooring.framework.attempts.runner import Runner
from mooring.framework.contract.intents import Intent, Write
from mooring.framework.contract.status import Rejection, describe
from mooring.model.pod import Pod
from mooring.scheduler.decision import DecisionError, Placement


def write_through(cluster: Cluster, intent: Intent) -> None:
    """Carry out the writes of plugins at once, such as a claim that loses its devices."""
    if not isinstance(intent, Write):
        return
    key = f"{intent.namespace}/{intent.name}" if intent.namespace else intent.name
    if intent.method == "DELETE":
        cluster.remove(intent.kind, key)
    elif (old := cluster.objects.get(intent.kind, {}).get(key)) is not None:
        cluster.put(after(intent, old))


def gate_of(runner: Runner, pod: Pod) -> Rejection | DecisionError | None:
    """The first PreEnqueue rejection: why the pod may not be queued yet."""
    for plugin in runner.profile.pre_enqueues:
        try:
            rejection = plugin.pre_enqueue(pod)
            if rejection is not None:
                return rejection.by(plugin.name)
        except Exception as fault:  # a plugin may raise anything, or answer with anything
            return DecisionError(f'running PreEnqueue plugin "{plugin.name}": {describe(fault)}')
    return None


def reserve(runner: Runner, placement: Placement) -> Rejection | None:
    """Run Reserve. Where one plugin rejects, run Unreserve of all in reverse order, as upstream does."""
    plugins = runner.profile.reserves
    assert placement.context is not None, "a placement comes with its context"
    for plugin in plugins:
        try:
            rejection = plugin.reserve(placement.context, placement.node)
        except Exception as fault:  # a plugin may raise anything
            rejection = Rejection((f'running Reserve plugin "{plugin.name}": {describe(fault)}',))
        if rejection is not None:
            for other in reversed(plugins):
                other.unreserve(placement.context, placement.node)
            return rejection.by(plugin.name)
    return None
