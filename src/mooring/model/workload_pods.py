"""The pods that controllers would make from a workload: a simulation runs none, yet people write Deployments."""

import hashlib
from collections.abc import Collection, Iterable, Sequence
from functools import partial

import msgspec

from mooring.model.kinds import WORKLOADS
from mooring.model.meta import KubeObject, LabelSelector, ObjectMeta, OwnerReference, Requirement
from mooring.model.node import NO_EXECUTE, NO_SCHEDULE, Node
from mooring.model.pod import (
    Affinity,
    ClaimVolume,
    NodeAffinity,
    NodeSelector,
    NodeSelectorTerm,
    Pod,
    PodSpec,
    Toleration,
    Volume,
)
from mooring.model.selectors import compile_node_selector
from mooring.model.storage import PersistentVolumeClaim
from mooring.model.tolerations import tolerates_hard
from mooring.model.workloads import LabelSelectorSpec, PodTemplate, ReplicaSet, Workload

HASH_LABEL = "pod-template-hash"
_REVISION_LABEL = "controller-revision-hash"
DAEMON_TROUBLES = (
    ("not-ready", NO_EXECUTE),
    ("unreachable", NO_EXECUTE),
    ("disk-pressure", NO_SCHEDULE),
    ("memory-pressure", NO_SCHEDULE),
    ("pid-pressure", NO_SCHEDULE),
    ("unschedulable", NO_SCHEDULE),
)

_decode_template = msgspec.json.Decoder(PodTemplate).decode


class Ownership:
    """Which workloads have their pods among the objects already: in a dump of a real cluster, all that run."""

    def __init__(self, objects: Iterable[KubeObject]) -> None:
        self._owners: set[tuple[str, ...]] = set()
        for owned in objects:
            if isinstance(owned, Pod | ReplicaSet):
                self._note(owned)

    def _note(self, owned: Pod | ReplicaSet) -> None:
        owner = owned.controller()
        if owner is None:
            return
        self._owners |= {(owner.kind, owned.namespace, owner.name), ("uid", owner.uid)}
        # A dump may have Deployments and pods but not the ReplicaSets between them; their names tell who is whose.
        suffix = "-" + owned.labels.get(HASH_LABEL, "")
        if isinstance(owned, Pod) and owner.kind == "ReplicaSet" and len(suffix) > 1 and owner.name.endswith(suffix):
            self._owners.add(("Deployment", owned.namespace, owner.name.removesuffix(suffix)))

    def covers(self, workload: Workload) -> bool:
        """Whether the workload has pods, or, if it is a Deployment, a ReplicaSet that speaks for itself."""
        named = (workload.kind, workload.namespace, workload.name) in self._owners
        return named or (bool(workload.uid) and ("uid", workload.uid) in self._owners)


def expand(workload: Workload, nodes: Sequence[Node] = (), taken: Collection[str] = ()) -> list[KubeObject]:
    """All that controllers would make of a workload: for a Deployment its ReplicaSet, claims, pods."""
    pods = pods_of(workload, nodes, taken)
    between = replica_set_of(workload)
    return [*([between] if between else []), *(claim for pod in pods for claim in _claims(workload, pod)), *pods]


def pods_of(workload: Workload, nodes: Sequence[Node] = (), taken: Collection[str] = ()) -> list[Pod]:
    """The pods, named `<workload>-0` and so on. Should a name be in `taken` (pod keys), all get their kind as well."""
    raw = msgspec.json.encode(workload.spec.template)
    make = partial(_make_pod, workload, raw, _hash(workload), _owner_of_pods(workload))
    start = workload.spec.ordinals.start if workload.spec.ordinals else 0
    hosts = [node for node in nodes if _runs_on(workload.spec.template.spec, node)] if _is_daemon(workload) else []
    indices = range(start, start + (len(hosts) if _is_daemon(workload) else count_pods(workload)))
    stem = workload.name
    if any(f"{workload.namespace}/{stem}-{i}" in taken for i in indices):
        stem = f"{stem}-{workload.kind.lower()}"
    pods = [make(f"{stem}-{i}", i) for i in indices]
    for pod, node in zip(pods, hosts, strict=False):
        _pin(pod.spec, node.name)
    return pods


def count_pods(workload: Workload) -> int:
    """How many pods there should be now. For a DaemonSet the nodes decide."""
    spec, status = workload.spec, workload.status
    if workload.kind != "Job":
        return 1 if spec.replicas is None else spec.replicas
    finished = any(c.type in ("Complete", "Failed") and c.status == "True" for c in status.conditions or ())
    if finished or spec.suspend:
        return 0
    at_once = 1 if spec.parallelism is None else spec.parallelism
    return at_once if spec.completions is None else max(0, min(at_once, spec.completions - status.succeeded))


def replica_set_of(workload: Workload) -> ReplicaSet | None:
    """The ReplicaSet of a Deployment: default spreading looks for its selector."""
    if workload.kind != "Deployment":
        return None
    written = workload.spec.selector or LabelSelector()
    mark = {HASH_LABEL: _hash(workload)}
    selector = LabelSelector(
        match_labels={**(written.match_labels or {}), **mark}, match_expressions=written.match_expressions
    )
    meta = ObjectMeta(
        name=_replica_set_name(workload),
        namespace=workload.namespace,
        labels={**(workload.spec.template.metadata.labels or {}), **mark},
        owner_references=[_reference(workload.kind, workload.name, workload.uid)],
    )
    return ReplicaSet(metadata=meta, spec=LabelSelectorSpec(selector=selector))


