"""Objects that the controllers of a real cluster would create for those of manifests, with the place that each came from."""

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cached_property

import msgspec

from mooring.api.json_objects import JsonObject
from mooring.api.kind_spec import KindSpec
from mooring.api.kinds import BY_KIND, WORKLOADS
from mooring.api.validate import validate
from mooring.api.validation.problem import Problem
from mooring.controllers.nodes.simulated_nodes import DEVICES, slices_of
from mooring.inputs.admission import Admission, ClaimSources, claims_for, group_claims_for, was_admitted
from mooring.inputs.custom_workloads import MAX_PODS, CustomKinds, CustomWorkload
from mooring.inputs.documents import DocumentPlace
from mooring.model.devices import ResourceSlice
from mooring.model.meta import KubeObject, LabelSelector, ObjectMeta, OwnerReference
from mooring.model.node import Node
from mooring.model.pod import Pod
from mooring.model.pod_spec import PodSpec
from mooring.model.storage import PersistentVolumeClaim
from mooring.model.workloads import LabelSelectorSpec, PodGroup, ReplicaSet, Workload
from mooring.rules.workload_pods import (
    HASH_LABEL,
    DaemonNodes,
    claims_of,
    identified,
    job_labels,
    meant_for,
    owner_reference,
    pod_of,
    template_hash,
    with_index,
)

# ---- Pods and volume claims of workloads: a simulation runs no workload controllers, but manifests have Deployments. Names
# are numbered instead of random, so that two runs have the same names. The rules are those of the embedded cluster's
# controllers (`rules/workload_pods.py`).

_HASH_LABELS = (("Deployment", HASH_LABEL), ("Rollout", "rollouts-pod-template-hash"))
"""Kinds whose pods belong to ReplicaSets, with the label of their pods that is the end of the ReplicaSet's name. Rollouts are
Argo's."""


class Ownership:
    """Which workloads have pods in the input already, as in a dump of a real cluster; they get no new ones."""

    def __init__(self, objects: Iterable[KubeObject]) -> None:
        self._owners: set[tuple[str, ...]] = set()
        for owned in objects:
            if isinstance(owned, Pod | ReplicaSet):
                self._note(owned)

    def _note(self, owned: Pod | ReplicaSet) -> None:
        """Note the controller of a pod or ReplicaSet by name and by uid."""
        owner = owned.controller()
        if owner is None:
            return
        self._owners.add((owner.kind, owned.namespace, owner.name))
        self._owners.add(("uid", owner.uid))
        if owner.kind != "ReplicaSet" or not isinstance(owned, Pod):
            return
        # A dump may have Deployments and pods but no ReplicaSets; their names show which Deployment owns a pod.
        for kind, label in _HASH_LABELS:
            suffix = "-" + owned.labels.get(label, "")
            if len(suffix) > 1 and owner.name.endswith(suffix):
                self._owners.add((kind, owned.namespace, owner.name.removesuffix(suffix)))

    def covers(self, workload: Workload) -> bool:
        """Whether the input has pods of the workload, or a ReplicaSet of the Deployment, which gets the pods itself."""
        return self.covers_named(workload.kind, workload.namespace, workload.name, workload.uid)

    def covers_named(self, kind: str, namespace: str, name: str, uid: str) -> bool:
        """Whether the input has pods or ReplicaSets of an owner, which may be of any kind."""
        return (kind, namespace, name) in self._owners or (bool(uid) and ("uid", uid) in self._owners)


def expand(workload: Workload, nodes: Sequence[Node] = (), taken: Collection[str] = ()) -> list[KubeObject]:
    """The objects that controllers would create for a workload: the ReplicaSet of a Deployment, claims, pods."""
    pods = pods_of(workload, nodes, taken)
    between = replica_set_of(workload)
    claims = _claims(workload, pods) if workload.spec.volume_claim_templates else []
    return [*([between] if between else []), *claims, *pods]


