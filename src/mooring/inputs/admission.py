"""Defaulting and admission for the objects of manifests, as far as they change where pods go.

A simulation reads manifests that no API server has seen; this module does what an API server would do, by the rules in
`rules/`. An object that an API server has admitted (from `kubectl get -o json`) stays exactly as it is.

Admitted pods of a dump that have the spec of one template are read faster: the spec is decoded and checked once for all
of them. The text of a spec without the name of the node says which pods have the same spec. Only pods that an API
server has admitted are read so, because nothing changes their specs afterwards.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from mooring.api.json_objects import JsonObject
from mooring.api.kind_spec import KindSpec
from mooring.api.kinds import KINDS
from mooring.api.kinds.nodes import complete_limit_item
from mooring.api.kinds.pods import POD
from mooring.api.kinds.scheduling import POD_GROUP
from mooring.api.validation.problem import Problem, at_key, show
from mooring.inputs.documents import Document
from mooring.inputs.field_checks import check_fields
from mooring.model.devices import EXACT_COUNT, ResourceClaim, ResourceClaimSpec, ResourceClaimTemplate
from mooring.model.meta import KubeObject, ObjectMeta
from mooring.model.node import Node
from mooring.model.pod import Pod, SharedSpec
from mooring.model.pod_spec import PodClaimStatus, PodSpec, PodStatus
from mooring.model.quantity import round_up
from mooring.model.storage import IMMEDIATE, PersistentVolume, PersistentVolumeClaim, StorageClass
from mooring.model.workloads import (
    PREEMPT_LOWER_PRIORITY,
    SYSTEM_PRIORITIES,
    AnyPodGroup,
    LimitRange,
    Namespace,
    PodGroup,
    PriorityClass,
    RuntimeClass,
    Workload,
)
from mooring.rules.claims_and_volumes import (
    GROUP_CLAIMS_GATE,
    default_storage_class,
    device_claim_for,
    is_claim_of,
    templates_waited_for,
    volume_claim_for,
)
from mooring.rules.pod_admission import (
    TOLERATION_OPERATORS,
    add_limits,
    add_runtime,
    add_tolerations,
    drop_disabled_fields,
    gated_operators,
    global_default,
    limit_faults,
    merge_label_keys,
    merges_spread_keys,
    overhead_fault,
    overhead_of,
    priority_of,
    selector_conflicts,
)
from mooring.rules.pod_defaults import complete_pod, complete_whole

# ---- The claims that controllers would create for the pods and pod groups of manifests.
#
# Names are those that a server would generate, without random characters, so that two runs have the same names. The
# rules are those of the embedded cluster's controllers (`rules/claims_and_volumes.py`).


@dataclass(frozen=True, slots=True)
class ClaimSources:
    """The objects that decide which claims a pod gets."""

    templates: Mapping[str, ResourceClaimTemplate]
    """By key."""
    groups: Mapping[str, PodGroup] = field(default_factory=dict)
    """By key: the groups that may have claims of their own; none without the gate DRAWorkloadResourceClaims."""

    @classmethod
    def of(cls, objects: Iterable[KubeObject], gates: Mapping[str, bool] | None) -> "ClaimSources":
        """The templates and groups of a cluster with these objects and feature gates."""
        held = list(objects)
        has_groups = (gates or {}).get(GROUP_CLAIMS_GATE, False)
        return cls(
            {item.key: item for item in held if isinstance(item, ResourceClaimTemplate)},
            {item.key: item for item in held if has_groups and isinstance(item, PodGroup)},
        )


def claims_for(pod: Pod, sources: ClaimSources) -> list[KubeObject]:
    """The claims for a pod that has none yet. Sets the pod's status to name its resource claims and those of its group."""
    if not (pod.spec.resource_claims or any(volume.ephemeral for volume in pod.spec.volumes or ())):
        return []
    plain = msgspec.to_builtins(pod)
    own, made = _device_claims(plain, _named_of_group(pod, plain, sources), sources.templates, POD)
    if made:
        named = [PodClaimStatus(name=entry, resource_claim_name=name) for entry, name in made]
        pod.status.resource_claim_statuses = [*(pod.status.resource_claim_statuses or ()), *named]
    return [*_volume_claims(plain), *own]


