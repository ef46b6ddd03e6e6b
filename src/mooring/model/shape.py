"""Pod shapes: what pods of one template have in common, computed once and shared by all of them.

A *shape* is the part of a pod's template that scheduling reads, without the labels (model/label_set.py has those). Shapes
are interned, so identity is equality, and plugins' answers can be kept by shape.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping
from enum import Enum
from weakref import ref

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
from mooring.model.quantity import MAX_AMOUNT
from mooring.model.requests import (
    FILTER,
    FIT_SCORE,
    NO_STATUS,
    NON_ZERO,
    effective_requests,
    has_pod_level_requests,
    held_non_zero,
    held_requests,
    names_all,
    resize_status,
    to_exact_units,
    to_units,
    units_of,
)
from mooring.model.selectors import NodeMatcher, NodeTerm, compile_node_selector, compile_node_term

HostPort = tuple[str, str, int]
"""(ip, protocol, port), with upstream's defaults: ANY_IP and TCP."""

ANY_IP = "0.0.0.0"
"""A port on this address conflicts with the same port on every address of the node."""


def collide(one: HostPort, other: HostPort) -> bool:
    """Whether two ports cannot be on one node: the same protocol and number, and the same address or one for all."""
    return one[1:] == other[1:] and (one[0] == other[0] or ANY_IP in (one[0], other[0]))


_encode = msgspec.json.Encoder(order="deterministic").encode
declared_annotations: tuple[str, ...] = ()
"""The keys of annotations that belong to shapes, sorted."""
interned_shapes: "dict[bytes, ref[PodShape]]" = {}
"""By key. Hot: the shape takes its entry with it (`__del__`); a WeakValueDictionary took 2 µs more for each new shape."""


def add_shape_annotations(keys: Iterable[str]) -> None:
    """From now on the annotations with these keys belong to the shapes of pods. Call it before pods arrive: a shape that is
    known stays as it is. The keys stay for all schedulers of the process, because pods share shapes."""
    global declared_annotations
    declared_annotations = tuple(sorted({*declared_annotations, *keys}))


def shape_annotations_of(annotations: Mapping[str, str] | None) -> dict[str, str]:
    """The annotations of a pod that belong to its shape, sorted by key."""
    if not annotations or not declared_annotations:
        return _NO_ANNOTATIONS
    return {key: annotations[key] for key in declared_annotations if key in annotations}


_NO_ANNOTATIONS: dict[str, str] = {}


def shape_of(pod: SpecAndStatus, annotations: Mapping[str, str] | None = None) -> "PodShape":
    """The one shape of pods that agree in these fields.

    The key must hold every field that a plugin reads through the shape: a field that is missing here makes pods share
    answers that differ. Encoding the fields is faster than hashing the structs.
    """
    status = resize_status(pod.status)
    spec = pod.spec
    volumes = spec.volumes
    read_annotations = shape_annotations_of(annotations)
    key = _encode(
        (
            spec.containers,
            spec.init_containers,
            spec.ephemeral_containers,
            spec.node_selector,
            spec.affinity,
            spec.tolerations,
            spec.topology_spread_constraints,
            spec.overhead,
            spec.resources,
            spec.host_network,
            spec.host_users,
            [volume.image.reference for volume in volumes if volume.image] if volumes else (),
            volumes is not None and has_storage(spec),
            bool(spec.resource_claims),
            status,
            read_annotations,
        )
    )
    known = interned_shapes.get(key)
    shape = known() if known is not None else None
    if shape is None:
        shape = PodShape(spec, status, key, read_annotations)
        interned_shapes[key] = ref(shape)
    else:
        share(spec, shape.spec)
    return shape


def share(spec: PodSpec, other: PodSpec) -> None:
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


