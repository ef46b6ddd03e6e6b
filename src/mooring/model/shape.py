"""Pod shapes: what pods of one template have in common, computed once and shared by all of them.

A *shape* is the part of a pod's template that scheduling reads, without the labels (model/label_set.py has those). Shapes
are interned, so identity is equality, and plugins' answers can be kept by shape.
"""

from collections.abc import Callable
from enum import Enum
from weakref import WeakValueDictionary

import msgspec

from mooring.kit.lazy import lazy
from mooring.model.affinity import PodTerms, compile_terms
from mooring.model.meta import int32
from mooring.model.node import Tolerance
from mooring.model.pod_spec import (
    ALWAYS,
    Container,
    NodeAffinitySpec,
    PodSpec,
    PodStatus,
    SpecAndStatus,
    Toleration,
    TopologySpreadConstraint,
    Volume,
)
from mooring.model.requests import (
    FILTER,
    FIT_SCORE,
    NON_ZERO,
    effective_requests,
    has_pod_level_requests,
    held_non_zero,
    held_requests,
    names_all,
    to_units,
)
from mooring.model.selectors import NodeMatcher, NodeTerm, compile_node_selector, compile_node_term

HostPort = tuple[str, str, int]
"""(ip, protocol, port), with upstream's defaults: ANY_IP and TCP."""

ANY_IP = "0.0.0.0"
"""A port on this address conflicts with the same port on every address of the node."""

_encode = msgspec.json.Encoder(order="deterministic").encode
_shapes: "WeakValueDictionary[bytes, PodShape]" = WeakValueDictionary()


def shape_of(pod: SpecAndStatus) -> "PodShape":
    """The one shape of pods that agree in these fields.

    The key must hold every field that a plugin reads through the shape: a field that is missing here makes pods share
    answers that differ. Encoding the fields is faster than hashing the structs.
    """
    status = _resize_status(pod.status)
    spec = pod.spec
    key = _encode(
        (
            spec.containers,
            spec.init_containers,
            spec.node_selector,
            spec.affinity,
            spec.tolerations,
            spec.topology_spread_constraints,
            spec.overhead,
            spec.resources,
            spec.host_network,
            spec.host_users,
            [volume.image.reference for volume in spec.volumes or () if volume.image],
            has_storage(spec),
            status,
        )
    )
    shape = _shapes.get(key)
    if shape is None:
        shape = _shapes[key] = PodShape(spec, status)
    else:
        _share(spec, shape.spec)
    return shape


def _share(spec: PodSpec, other: PodSpec) -> None:
    """Let a spec refer to the equal parts of another one, so that its own are freed: more than half of what a pod takes."""
    spec.containers, spec.init_containers = other.containers, other.init_containers
    spec.node_selector, spec.affinity, spec.tolerations = other.node_selector, other.affinity, other.tolerations
    spec.topology_spread_constraints = other.topology_spread_constraints


_STORAGE_SOURCES = tuple(name for name in Volume.__struct_fields__ if name not in ("name", "image"))


def has_storage(spec: PodSpec) -> bool:
    """Whether a volume is one that volume plugins look at: a claim, or a disk that the pod names itself.

    Most pods have volumes, if only for their service account, but no such one.
    """
    return any(getattr(volume, source) is not None for volume in spec.volumes or () for source in _STORAGE_SOURCES)


_NO_STATUS = PodStatus()


def _resize_status(status: PodStatus) -> PodStatus:
    """The part of a status that changes what a pod holds: resources in force, and a resize that is pending. Everything
    else (phase, IPs, readiness) differs between pods of a template and must not be part of the shape."""
    if not status.container_statuses and not status.conditions and status.resources is None:
        return _NO_STATUS
    return PodStatus(
        conditions=[c for c in status.conditions or () if c.type == "PodResizePending"] or None,
        container_statuses=[c for c in status.container_statuses or () if c.resources] or None,
        init_container_statuses=[c for c in status.init_container_statuses or () if c.resources] or None,
        resources=status.resources,
        allocated_resources=status.allocated_resources,
    )


