"""What an API server adds to objects on their way in, as far as it changes where pods go: defaulting and admission.

Simulations read manifests that never met an API server; here is done what it would have done. An object that bears
the marks of one (`kubectl get -o json` has them) is left exactly as it is.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from mooring.model.devices import EXACT_COUNT, ResourceClaim, ResourceClaimSpec, ResourceClaimTemplate
from mooring.model.kinds import KINDS
from mooring.model.meta import KubeObject, ObjectMeta
from mooring.model.node import Node
from mooring.model.pod import Pod, ResourceRequirements
from mooring.model.pod_defaults import add_tolerations, complete_pod, containers_of, merge_label_keys, round_up
from mooring.model.storage import IMMEDIATE, PersistentVolume, PersistentVolumeClaim, StorageClass
from mooring.model.validation.problem import Problem, at_key, show
from mooring.model.workloads import (
    PREEMPT_LOWER_PRIORITY,
    SYSTEM_PRIORITIES,
    LimitRange,
    Namespace,
    PriorityClass,
    RuntimeClass,
    Workload,
)

DEFAULT_NAMESPACE = "default"
_NAMESPACE_LABEL = "kubernetes.io/metadata.name"
_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"


def apply_defaults(objects: Sequence[KubeObject]) -> list[Problem]:
    """Admit all objects to a cluster made of just these. The problems name the object that they belong to."""
    admission = Admission.of(objects)
    return [
        problem.at(f"{type(admitted).__name__} {admitted.key}")
        for admitted in objects
        for problem in admission.admit(admitted)
    ]


def missing_namespaces(objects: Sequence[KubeObject]) -> list[Namespace]:
    """Namespaces that must exist, because pods live in them, and that no manifest gives."""
    there = {admitted.name for admitted in objects if isinstance(admitted, Namespace)}
    used = {pod.namespace: None for pod in objects if isinstance(pod, Pod) and pod.namespace not in there}
    return [Namespace(metadata=ObjectMeta(name=name, labels={_NAMESPACE_LABEL: name})) for name in used]


def was_admitted(checked: KubeObject) -> bool:
    """Whether an API server has seen this object: only a server gives both a uid and a resourceVersion."""
    return bool(checked.metadata.uid and checked.metadata.resource_version)


@dataclass(slots=True)
class Admission:
    """The objects of a cluster that change others on their way in."""

    priority_classes: Mapping[str, PriorityClass]
    global_default: PriorityClass | None
    limits: Mapping[str, ResourceRequirements]
    """By namespace: what a container gets that does not say."""
    runtime_classes: Mapping[str, RuntimeClass]
    default_storage_class: str | None
    generated: Counter[str]
    """How many names were made from each generateName."""

    @classmethod
    def of(cls, objects: Sequence[KubeObject]) -> "Admission":
        classes = {c.name: c for c in objects if isinstance(c, PriorityClass)}
        return cls(
            classes,
            min((c for c in classes.values() if c.global_default), key=lambda c: c.value, default=None),
            _container_limits(objects),
            {c.name: c for c in objects if isinstance(c, RuntimeClass)},
            _default_storage_class(objects),
            Counter(),
        )

    def admit(self, admitted: KubeObject) -> list[Problem]:
        """Fill in what the API server would; report what it would refuse."""
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
                # A server says Pending; the volume controller, which simulations lack, makes that Available at once.
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
        return []

    def _name(self, admitted: KubeObject) -> None:
        """A namespace, a name and a uid. Names are counted up where a server would draw lots; the key serves as uid."""
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
        complete_pod(pod)
        self._add_limits(pod)
        problems = self._set_priority(pod)
        add_tolerations(pod.spec)
        problems += self._add_runtime(pod)
        merge_label_keys(pod)
        return problems

    def _add_limits(self, pod: Pod) -> None:
        given = self.limits.get(pod.namespace)
        if given is None:
            return
        for container in containers_of(pod.spec):
            own = container.resources or ResourceRequirements()
            container.resources = ResourceRequirements(
                requests={**(given.requests or {}), **(own.requests or {})} or None,
                limits={**(given.limits or {}), **(own.limits or {})} or None,
            )

    def _set_priority(self, pod: Pod) -> list[Problem]:
        """Priority and preemption policy from the class.

        A pod may bring a priority of its own where it names no class. A server would refuse that, but people who try
        things out in a simulation write it, and it is clear what they mean.
        """
        spec = pod.spec
        if not spec.priority_class_name and spec.priority is None and self.global_default is not None:
            spec.priority_class_name = self.global_default.name
        given = self._class_of(spec.priority_class_name)
        if given is None:
            unknown = bool(spec.priority_class_name) and spec.priority is None
            spec.priority = spec.priority or 0
            spec.preemption_policy = spec.preemption_policy or PREEMPT_LOWER_PRIORITY
            known = ", ".join(sorted({*self.priority_classes, *SYSTEM_PRIORITIES}))
            path = "spec.priorityClassName"
            return [Problem(path, show(spec.priority_class_name), f"a known class: {known}")] if unknown else []
        problems = []
        policy = given.preemption_policy or PREEMPT_LOWER_PRIORITY
        if spec.priority not in (None, given.value):
            allowed = f"{given.value}, the value of PriorityClass {given.name}"
            problems.append(Problem("spec.priority", show(spec.priority), allowed))
        if spec.preemption_policy not in (None, policy):
            allowed = f"{policy}, the policy of PriorityClass {given.name}"
            problems.append(Problem("spec.preemptionPolicy", show(spec.preemption_policy), allowed))
        spec.priority, spec.preemption_policy = given.value, policy
        return problems

    def _class_of(self, name: str) -> PriorityClass | None:
        if name in SYSTEM_PRIORITIES and name not in self.priority_classes:
            return PriorityClass(metadata=ObjectMeta(name=name), value=SYSTEM_PRIORITIES[name])
        return self.priority_classes.get(name)

    def _add_runtime(self, pod: Pod) -> list[Problem]:
        """Overhead and placement of the runtime class; a class that is not given is taken to add nothing."""
        spec = pod.spec
        given = self.runtime_classes.get(spec.runtime_class_name or "")
        if given is None:
            return []
        if given.overhead is not None and given.overhead.pod_fixed and not spec.overhead:
            spec.overhead = dict(given.overhead.pod_fixed)
        if given.scheduling is None:
            return []
        wanted = given.scheduling.node_selector or {}
        own = spec.node_selector or {}
        spec.node_selector = {**own, **wanted} or None
        held = spec.tolerations or []
        spec.tolerations = [*held, *(t for t in given.scheduling.tolerations or () if t not in held)] or None
        return [
            Problem(at_key("spec.nodeSelector", key), show(own[key]), f"{value}, as RuntimeClass {given.name} has it")
            for key, value in wanted.items()
            if own.get(key, value) != value
        ]

    def _admit_claim(self, claim: PersistentVolumeClaim) -> None:
        claim.status.phase = claim.status.phase or "Pending"
        if claim.spec.storage_class_name is None and not claim.class_name and self.default_storage_class is not None:
            claim.spec.storage_class_name = self.default_storage_class


def _container_limits(objects: Iterable[KubeObject]) -> dict[str, ResourceRequirements]:
    """Limits and requests by namespace, of several LimitRanges the first by name that speaks of a resource."""
    found: dict[str, ResourceRequirements] = {}
    for written in sorted((o for o in objects if isinstance(o, LimitRange)), key=lambda o: o.name):
        held = found.setdefault(written.namespace or DEFAULT_NAMESPACE, ResourceRequirements())
        for item in written.spec.limits or ():
            if item.type == "Container":
                limits = {**(item.max or {}), **(item.default or {})}
                requests = {**(item.min or {}), **limits, **(item.default_request or {})}
                held.limits = {**limits, **(held.limits or {})}
                held.requests = {**requests, **(held.requests or {})}
    return found


def _default_storage_class(objects: Iterable[KubeObject]) -> str | None:
    """The newest of the classes marked as default, then the first by name."""
    marked = [c for c in objects if isinstance(c, StorageClass)]
    marked = [c for c in marked if (c.metadata.annotations or {}).get(_DEFAULT_CLASS) == "true"]
    marked.sort(key=lambda c: c.name)
    newest = max(marked, key=lambda c: c.metadata.creation_timestamp or "", default=None)
    return newest.name if newest else None


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