class PodPart(Enum):
    """A part of a shape that an answer can depend on. The values name the attributes of PodShape that belong to it."""

    __hash__ = object.__hash__  # Hot: that of Enum is a Python function, and takes four times as long

    WHOLE = ()
    TOLERATIONS = ("tolerations", "tolerance")
    NODE_SELECTION = ("node_selector", "required_nodes", "preferred_nodes", "node_affinity")
    IMAGES = ("images",)
    PORTS = ("host_ports",)
    REQUESTS = (
        *("request", "exact_request", "score_request", "held", "exact_held"),
        *("has_extended_requests", "has_resource_claims"),
    )
    SPREAD = ("spread_constraints", "spread_label_keys")
    POD_TERMS = ("terms",)
    STORAGE = ("has_storage",)
    FEATURES = ("restart_actions", "host_network", "host_users", "has_bind_mount_options")
    ANNOTATIONS = ("annotations",)


_POD_TERMS = PodPart.POD_TERMS  # Hot: a global takes a third of the time that a member of an Enum takes, 46 ns

_PartKey = tuple[PodPart, Hashable]
interned_parts: "dict[_PartKey, ref[ShapePart]]" = {}
"""By part and by what decides whether two shapes agree in it. As for `interned_shapes`, a part takes its entry with it."""


class ShapePart:
    """The common part of pods that agree in one part of their shapes. It is interned: identity is equality."""

    __slots__ = ("__weakref__", "_key", "terms")

    def __init__(self, key: "_PartKey | None" = None) -> None:
        self._key = key
        self.terms: dict[str, PodTerms] = {}
        """The compiled terms of POD_TERMS, by namespace of the pod."""

    def __del__(self, parts: "dict[_PartKey, ref[ShapePart]]" = interned_parts) -> None:
        known = parts.get(self._key) if self._key is not None else None
        if self._key is not None and known is not None and known() in (self, None):
            del parts[self._key]


_NOTHING = {part: ShapePart() for part in PodPart}
"""The objects that stand for a part in which a pod says nothing: most parts of most pods. Hot: no key has to be made for
it."""
_NO_TERMS = PodTerms()


def _part_of(key: _PartKey) -> ShapePart:
    """Return the ShapePart with this key. There is only one, so that identity is equality."""
    known = interned_parts.get(key)
    part = known() if known is not None else None
    if part is None:
        part = ShapePart(key)
        interned_parts[key] = ref(part)
    return part