class PodPart(Enum):
    """A part of a shape that an answer can depend on. The values name the attributes of PodShape that belong to it."""

    __hash__ = object.__hash__  # Hot: that of Enum is a Python function, and takes four times as long

    WHOLE = ()
    TOLERATIONS = ("tolerations", "tolerance")
    NODE_SELECTION = ("node_selector", "required_nodes", "preferred_nodes", "node_affinity")
    IMAGES = ("images", "containers_count")
    PORTS = ("host_ports",)
    REQUESTS = ("request", "score_request", "held", "has_extended_requests")
    SPREAD = ("spread_constraints", "spread_label_keys")
    POD_TERMS = ("terms",)
    STORAGE = ("has_storage",)
    FEATURES = ("restart_actions", "host_network", "host_users")


class ShapePart:
    """What pods have in common that agree in one part of their shapes. It is interned: identity is equality."""

    __slots__ = ("__weakref__", "terms")

    def __init__(self) -> None:
        self.terms: dict[str, PodTerms] = {}
        """Of POD_TERMS: the compiled terms, by namespace of the pod."""


_parts: "WeakValueDictionary[tuple[PodPart, bytes], ShapePart]" = WeakValueDictionary()


class PodShape:
    """Everything that follows from a pod's template alone. Each value is computed on first use."""

    def __init__(self, spec: PodSpec, status: PodStatus) -> None:
        self.spec, self.status = spec, status
        self.has_storage = has_storage(spec)
        self._shape_parts: dict[PodPart, ShapePart] = {PodPart.WHOLE: ShapePart()}

    def work_out(self) -> None:
        """Work out what every attempt needs. Called when a pod arrives, so that its turn takes less time."""
        if len(self._shape_parts) <= len(_WRITTEN):  # all of them, and the whole
            for part in _WRITTEN:
                self.part(part)

    def part(self, part: PodPart) -> ShapePart:
        """What stands for this part of the shape: the same object for all shapes that agree in it."""
        found = self._shape_parts.get(part)
        if found is None:
            key = part, _encode(_WRITTEN[part](self))
            found = _parts.get(key)
            if found is None:
                found = _parts[key] = ShapePart()
            self._shape_parts[part] = found
        return found

    @lazy
    def request(self) -> dict[str, int]:
        """What must fit on a node, in the units of the node table."""
        return to_units(effective_requests(self, FILTER))

    @lazy
    def has_extended_requests(self) -> bool:
        """Whether the pod requests more than cpu, memory and ephemeral storage: devices may have to serve it."""
        return any(name not in ("cpu", "memory", "ephemeral-storage") for name in self.request)

    @lazy
    def score_request(self) -> dict[str, int]:
        """What NodeResourcesFit scores by: with defaults for missing cpu or memory, and without pod-level resources."""
        if names_all(self.containers, NON_ZERO) and not has_pod_level_requests(self):
            return self.request  # Hot: no default counts, so the two are equal
        return to_units(effective_requests(self, FIT_SCORE))

    @lazy
    def held(self) -> dict[str, tuple[int, int]]:
        """What the pod takes from its node: (as requested, as scoring counts it), in the units of the node table.

        The two differ for cpu and memory, where scoring counts a default for containers that name none.
        """
        # Hot: without a resize under way a pod holds what it asked for, and adding that up takes 10 µs each time.
        is_plain = self.status is _NO_STATUS and not has_pod_level_requests(self)
        requested = self.request if is_plain else to_units(held_requests(self))
        scored = self.score_request if is_plain else to_units(held_non_zero(self))
        if scored is requested:
            return {name: (amount, amount) for name, amount in requested.items() if amount}
        names = [name for name in {**requested, **scored} if requested.get(name) or scored.get(name)]
        return {name: (requested.get(name, 0), scored.get(name, 0)) for name in names}

    @lazy
    def containers(self) -> list[Container]:
        """Init containers, then regular ones."""
        return [*(self.spec.init_containers or ()), *self.spec.containers]

    @lazy
    def host_ports(self) -> tuple[HostPort, ...]:
        """Ports of the node that the pod occupies. Parity: ports of init containers count only for sidecars."""
        sidecars = [c for c in self.spec.init_containers or () if c.restart_policy == ALWAYS]
        return tuple(
            (port.host_ip or ANY_IP, port.protocol or "TCP", int32(port.host_port))
            for container in [*sidecars, *self.spec.containers]
            for port in container.ports or ()
            if port.host_port > 0
        )

    @lazy
    def images(self) -> tuple[str, ...]:
        """Image names with their tags, one for each container and image volume: ImageLocality counts each."""
        volumes = (volume.image.reference for volume in self.spec.volumes or () if volume.image)
        return tuple(tagged(name) for name in (*(c.image for c in self.containers), *volumes))

    @lazy
    def tolerations(self) -> tuple[Toleration, ...]:
        return tuple(self.spec.tolerations or ())

    @lazy
    def tolerance(self) -> Tolerance:
        """The tolerations as a set to look taints up in."""
        return Tolerance(self.tolerations)

    @lazy
    def spread_constraints(self) -> tuple[TopologySpreadConstraint, ...]:
        return tuple(self.spec.topology_spread_constraints or ())

    @lazy
    def spread_label_keys(self) -> tuple[str, ...]:
        """The labels of the pod itself that its spread constraints read (matchLabelKeys), constraint by constraint."""
        return tuple(key for constraint in self.spread_constraints for key in constraint.match_label_keys or ())

    @lazy
    def restart_actions(self) -> tuple[str, ...]:
        """What the rules of containers do when a container exits."""
        return tuple(rule.action for c in self.containers for rule in c.restart_policy_rules or ())

    @property
    def host_network(self) -> bool:
        return self.spec.host_network

    @property
    def host_users(self) -> bool | None:
        return self.spec.host_users

    @property
    def node_selector(self) -> dict[str, str] | None:
        return self.spec.node_selector

    @lazy
    def node_affinity(self) -> NodeAffinitySpec | None:
        return self.spec.affinity.node_affinity if self.spec.affinity else None

    @lazy
    def containers_count(self) -> int:
        return len(self.containers)

    @lazy
    def required_nodes(self) -> NodeMatcher | None:
        """The required node affinity; None where there is none."""
        affinity = self.node_affinity
        if affinity is None or affinity.required is None:
            return None
        return compile_node_selector(affinity.required)

    @lazy
    def preferred_nodes(self) -> tuple[tuple[int, NodeTerm], ...] | None:
        """Preferred node affinity as (weight, term); None where the list is absent. Terms of weight 0 are dropped."""
        affinity = self.node_affinity
        if affinity is None or affinity.preferred is None:
            return None
        terms = ((int32(t.weight), compile_node_term(t.preference)) for t in affinity.preferred if t.weight)
        return tuple((weight, term) for weight, term in terms if term is not None)

    def terms(self, namespace: str) -> PodTerms:
        """The pod affinity terms of a pod of this shape in `namespace`, which terms without namespaces mean."""
        kept = self.part(PodPart.POD_TERMS).terms
        terms = kept.get(namespace)
        if terms is None:
            terms = kept[namespace] = compile_terms(self.spec.affinity, namespace)
        return terms

    def _pod_affinity(self) -> object:
        affinity = self.spec.affinity
        return (affinity.pod_affinity, affinity.pod_anti_affinity) if affinity else (None, None)


_WRITTEN: dict[PodPart, Callable[[PodShape], object]] = {
    PodPart.TOLERATIONS: lambda shape: shape.spec.tolerations,
    PodPart.NODE_SELECTION: lambda shape: (shape.node_selector, shape.node_affinity),
    PodPart.IMAGES: lambda shape: (shape.images, shape.containers_count),
    PodPart.PORTS: lambda shape: shape.host_ports,
    PodPart.REQUESTS: lambda shape: (shape.request, shape.score_request, shape.held),
    PodPart.SPREAD: lambda shape: shape.spread_constraints,
    PodPart.POD_TERMS: lambda shape: shape._pod_affinity(),
    PodPart.STORAGE: lambda shape: shape.has_storage,
    PodPart.FEATURES: lambda shape: (shape.restart_actions, shape.host_network, shape.host_users),
}
"""What decides whether two shapes agree in a part: all attributes of the part must follow from it."""


def tagged(image: str) -> str:
    """`nginx` -> `nginx:latest`, as nodes report images; names with a tag or digest stay."""
    return image if image.rfind(":") > image.rfind("/") else image + ":latest"