def pods_of(workload: Workload, nodes: Sequence[Node] = (), taken: Collection[str] = ()) -> list[Pod]:
    """The pods, named `<workload>-0` and so on; `<workload>-<kind>-0` if one of the names is in `taken` (pod keys)."""
    is_daemon, start = workload.kind == "DaemonSet", _first(workload)
    hosts = _hosts(workload.spec.template.spec, nodes) if is_daemon else []
    indices = range(start, start + (len(hosts) if is_daemon else count_pods(workload)))
    stem = workload.name
    if any(f"{workload.namespace}/{stem}-{i}" in taken for i in indices):
        stem = f"{stem}-{workload.kind.lower()}"
    make = _PodMaker(workload, stem)
    return [make.pod(i, hosts[i - start].name if hosts else "") for i in indices]


class _PodMaker:
    """Creates the pods of one workload. Computes what they share once: a workload may have a million."""

    def __init__(self, workload: Workload, stem: str) -> None:
        self._workload = workload
        self._digest = _hash(workload)
        self._plain = msgspec.to_builtins(workload)
        self._plain["metadata"] = {**self._plain["metadata"], "name": stem}
        template: JsonObject = self._plain.setdefault("spec", {}).get("template", {})
        self._pod = pod_of(*_owner_of_pods(workload), template)

    def pod(self, index: int, node: str) -> Pod:
        made = self._made(index, node)
        metadata = {**made["metadata"], "name": f"{self._plain['metadata']['name']}-{index}"}
        metadata |= {"namespace": self._workload.namespace}
        metadata.pop("generateName", None)
        return msgspec.convert({"metadata": metadata, "spec": made["spec"]}, Pod)

    def _made(self, index: int, node: str) -> JsonObject:
        """The pod with what its kind of workload adds: labels, index, node affinity, claims."""
        workload, pod = self._workload, self._pod
        match workload.kind:
            case "Deployment":
                return _labelled(pod, {HASH_LABEL: self._digest})
            case "DaemonSet":
                return meant_for(pod, node, self._digest)
            case "StatefulSet":
                return identified(self._plain, pod, f"{workload.name}-{self._digest}", index)
            case "Job":
                # The uid may be a key (admission.py), which is not a valid label value.
                named = _labelled(pod, job_labels(workload.name, "" if "/" in workload.uid else workload.uid))
                return with_index(named, workload.name, index) if workload.spec.completion_mode == "Indexed" else named
        return pod


def _labelled(pod: JsonObject, labels: dict[str, str]) -> JsonObject:
    metadata = pod["metadata"]
    return {**pod, "metadata": {**metadata, "labels": {**metadata.get("labels", {}), **labels}}}


def count_pods(workload: Workload) -> int:
    """How many pods the workload should have now. Not for a DaemonSet, whose nodes decide."""
    spec, status = workload.spec, workload.status
    if workload.kind != "Job":
        return 1 if spec.replicas is None else spec.replicas
    finished = any(c.type in ("Complete", "Failed") and c.status == "True" for c in status.conditions or ())
    if finished or spec.suspend:
        return 0
    at_once = 1 if spec.parallelism is None else spec.parallelism
    return at_once if spec.completions is None else max(0, min(at_once, spec.completions - status.succeeded))


def replica_set_of(workload: Workload) -> ReplicaSet | None:
    """The ReplicaSet of a Deployment; default topology spreading reads its selector."""
    if workload.kind != "Deployment":
        return None
    written = workload.spec.selector or LabelSelector()
    mark = {HASH_LABEL: _hash(workload)}
    owner = owner_reference(_resource(workload.kind), {"metadata": {"name": workload.name, "uid": workload.uid}})
    selector = LabelSelector(
        match_labels={**(written.match_labels or {}), **mark}, match_expressions=written.match_expressions
    )
    meta = ObjectMeta(
        name=_replica_set_name(workload),
        namespace=workload.namespace,
        labels={**(workload.spec.template.metadata.labels or {}), **mark},
        owner_references=[msgspec.convert(owner, OwnerReference)],
    )
    return ReplicaSet(metadata=meta, spec=LabelSelectorSpec(selector=selector))