class PodShape:
    """Everything that follows from a pod's template alone. Each value is computed on first use."""

    def __init__(
        self, spec: PodSpec, status: PodStatus, key: bytes = b"", annotations: Mapping[str, str] = _NO_ANNOTATIONS
    ) -> None:
        self.spec, self.status = spec, status
        self.annotations = annotations
        """The annotations that a plugin declares as a part of the shape (`Plugin.shape_annotations`)."""
        self._key = key
        self.has_storage = spec.volumes is not None and has_storage(spec)
        self.has_resource_claims = bool(spec.resource_claims)
        self._shape_parts: dict[PodPart, ShapePart] = {PodPart.WHOLE: ShapePart()}

    def __del__(self, shapes: "dict[bytes, ref[PodShape]]" = interned_shapes) -> None:
        known = shapes.get(self._key)
        if known is not None and known() in (self, None):
            del shapes[self._key]

    def work_out(self) -> None:
        """Work out what every attempt needs. Called when a pod arrives, so that its turn takes less time."""
        if len(self._shape_parts) <= len(_WRITTEN):  # all of them, and the whole
            parts = self._shape_parts
            for part, write in _WRITTEN.items():
                if part not in parts:
                    written = write(self)
                    parts[part] = _NOTHING[part] if written is None else _part_of((part, written))
            _ = self.held

    def parts(self) -> Mapping[PodPart, ShapePart]:
        """The object that stands for each part of the shape."""
        self.work_out()
        return self._shape_parts

    def part(self, part: PodPart) -> ShapePart:
        """The object that stands for this part of the shape: the same object for all shapes that agree in it."""
        found = self._shape_parts.get(part)
        if found is None:
            written = _WRITTEN[part](self)
            found = self._shape_parts[part] = _NOTHING[part] if written is None else _part_of((part, written))
        return found

    @lazy
    def request(self) -> dict[str, int]:
        """The amounts that must fit on a node, in the units of the node table."""
        spec = self.spec
        has_one = len(spec.containers) == 1 and not spec.init_containers
        if has_one and spec.resources is None and not spec.overhead and not self.has_device_resources:
            # Hot: most pods; there is nothing to add up, which takes 2 of 5 µs for a new shape
            resources = spec.containers[0].resources
            return units_of(resources.requests) if resources is not None and resources.requests else {}
        return to_units(effective_requests(self, FILTER))

    @lazy
    def exact_request(self) -> dict[str, int]:
        """Requests like `request`, but without the bound of columns. It is the same object if no amount reaches the bound."""
        is_bounded = max(self.request.values(), default=0) >= MAX_AMOUNT
        return to_exact_units(effective_requests(self, FILTER)) if is_bounded else self.request

    @lazy
    def exact_held(self) -> dict[str, int]:
        """The requested amounts that the pod takes from its node, without the bound of columns."""
        held = {name: amount for name, (amount, _) in self.held.items()}
        return to_exact_units(held_requests(self)) if max(held.values(), default=0) >= MAX_AMOUNT else held

    @lazy
    def has_extended_requests(self) -> bool:
        """Whether the pod requests more than cpu, memory and ephemeral storage: devices may have to serve it."""
        return not self.request.keys() <= {"cpu", "memory", "ephemeral-storage"}

    @lazy
    def score_request(self) -> dict[str, int]:
        """The amounts that NodeResourcesFit scores by: with defaults for missing cpu or memory, and without pod-level
        resources."""
        if not (has_pod_level_requests(self) or self.has_device_resources) and names_all(self.containers, NON_ZERO):
            return self.request  # Hot: no default counts, so the two are equal
        return to_units(effective_requests(self, FIT_SCORE))

    @property
    def has_device_resources(self) -> bool:
        """Whether devices of the pod take from the node's own resources."""
        return self.status.node_allocatable_resource_claim_statuses is not None

    @lazy
    def is_plain(self) -> bool:
        """Whether what the pod requests follows from its containers alone."""
        return self.status is NO_STATUS and not has_pod_level_requests(self)

    @lazy
    def held(self) -> dict[str, tuple[int, int]]:
        """The amounts that the pod takes from its node: (as requested, as scoring counts it), in the units of the node table.

        The two differ for cpu and memory, where scoring counts a default for containers that name none.
        """
        # Hot: without a resize under way a pod holds what it asked for, and adding that up takes 10 µs each time.
        is_plain = self.is_plain
        requested = self.request if is_plain else to_units(held_requests(self))
        scored = self.score_request if is_plain else to_units(held_non_zero(self))
        if scored is requested:
            return doubled(requested)
        names = [name for name in {**requested, **scored} if requested.get(name) or scored.get(name)]
        return {name: (requested.get(name, 0), scored.get(name, 0)) for name in names}

    @lazy
    def containers(self) -> list[Container]:
        """Init containers, then regular ones."""
        first = self.spec.init_containers
        return [*first, *self.spec.containers] if first else self.spec.containers

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
        names = [tagged(container.image) for container in self.containers]
        if self.spec.volumes:
            names += [tagged(volume.image.reference) for volume in self.spec.volumes if volume.image]
        return tuple(names)

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
        """The actions of the rules of containers for when a container exits."""
        return tuple(rule.action for c in self.containers for rule in c.restart_policy_rules or ())

    @lazy
    def has_bind_mount_options(self) -> bool:
        """Whether a container mounts a volume with options, which its kubelet must know (VolumeBindMountOptions)."""
        every = (*self.containers, *(self.spec.ephemeral_containers or ()))
        return any(mount.bind_mount_options for c in every for mount in c.volume_mounts or ())

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
        listed = enumerate(affinity.preferred)
        terms = ((int32(t.weight), compile_node_term(t.preference, f"[{i}]")) for i, t in listed if t.weight)
        return tuple((weight, term) for weight, term in terms if term is not None)

    def terms(self, namespace: str) -> PodTerms:
        """The pod affinity terms of a pod of this shape in `namespace`, which terms without namespaces mean."""
        part = self.part(_POD_TERMS)
        if part is _NOTHING[_POD_TERMS]:
            return _NO_TERMS
        kept = part.terms
        terms = kept.get(namespace)
        if terms is None:
            terms = kept[namespace] = compile_terms(self.spec.affinity, namespace)
        return terms