def group_claims_for(group: PodGroup, sources: ClaimSources) -> list[ResourceClaim]:
    """The claims for a group that has none yet; none without the gate. Sets the group's status to name them."""
    if group.key not in sources.groups or not group.spec.resource_claims:
        return []
    claims, made = _device_claims(msgspec.to_builtins(group), {}, sources.templates, POD_GROUP)
    if made:
        named = [PodClaimStatus(name=entry, resource_claim_name=name) for entry, name in made]
        group.status.resource_claim_statuses = [*(group.status.resource_claim_statuses or ()), *named]
    return claims


def _named_of_group(pod: Pod, plain: JsonObject, sources: ClaimSources) -> dict[str, str | None]:
    """The entries of the pod that are those of its group, with the claim of the group; None: the group has none yet."""
    group = sources.groups.get(pod.group_key or "")
    if group is None:
        return {}
    written = msgspec.to_builtins(group)
    made = {each.name: each.resource_claim_name for each in group.status.resource_claim_statuses or ()}
    entries = (entry.name for entry in pod.spec.resource_claims or ())
    return {entry: made.get(entry) for entry in entries if is_claim_of(written, plain, entry)}


def _volume_claims(pod: JsonObject) -> Iterator[PersistentVolumeClaim]:
    for volume in pod["spec"].get("volumes", ()):
        if "ephemeral" in volume:
            claim = msgspec.convert(volume_claim_for(pod, volume), PersistentVolumeClaim)
            claim.metadata.namespace = pod["metadata"]["namespace"]
            yield claim


def _device_claims(
    holder: JsonObject,
    of_group: Mapping[str, str | None],
    templates: Mapping[str, ResourceClaimTemplate],
    kind: KindSpec,
) -> tuple[list[ResourceClaim], list[tuple[str, str]]]:
    """The claims of a pod or a group, and (entry, claim) for its status. Those of its group are only named."""
    claims: list[ResourceClaim] = []
    named: list[tuple[str, str]] = []
    for entry, wanted in templates_waited_for(holder).items():
        template = templates.get(f"{holder['metadata']['namespace']}/{wanted}")
        shared = of_group.get(entry)
        if shared is not None:
            named.append((entry, shared))
        elif template is not None and entry not in of_group:
            claim = _from_template(holder, entry, template, kind)
            claims.append(claim)
            named.append((entry, claim.name))
    return claims, named


def _from_template(holder: JsonObject, entry: str, template: ResourceClaimTemplate, kind: KindSpec) -> ResourceClaim:
    """Its name is the generateName without random characters."""
    claim = msgspec.convert(device_claim_for(holder, entry, msgspec.to_builtins(template), kind), ResourceClaim)
    meta = claim.metadata
    meta.namespace, meta.name = holder["metadata"]["namespace"], (meta.generate_name or "").rstrip("-")
    meta.generate_name = None
    return claim


DEFAULT_NAMESPACE = "default"
_NAMESPACE_LABEL = "kubernetes.io/metadata.name"
_KEPT = 64
"""How many pod templates are remembered. Pods of one template mostly follow each other, or those of a few alternate."""


def missing_namespaces(objects: Sequence[KubeObject], cluster: Sequence[KubeObject] = ()) -> list[Namespace]:
    """The namespaces of pods for which there is no manifest, and none in the cluster."""
    there = {admitted.name for admitted in (*cluster, *objects) if isinstance(admitted, Namespace)}
    used = {pod.namespace: None for pod in objects if isinstance(pod, Pod) and pod.namespace not in there}
    return [Namespace(metadata=ObjectMeta(name=name, labels={_NAMESPACE_LABEL: name})) for name in used]


def was_admitted(checked: KubeObject) -> bool:
    """Whether an API server has admitted this object: only an API server sets both uid and resourceVersion."""
    return bool(checked.metadata.uid and checked.metadata.resource_version)