def _make_pod(workload: Workload, raw: bytes, digest: str, owner: OwnerReference, name: str, index: int) -> Pod:
    template = _decode_template(raw)
    meta = ObjectMeta(
        name=name,
        namespace=workload.namespace,
        labels={**(template.metadata.labels or {}), **_added_labels(workload, digest, name, index)} or None,
        annotations=template.metadata.annotations,
        owner_references=[owner],
    )
    pod = Pod(metadata=meta, spec=template.spec)
    claims = {claim.name: f"{claim.name}-{name}" for claim in workload.spec.volume_claim_templates or ()}
    if claims and workload.kind == "StatefulSet":
        mounted = [v for v in pod.spec.volumes or () if v.name not in claims]
        own = [Volume(name=v, persistent_volume_claim=ClaimVolume(claim_name=c)) for v, c in claims.items()]
        pod.spec.volumes = [*mounted, *own]
    return pod


def _added_labels(workload: Workload, digest: str, name: str, index: int) -> dict[str, str]:
    """The labels that the controller of each kind adds to those of the template."""
    match workload.kind:
        case "Deployment":
            return {HASH_LABEL: digest}
        case "DaemonSet":
            return {_REVISION_LABEL: digest}
        case "StatefulSet":
            return {
                _REVISION_LABEL: f"{workload.name}-{digest}",
                "statefulset.kubernetes.io/pod-name": name,
                "apps.kubernetes.io/pod-index": str(index),
            }
        case "Job":
            labels = {"job-name": workload.name, "batch.kubernetes.io/job-name": workload.name}
            if workload.spec.completion_mode == "Indexed":
                labels["batch.kubernetes.io/job-completion-index"] = str(index)
            return labels
    return {}


def _claims(workload: Workload, pod: Pod) -> list[PersistentVolumeClaim]:
    """The claims that a StatefulSet makes for one of its pods."""
    if workload.kind != "StatefulSet":
        return []
    return [
        PersistentVolumeClaim(
            metadata=ObjectMeta(
                name=f"{template.name}-{pod.name}",
                namespace=pod.namespace,
                labels={**(template.metadata.labels or {})} or None,
                annotations={**(template.metadata.annotations or {})} or None,
            ),
            spec=msgspec.structs.replace(template.spec),
        )
        for template in workload.spec.volume_claim_templates or ()
    ]


def _owner_of_pods(workload: Workload) -> OwnerReference:
    if workload.kind == "Deployment":
        name = _replica_set_name(workload)
        return _reference("ReplicaSet", name, f"{workload.namespace}/{name}")
    return _reference(workload.kind, workload.name, workload.uid)


def _reference(kind: str, name: str, uid: str) -> OwnerReference:
    return OwnerReference(api_version=WORKLOADS[kind].api_versions[0], kind=kind, name=name, uid=uid, controller=True)


def _replica_set_name(workload: Workload) -> str:
    return f"{workload.name}-{_hash(workload)}"


def _hash(workload: Workload) -> str:
    """A short name for what the template says: equal templates give equal names in every run."""
    return hashlib.blake2b(msgspec.json.encode(workload.spec.template), digest_size=5).hexdigest()


def _is_daemon(workload: Workload) -> bool:
    return workload.kind == "DaemonSet"


def _runs_on(spec: PodSpec, node: Node) -> bool:
    """Whether the DaemonSet controller would want a pod on this node: it asks before the scheduler does."""
    if spec.node_name not in ("", node.name):
        return False
    if any(node.labels.get(key) != value for key, value in (spec.node_selector or {}).items()):
        return False
    affinity = spec.affinity.node_affinity if spec.affinity else None
    if affinity and affinity.required and not compile_node_selector(affinity.required).matches(node.name, node.labels):
        return False
    return tolerates_hard([*(spec.tolerations or ()), *_daemon_tolerations(spec)], node.taints)


def _daemon_tolerations(spec: PodSpec) -> list[Toleration]:
    troubles = DAEMON_TROUBLES + ((("network-unavailable", NO_SCHEDULE),) if spec.host_network else ())
    return [Toleration(key=f"node.kubernetes.io/{k}", operator="Exists", effect=effect) for k, effect in troubles]


def _pin(spec: PodSpec, node_name: str) -> None:
    """Bind a daemon pod to its node the way its controller does: by a required affinity that replaces any other."""
    line = Requirement(key="metadata.name", operator="In", values=[node_name])
    term = NodeSelectorTerm(match_fields=[line])
    spec.affinity = spec.affinity or Affinity()
    spec.affinity.node_affinity = spec.affinity.node_affinity or NodeAffinity()
    spec.affinity.node_affinity.required = NodeSelector(node_selector_terms=[term])
    held = spec.tolerations or []
    spec.tolerations = [*held, *(t for t in _daemon_tolerations(spec) if t not in held)]
