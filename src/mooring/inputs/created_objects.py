"""What the controllers of a real cluster would create for the objects of manifests, with the place that each came from."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from mooring.api.validate import validate
from mooring.api.validation.problem import Problem
from mooring.controllers.nodes.simulated_nodes import DEVICES, slices_of
from mooring.inputs.admission import Admission, ClaimSources, claims_for, group_claims_for, was_admitted
from mooring.inputs.custom_workloads import MAX_PODS, CustomKinds, CustomWorkload
from mooring.inputs.documents import DocumentPlace
from mooring.inputs.workload_pods import Ownership, count_pods, expand
from mooring.model.devices import ResourceSlice
from mooring.model.meta import KubeObject
from mooring.model.node import Node
from mooring.model.pod import Pod
from mooring.model.workloads import PodGroup, Workload


@dataclass(slots=True)
class Manifest:
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
        self._pods = {item.key for item in self._objects if isinstance(item, Pod)}
        self._keys = {(type(item).__name__, item.key) for item in self._objects}

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