@dataclass(slots=True)
class Admission:
    """The objects of a cluster that change other objects at admission: classes, limits, defaults."""

    priority_classes: Mapping[str, JsonObject]
    global_default: JsonObject | None
    limits: Mapping[str, Sequence[JsonObject]]
    """By namespace: the items of its LimitRanges."""
    runtime_classes: Mapping[str, JsonObject]
    default_storage_class: str
    generated: Counter[str]
    """How many names were generated from each generateName."""
    gates: Mapping[str, bool]
    """The feature gates of the cluster. One that is not named has its default."""
    _templates: dict[bytes, tuple[JsonObject, list[Problem]]] = field(default_factory=dict)
    """Encoded template -> its admitted spec, and its problems. The oldest is dropped first."""

    @classmethod
    def of(cls, objects: Sequence[KubeObject], gates: Mapping[str, bool] | None = None) -> "Admission":
        """The admission of a cluster with these objects and feature gates."""
        held = [item for item in objects if not isinstance(item, Pod)]  # Hot: of 200,000 objects, nearly all are pods
        classes = _by_name(held, PriorityClass)
        return cls(
            classes,
            global_default(classes.values()),
            _limit_items(held),
            _by_name(held, RuntimeClass),
            default_storage_class(_by_name(held, StorageClass).values()),
            Counter(),
            gates or {},
        )

    def admit(self, admitted: KubeObject) -> list[Problem]:
        """Change the object as the API server would; return what it would refuse."""
        if was_admitted(admitted):
            return []
        self._name(admitted)
        match admitted:
            case Pod():
                return self._admit_pod(admitted)
            case Node():
                _complete_node(admitted)
            case Namespace():
                admitted.metadata.labels = {**admitted.labels, _NAMESPACE_LABEL: admitted.name}
            case PersistentVolume():
                # The API server sets Pending; the volume controller would change it to Available at once.
                admitted.status.phase = admitted.status.phase or "Available"
            case PersistentVolumeClaim():
                self._admit_claim(admitted)
            case StorageClass():
                admitted.volume_binding_mode = admitted.volume_binding_mode or IMMEDIATE
            case PriorityClass():
                admitted.preemption_policy = admitted.preemption_policy or PREEMPT_LOWER_PRIORITY
            case ResourceClaim():
                _complete_requests(admitted.spec)
            case ResourceClaimTemplate():
                _complete_requests(admitted.spec.spec)
            case AnyPodGroup():
                return self._admit_group(admitted)
        return []

    def _name(self, admitted: KubeObject) -> None:
        """Set namespace, name and uid. Generated names end in a number instead of random characters, so that two runs have
        the same names; the key is the uid."""
        meta = admitted.metadata
        kind = type(admitted).__name__
        if isinstance(admitted, Workload) or (kind in KINDS and KINDS[kind].namespaced):
            meta.namespace = meta.namespace or DEFAULT_NAMESPACE
        else:
            meta.namespace = ""
        if not meta.name and meta.generate_name:
            stem = f"{kind} {meta.namespace}/{meta.generate_name}"
            meta.name = f"{meta.generate_name}{self.generated[stem]}"
            self.generated[stem] += 1
        meta.uid = meta.uid or admitted.key

    def _admit_pod(self, pod: Pod) -> list[Problem]:
        """Hot: pods of one template are admitted once. Otherwise half of the time would be conversion to JSON and back."""
        pod.status.phase = pod.status.phase or "Pending"
        labels = pod.metadata.labels
        template = msgspec.json.encode((pod.namespace, labels, pod.spec))
        admitted = self._templates.get(template)
        if admitted is None:
            admitted = self._admit_template(
                pod.namespace, {"metadata": {"labels": labels}, "spec": msgspec.to_builtins(pod.spec)}
            )
            if len(self._templates) >= _KEPT:
                del self._templates[next(iter(self._templates))]
            self._templates[template] = admitted
        spec, problems = admitted
        pod.spec = msgspec.convert(spec, PodSpec)
        return problems

    def _admit_template(self, namespace: str, pod: JsonObject) -> tuple[JsonObject, list[Problem]]:
        """The admitted spec of a pod, and its problems. The order is that of kube-apiserver's admission plugins."""
        complete_pod(pod)
        spec: JsonObject = pod["spec"]
        drop_disabled_fields(spec, self.gates)
        problems = self._gated(spec)
        problems += self._add_limits(spec, namespace)
        problems += self._set_priority(spec)
        add_tolerations(spec)
        problems += self._add_runtime(spec)
        complete_whole(spec)
        merge_label_keys(pod, merges_spread_keys(self.gates))
        return spec, problems

    def _gated(self, spec: JsonObject) -> list[Problem]:
        """Problems of fields that a cluster with these gates does not admit."""
        allowed = ", ".join(TOLERATION_OPERATORS)
        return [
            Problem(f"spec.{path}", show(operator), allowed) for path, operator in gated_operators(spec, self.gates)
        ]

    def _add_limits(self, spec: JsonObject, namespace: str) -> list[Problem]:
        items = self.limits.get(namespace, ())
        for item in items:
            for _ in add_limits(spec, item):
                pass  # an API server writes it into an annotation, which a simulation does not need
        faults = (fault for item in items for fault in limit_faults(spec, item))
        return [Problem("spec.containers", f"{fault}, as a LimitRange of {namespace} says") for fault in faults]

    def _set_priority(self, spec: JsonObject) -> list[Problem]:
        """Set priority and preemption policy from the class.

        A pod that names no class may have a priority of its own. An API server would refuse that, but it is useful in a
        simulation, and its meaning is clear.
        """
        wanted, own, policy = spec.get("priorityClassName", ""), spec.get("priority"), spec.get("preemptionPolicy")
        given = priority_of(wanted, self.priority_classes.get(wanted), self.global_default)
        if given is None or not (wanted or (given.class_name and own is None)):
            spec["priority"], spec["preemptionPolicy"] = own or 0, policy or PREEMPT_LOWER_PRIORITY
            known = ", ".join(sorted({*self.priority_classes, *SYSTEM_PRIORITIES}))
            unknown = [Problem("spec.priorityClassName", show(wanted), f"a known class: {known}")]
            return unknown if given is None and own is None else []
        problems = []
        if own not in (None, given.value):
            allowed = f"{given.value}, the value of PriorityClass {given.class_name}"
            problems.append(Problem("spec.priority", show(own), allowed))
        if policy not in (None, given.policy):
            allowed = f"{given.policy}, the policy of PriorityClass {given.class_name}"
            problems.append(Problem("spec.preemptionPolicy", show(policy), allowed))
        spec["priorityClassName"], spec["priority"], spec["preemptionPolicy"] = given
        return problems

    def _admit_group(self, group: AnyPodGroup) -> list[Problem]:
        """Set the priority of a group from its class, and with the gate PodGroupPreemptionPolicy its preemption policy."""
        own, has_policy = group.spec, self.gates.get("PodGroupPreemptionPolicy", False)
        spec: JsonObject = {"priorityClassName": own.priority_class_name or "", "priority": own.priority}
        spec |= {"preemptionPolicy": own.preemption_policy} if has_policy else {}
        problems = self._set_priority(spec)
        policy = spec["preemptionPolicy"] if has_policy else own.preemption_policy
        name = spec["priorityClassName"] or None
        group.spec = msgspec.structs.replace(
            own, priority=spec["priority"], preemption_policy=policy, priority_class_name=name
        )
        return problems

    def _add_runtime(self, spec: JsonObject) -> list[Problem]:
        """Add overhead and node selector of the RuntimeClass; a class that is not in the input adds nothing."""
        name = spec.get("runtimeClassName", "")
        given = self.runtime_classes.get(name)
        if given is None:
            return []
        problems = [
            Problem(at_key("spec.nodeSelector", key), show(own), f"{value}, as RuntimeClass {name} has it")
            for key, value, own in selector_conflicts(spec, given)
        ]
        if overhead_fault(spec.get("overhead") or {}, overhead_of(given)):
            problems.append(Problem("spec.overhead", show(spec["overhead"]), f"that of RuntimeClass {name}"))
        add_runtime(spec, given)
        return problems

    def _admit_claim(self, claim: PersistentVolumeClaim) -> None:
        claim.status.phase = claim.status.phase or "Pending"
        if claim.spec.storage_class_name is None and not claim.class_name and self.default_storage_class:
            claim.spec.storage_class_name = self.default_storage_class


