"""A gang: pods that start together or not at all, held together by Permit.

Pods of a gang carry the labels `gang: <name>` and `gang-size: <how many>`. Each is held after its node was chosen until
all of them have one. If that takes too long, none of them keeps its room: when the first one is refused, so are all.

    mooring simulate examples/gang.yaml --plugin examples/gang.py --config examples/gang-config.yaml

Arguments (pluginConfig): `timeoutSeconds`, 30 by default.
"""

from typing import Any

from mooring.framework.cycle import Cycle
from mooring.framework.events import NODE, POD, Action, ClusterEvent, Registration
from mooring.framework.points import Handle, PermitPlugin, ReservePlugin, Wait
from mooring.framework.status import Rejection
from mooring.model.affinity import PodPredicate
from mooring.model.meta import LabelSelector
from mooring.model.pod import Pod
from mooring.model.selectors import compile_selector


class Gang(ReservePlugin, PermitPlugin):
    name = "Gang"

    def __init__(self, args: Any, handle: Handle) -> None:
        self._waiting = handle.desk.waiting
        self._timeout_s = float((args or {}).get("timeoutSeconds", 30))

    def permit(self, cycle: Cycle, node_name: str) -> Rejection | Wait | None:
        pod = cycle.pod
        if "gang" not in pod.labels:
            return None
        size = int(pod.labels.get("gang-size", "1"))
        if _members_on_nodes(cycle) < size:
            return Wait(self._timeout_s)
        for waiting in self._waiting:
            if _same_gang(waiting.pod, pod):
                waiting.allow(self.name)
        return None

    def reserve(self, cycle: Cycle, node_name: str) -> None:
        return None

    def unreserve(self, cycle: Cycle, node_name: str) -> None:
        """One of the gang goes back: nobody need wait for it any longer."""
        for waiting in self._waiting:
            if _same_gang(waiting.pod, cycle.pod) and waiting.pod.id != cycle.pod.id:
                waiting.reject(self.name, f"gang {cycle.pod.labels['gang']} was not complete in time")

    def events(self) -> list[Registration]:
        """A gang that was refused may have room when pods leave or nodes come."""
        return [Registration(ClusterEvent(POD, Action.DELETE)), Registration(ClusterEvent(NODE, Action.ADD))]


def _same_gang(pod: Pod, other: Pod) -> bool:
    mine = (pod.namespace, pod.labels.get("gang"))
    return mine[1] is not None and mine == (other.namespace, other.labels.get("gang"))


def _members_on_nodes(cycle: Cycle) -> int:
    """Members that have a node, bound or only assumed; this one included."""
    selector = compile_selector(LabelSelector(match_labels={"gang": cycle.pod.labels["gang"]}))
    predicate = PodPredicate(selector, frozenset((cycle.pod.namespace,)))
    return cycle.nodes.tallies.matching((predicate,), with_terminating=False).total