def _claims(workload: Workload, pods: Iterable[Pod]) -> list[PersistentVolumeClaim]:
    """The claims of a StatefulSet for its pods."""
    if workload.kind != "StatefulSet":
        return []
    plain, made = msgspec.to_builtins(workload), []
    for ordinal, pod in enumerate(pods, _first(workload)):
        named = {**plain, "metadata": {"name": pod.name.rpartition("-")[0]}}
        for claim in claims_of(named, ordinal):
            made.append(msgspec.convert(claim, PersistentVolumeClaim))
            made[-1].metadata.namespace = pod.namespace
    return made


def _owner_of_pods(workload: Workload) -> tuple[KindSpec, JsonObject]:
    """The kind and identity of the pods' controller: for a Deployment, its ReplicaSet."""
    if workload.kind == "Deployment":
        name = _replica_set_name(workload)
        return _resource("ReplicaSet"), {"metadata": {"name": name, "uid": f"{workload.namespace}/{name}"}}
    return _resource(workload.kind), {"metadata": {"name": workload.name, "uid": workload.uid}}


def _resource(kind: str) -> KindSpec:
    return BY_KIND[WORKLOADS[kind].api_versions[0], kind]


def _replica_set_name(workload: Workload) -> str:
    return f"{workload.name}-{_hash(workload)}"


def _hash(workload: Workload) -> str:
    return template_hash(msgspec.to_builtins(workload.spec.template))


def _first(workload: Workload) -> int:
    return workload.spec.ordinals.start if workload.spec.ordinals else 0


def _hosts(spec: PodSpec, nodes: Iterable[Node]) -> list[Node]:
    """The nodes for which the DaemonSet controller would create a pod."""
    rule = DaemonNodes(msgspec.to_builtins(spec))
    return [node for node in nodes if rule.verdict(node.name, node.labels, node.taints).runs]


# ---- all that is created


class Manifest(msgspec.Struct, gc=False):
    """One object and where it came from."""

    object: KubeObject
    place: DocumentPlace | None
    """None for an object that is in no file."""
    made_from: str = ""
    """The workload or pod, `Deployment default/web`, of an object that is in no file."""
    order: int = 0
    """The number of the document among all that were read."""

    @property
    def kind(self) -> str:
        return self.object.kind if isinstance(self.object, Workload) else type(self.object).__name__

    @property
    def where(self) -> str:
        return self.made_from or f"{self.kind} {self.object.key}"

    @property
    def file(self) -> str:
        return self.place.file if self.place is not None else ""


Tell = Callable[[Manifest, Sequence[Problem]], None]