def _by_name(objects: Iterable[KubeObject], kind: type[KubeObject]) -> dict[str, JsonObject]:
    return {held.name: msgspec.to_builtins(held) for held in objects if isinstance(held, kind)}


def _limit_items(objects: Iterable[KubeObject]) -> dict[str, list[JsonObject]]:
    """The items of LimitRanges by namespace, sorted by name: the first item with a default for a resource wins."""
    found: dict[str, list[JsonObject]] = {}
    for written in sorted((o for o in objects if isinstance(o, LimitRange)), key=lambda o: o.name):
        items: list[JsonObject] = msgspec.to_builtins(written.spec.limits or [])
        for item in items:
            complete_limit_item(item)
        found.setdefault(written.namespace or DEFAULT_NAMESPACE, []).extend(items)
    return found


def _complete_node(node: Node) -> None:
    if node.status.allocatable is None and node.status.capacity is not None:
        node.status.allocatable = dict(node.status.capacity)
    round_up(node.status.capacity)
    round_up(node.status.allocatable)


def _complete_requests(spec: ResourceClaimSpec) -> None:
    for request in spec.devices.requests or ():
        for asked in ((request.exactly,) if request.exactly else ()) + tuple(request.first_available or ()):
            asked.allocation_mode = asked.allocation_mode or EXACT_COUNT
            if asked.allocation_mode == EXACT_COUNT:
                asked.count = asked.count or 1


