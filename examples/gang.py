"""A gang: pods that start together or not at all, held together by Permit.

Pods of a gang carry the labels `gang: <name>` and `gang-size: <how many>`. Each is held after its node was chosen until
all of them have one. If that takes too long, none of them keeps its room: when the first one is refused, so are all.

    mooring simulate examples/gang.yaml --plugin examples/gang.py --config examples/gang-config.yaml

Arguments (pluginConfig): `timeoutSeconds`, 30 by default.
"""

from typing import Any

from mooring.plugin import (
    NODE,
    POD,
    Action,
    Change,
    ClusterEvent,
    Handle,
    LabelSelector,
    PermitPlugin,
    Pod,
    PodPredicate,
    Registration,
    Rejection,
    ReservePlugin,
    SchedulingContext,
    Wait,
    compile_selector,
)

NEW_ROOM = Action.ADD | Action.UPDATE_NODE_ALLOCATABLE | Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_TAINT


class Gang(ReservePlugin, PermitPlugin):
    name = "Gang"

    def __init__(self, args: Any, handle: Handle) -> None:
        self._services = handle.services
        self._timeout_s = float((args or {}).get("timeoutSeconds", 30))
        self._met: dict[tuple[str, str], dict[str, Pod]] = {}
        """Gang -> the members that had a node at some time, by id; gangs that are complete are forgotten."""

    def permit(self, context: SchedulingContext, node_name: str) -> Rejection | Wait | None:
        pod = context.pod
        gang = _gang_of(pod)
        if gang is None:
            return None
        if _members_on_nodes(context) < int(pod.labels.get("gang-size", "1")):
            self._meet(gang, pod)
            return Wait(self._timeout_s)
        self._met.pop(gang, None)
        for waiting in self._services.waiting:
            if _gang_of(waiting.pod) == gang:
                waiting.allow(self.name)
        return None

    def _meet(self, gang: tuple[str, str], pod: Pod) -> None:
        """A member that comes for the first time gives those another chance that gave up before it came."""
        met = self._met.setdefault(gang, {})
        if pod.id not in met:
            self._services.activate([other for other in met.values() if self._services.waiting.get(other.id) is None])
            met[pod.id] = pod

    def reserve(self, context: SchedulingContext, node_name: str) -> None:
        return None

    def unreserve(self, context: SchedulingContext, node_name: str) -> None:
        """One of the gang goes back: nobody need wait for it any longer."""
        gang = _gang_of(context.pod)
        for waiting in self._services.waiting:
            if gang is not None and _gang_of(waiting.pod) == gang and waiting.pod.id != context.pod.id:
                waiting.reject(self.name, f"gang {gang[1]} is not complete: {context.pod.name} went back")

    def events(self) -> list[Registration]:
        """A gang that was refused may have room when others leave, or when there are more nodes."""
        return [
            Registration(ClusterEvent(POD, Action.DELETE), _is_of_others),
            Registration(ClusterEvent(NODE, NEW_ROOM)),
        ]


def _is_of_others(pod: Pod, change: Change) -> bool:
    """The room that the gang itself gave back helps nobody in it: they would take turns in waiting, for ever."""
    return not isinstance(change.old, Pod) or _gang_of(change.old) != _gang_of(pod)


def _gang_of(pod: Pod) -> tuple[str, str] | None:
    """Namespace and name of the gang that the pod is in."""
    name = pod.labels.get("gang")
    return None if name is None else (pod.namespace, name)


def _members_on_nodes(context: SchedulingContext) -> int:
    """Members that have a node, bound or only assumed; this one included."""
    selector = compile_selector(LabelSelector(match_labels={"gang": context.pod.labels["gang"]}))
    predicate = PodPredicate(selector, frozenset((context.pod.namespace,)))
    return context.nodes.tallies.matching((predicate,), with_terminating=False).total