# ---- what decides whether two shapes agree in a part: all attributes of the part must follow from it. None: nothing is said


def _node_selection(shape: PodShape) -> Hashable:
    selector, affinity = shape.spec.node_selector, shape.spec.affinity
    node_affinity = affinity.node_affinity if affinity is not None else None
    return None if selector is None and node_affinity is None else _encode((selector, node_affinity))


def _requests(shape: PodShape) -> Hashable:
    """Where scoring counts what is requested and no resize is under way, all follows from the request. Names of claims
    are no part of the shape: pods made from one template have claims of their own."""
    request = shape.request
    if shape.has_resource_claims:
        return _encode((request, shape.score_request, shape.held, repr(shape.exact_request), "claims"))
    if shape.exact_request is not request:
        return _encode((request, shape.score_request, shape.held, repr(shape.exact_request)))
    if shape.score_request is request and (shape.is_plain or shape.held == doubled(request)):
        return _encode(request)
    return _encode((request, shape.score_request, shape.held))


def _pod_terms(shape: PodShape) -> Hashable:
    affinity = shape.spec.affinity
    if affinity is None or (affinity.pod_affinity is None and affinity.pod_anti_affinity is None):
        return None
    return _encode((affinity.pod_affinity, affinity.pod_anti_affinity))


def _ports(shape: PodShape) -> Hashable:
    for container in shape.containers:
        if container.ports:
            return shape.host_ports or None
    return None


def _features(shape: PodShape) -> Hashable:
    spec = shape.spec
    if not spec.host_network and spec.host_users is None and not shape.has_bind_mount_options:
        for container in shape.containers:
            if container.restart_policy_rules:
                break
        else:
            return None
    return shape.restart_actions, spec.host_network, spec.host_users, shape.has_bind_mount_options


_WRITTEN: dict[PodPart, Callable[[PodShape], Hashable]] = {
    PodPart.TOLERATIONS: lambda shape: _encode(shape.spec.tolerations) if shape.spec.tolerations else None,
    PodPart.NODE_SELECTION: _node_selection,
    PodPart.IMAGES: lambda shape: shape.images,
    PodPart.PORTS: _ports,
    PodPart.REQUESTS: _requests,
    PodPart.SPREAD: lambda shape: _encode(shape.spread_constraints) if shape.spec.topology_spread_constraints else None,
    PodPart.POD_TERMS: _pod_terms,
    PodPart.STORAGE: lambda shape: shape.has_storage or None,
    PodPart.FEATURES: _features,
    PodPart.ANNOTATIONS: lambda shape: tuple(shape.annotations.items()) or None,
}


def doubled(amounts: dict[str, int]) -> dict[str, tuple[int, int]]:
    """The amounts of a pod that holds what it requests, and is scored by it."""
    return {name: (amount, amount) for name, amount in amounts.items() if amount}


def tagged(image: str) -> str:
    """`nginx` -> `nginx:latest`, as nodes report images; names with a tag or digest stay."""
    return image if image.rfind(":") > image.rfind("/") else image + ":latest"