class CreatedObjects:
    """Creates what the controllers of a real cluster would: pods of workloads, claims of pods and pod groups, and
    ResourceSlices of nodes."""

    def __init__(
        self, given: Sequence[Manifest], cluster: Sequence[KubeObject], admission: Admission, tell: Tell
    ) -> None:
        """`cluster` are the objects that were there before those that are given."""
        self._given = given
        self._admission = admission
        self._tell = tell
        self._objects = [*cluster, *(manifest.object for manifest in given)]

    @cached_property
    def _pods(self) -> set[str]:
        """Keys of the pods. Hot: in a dump of a cluster nothing is created, and these sets take 0.3 s for 200,000 pods."""
        return {item.key for item in self._objects if isinstance(item, Pod)}

    @cached_property
    def _keys(self) -> set[tuple[str, str]]:
        """Kinds and keys of all objects."""
        return {(type(item).__name__, item.key) for item in self._objects}

    def run(
        self, workloads: Sequence[Manifest], custom: Sequence[CustomWorkload] = (), kinds: CustomKinds | None = None
    ) -> list[Manifest]:
        """Create pods for the workloads that have none in the input, then claims for all new pods and groups. `kinds` counts
        the `custom` workloads."""
        ownership = Ownership(self._objects)
        nodes = [node for node in self._objects if isinstance(node, Node)]
        made: list[Manifest] = []
        # The pods of a StatefulSet have fixed names, so they come first; other pods get other names on a collision.
        for manifest in sorted(workloads, key=lambda manifest: manifest.kind != "StatefulSet"):
            if isinstance(manifest.object, Workload) and not ownership.covers(manifest.object):
                made += self._expand(manifest, manifest.object, nodes)
        for workload in custom:
            is_covered = ownership.covers_named(
                workload.kind, workload.namespace, workload.metadata.name, workload.metadata.uid
            )
            pods = [] if is_covered else self._expand_custom(workload)
            if kinds is not None:
                kinds.note(workload, len(pods), is_covered)
            made += pods
        return [*made, *self._make_claims([*self._given, *made]), *self._make_slices()]

    def _expand(self, manifest: Manifest, workload: Workload, nodes: Sequence[Node]) -> list[Manifest]:
        """The pods of one workload. Only the first pod is validated: all come from the same template."""
        wanted = 0 if workload.kind == "DaemonSet" else count_pods(workload)
        if wanted > MAX_PODS:
            path = "spec.parallelism" if workload.kind == "Job" else "spec.replicas"
            self._tell(manifest, [Problem(path, str(wanted), f"at most {MAX_PODS} in a simulation")])
            return []
        made = []
        is_checked = False
        for product in expand(workload, nodes, self._pods):
            problems = self._admission.admit(product)
            if isinstance(product, Pod) and not is_checked:
                self._tell(manifest, _of_template(problems + validate(product)))
                is_checked = True
            made += self._keep(product, manifest)
        return made

    def _expand_custom(self, workload: CustomWorkload) -> list[Manifest]:
        """The pods of an object of an unknown kind. The first pod of each template is validated."""
        identity = Workload(kind=workload.kind, metadata=workload.metadata)
        maker = Manifest(identity, workload.place, order=workload.order)
        made: list[Manifest] = []
        for found in workload.templates:
            pods, problems = workload.pods(found, self._pods)
            for number, pod in enumerate(pods):
                admitted = self._admission.admit(pod)
                if number == 0:
                    problems += _of_template(admitted + validate(pod), found.path)
                made += self._keep(pod, maker)
            self._tell(maker, problems)
        return made

    def _make_claims(self, manifests: Sequence[Manifest]) -> list[Manifest]:
        """Claims for pods and groups that no API server has admitted; an admitted one has its claims in the dump."""
        sources = ClaimSources.of(self._objects, self._admission.gates)
        new = [manifest for manifest in manifests if not was_admitted(manifest.object)]
        made = []
        # Groups come first: their pods name the claims of the group.
        for manifest in new:
            if isinstance(manifest.object, PodGroup):
                made += self._admit_claims(group_claims_for(manifest.object, sources), manifest)
        for manifest in new:
            if isinstance(manifest.object, Pod):
                made += self._admit_claims(claims_for(manifest.object, sources), manifest)
        return made

    def _admit_claims(self, claims: Sequence[KubeObject], maker: Manifest) -> list[Manifest]:
        made = []
        for claim in claims:
            self._admission.admit(claim)
            made += self._keep(claim, maker)
        return made

    def _make_slices(self) -> list[Manifest]:
        """The ResourceSlices of simulated nodes: the annotation `mooring.dev/devices` lists their devices."""
        made = []
        for manifest in self._given:
            if isinstance(manifest.object, Node) and DEVICES in (manifest.object.metadata.annotations or {}):
                for written in slices_of(msgspec.to_builtins(manifest.object)):
                    made += self._keep(msgspec.convert(written, ResourceSlice), manifest)
        return made

    def _keep(self, product: KubeObject, maker: Manifest) -> list[Manifest]:
        """The product, unless the input has it: a controller would not create it again."""
        made_from = f"{maker.kind} {maker.object.key}"
        manifest = Manifest(product, maker.place, made_from, maker.order)
        key = (manifest.kind, product.key)
        if key in self._keys:
            return []
        self._keys.add(key)
        if isinstance(product, Pod):
            self._pods.add(product.key)
        return [manifest]


def _of_template(problems: Sequence[Problem], path: str = "spec.template") -> list[Problem]:
    """Problems of a created pod as problems of its template; the name is not part of the template."""
    return [problem.under(path) for problem in problems if problem.path != "metadata.name"]