_MOST_TEXT = 16 << 20
"""How many bytes of specs are remembered. The pods of a DaemonSet have specs of their own."""
_NODE_NAME = re.compile(rb'"nodeName"\s*:\s*"([-.0-9A-Za-z]+)"')
_ANOTHER = b"another.node"
"""A name in place of that of the node, to see that the text names the node there and nowhere else."""


class _Parts(msgspec.Struct, gc=False):
    """A pod of which the spec is still text."""

    spec: msgspec.Raw
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    status: PodStatus = msgspec.field(default_factory=PodStatus)


_parts = msgspec.json.Decoder(_Parts)
_spec = msgspec.json.Decoder(PodSpec)


class AdmittedPods:
    """The specs that pods of one input have in common."""

    def __init__(self) -> None:
        self._known: dict[tuple[bytes, int], SharedSpec | bool] = {}
        """By the text without the name of the node, and by its place: the spec, or whether it is to be shared if there is
        another pod with it."""
        self._size = 0
        """The bytes of these texts."""

    def read(self, document: Document) -> Pod | None:
        """The pod, if it was admitted and its spec has no fault that is found in the text. None: it is to be read like any
        other object, as the first pod of each template is."""
        try:
            parts = _parts.decode(document.body) if isinstance(document.body, msgspec.Raw) else None
        except ValueError:
            return None
        if parts is None or not (parts.metadata.uid and parts.metadata.resource_version):
            return None
        text, name, place = bytes(parts.spec), b"", 0
        if (found := _NODE_NAME.search(text)) is not None:
            name, place = found[1], found.start(1)
            text = text[:place] + text[found.end(1) :]
        known = self._known.get((text, place))
        if known is None:
            self._note(text, place)
        elif known is True:
            known = self._known[text, place] = _shared(document, text, name, place) or False
        return known.pod(parts.metadata, name.decode(), parts.status) if isinstance(known, SharedSpec) else None

    def _note(self, text: bytes, place: int) -> None:
        self._size += len(text)
        if self._size > _MOST_TEXT:
            self._known.clear()
            self._size = len(text)
        self._known[text, place] = True


def _shared(document: Document, text: bytes, name: bytes, place: int) -> SharedSpec | None:
    """The spec with this text, the name of the node being at this place; None if pods with it are to be read one by one."""
    if check_fields(document, was_admitted=True):
        return None
    try:
        spec, other = (_spec.decode(text[:place] + each + text[place:]) for each in (name, _ANOTHER if name else b""))
    except ValueError:
        return None
    names = (name.decode(), _ANOTHER.decode() if name else "")
    if (spec.node_name, other.node_name) != names or msgspec.structs.replace(other, node_name=names[0]) != spec:
        return None
    return SharedSpec(spec)
