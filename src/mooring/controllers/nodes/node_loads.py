"""What the pods that a kubelet has admitted take from its node: requests, host ports, and how many they are."""

from collections import Counter
from dataclasses import dataclass, field

import msgspec

from mooring.apiserver.store import Key, StoreWrite
from mooring.model.json_objects import JsonObject
from mooring.model.pod import Pod
from mooring.model.pod_spec import FINISHED_PHASES, PodSpec
from mooring.model.shape import ANY_IP, HostPort, PodShape, shape_of

_KEPT = 1024
"""Templates whose shapes are kept. Pods of one template share the lists in their specs, so few are needed."""

_PARTS = ("containers", "initContainers", "nodeSelector", "affinity", "tolerations", "overhead", "resources")


@dataclass(slots=True)
class NodeLoad:
    """What is taken from one node."""

    pods: int = 0
    requested: Counter[str] = field(default_factory=Counter)
    """In the units of the scheduler: cpu in milli, all else whole."""
    ports: Counter[HostPort] = field(default_factory=Counter)

    def add(self, shape: PodShape, times: int) -> None:
        self.pods += times
        for name, amount in shape.request.items():
            self.requested[name] += times * amount
        for port in shape.host_ports:
            self.ports[port] += times
            if not self.ports[port]:
                del self.ports[port]

    def has_port(self, wanted: HostPort) -> bool:
        """Whether someone has it: an address that stands for all of them meets every other."""
        address, *place = wanted
        return any(other == place and (held == address or ANY_IP in (held, address)) for held, *other in self.ports)


class NodeLoads:
    """The loads of all nodes. It must hear every write of a pod."""

    def __init__(self) -> None:
        self._loads: dict[str, NodeLoad] = {}
        self._admitted: dict[Key, tuple[str, PodShape]] = {}
        self._shapes: dict[int, tuple[tuple[object, ...], PodShape]] = {}

    def of(self, node: str) -> NodeLoad:
        return self._loads.get(node) or NodeLoad()

    def hear(self, write: StoreWrite) -> None:
        """Hot: most writes change neither whether a pod is admitted nor its spec."""
        held = self._admitted.get(write.key)
        if write.type == "DELETED" or not is_admitted(write.object):
            if held is not None:
                self._release(write.key, *held)
        elif held is None or write.before is None or write.before["spec"] is not write.object["spec"]:
            if held is not None:
                self._release(write.key, *held)
            node, shape = write.object["spec"]["nodeName"], self.shape(write.object["spec"])
            self._admitted[write.key] = node, shape
            self._loads.setdefault(node, NodeLoad()).add(shape, 1)

    def shape(self, spec: JsonObject) -> PodShape:
        """What a spec asks for. Kept by the very objects in it, which are kept with it, so their ids stay theirs."""
        parts = tuple(spec.get(part) for part in _PARTS)
        kept = self._shapes.get(id(parts[0]))
        if kept is not None and all(a is b for a, b in zip(kept[0], parts, strict=True)):
            return kept[1]
        shape = shape_of(Pod(spec=msgspec.convert(spec, PodSpec)))
        if len(self._shapes) >= _KEPT:
            del self._shapes[next(iter(self._shapes))]
        self._shapes[id(parts[0])] = parts, shape
        return shape

    def _release(self, key: Key, node: str, shape: PodShape) -> None:
        del self._admitted[key]
        load = self._loads[node]
        load.add(shape, -1)
        if not load.pods:
            del self._loads[node]


def is_admitted(pod: JsonObject) -> bool:
    """Whether a kubelet has taken the pod and it is not over: only then does its status have a start."""
    status = pod.get("status", {})
    return bool("startTime" in status and status.get("phase") not in FINISHED_PHASES and pod["spec"].get("nodeName"))
