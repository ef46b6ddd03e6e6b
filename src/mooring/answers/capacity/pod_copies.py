"""What is counted: a pod, or a pod of a workload, of which any number of copies can be made."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import msgspec

from mooring.api.validate import validate
from mooring.api.validation.problem import Problem
from mooring.inputs.admission import Admission, ClaimSources, claims_for
from mooring.inputs.created_objects import Manifest, expand
from mooring.inputs.field_checks import Validation
from mooring.inputs.input_errors import InputError
from mooring.inputs.loaded_cluster import LoadedCluster, Source, Written, read_objects
from mooring.inputs.manifests import Manifests, ReadOptions
from mooring.model.meta import KubeObject
from mooring.model.pod import Pod
from mooring.model.pod_spec import PodStatus
from mooring.model.workloads import Ordinals, Workload

Warn = Callable[[Problem], None]

DAEMON_SET = "DaemonSet"


@dataclass(frozen=True, slots=True)
class PodCopies:
    """One kind of pod to place, and how many of it come in a turn."""

    name: str
    """`Pod default/web`, or the workload that it is of: `Deployment default/web`."""
    pod: Pod = field(repr=False)
    """The first copy."""
    admission: Admission = field(repr=False)
    claim_sources: ClaimSources = field(repr=False)
    in_turn: int = 1
    extras: Sequence[KubeObject] = field(default=(), repr=False)
    """Other objects of the same file: claims, classes, the ReplicaSet of a Deployment."""
    workload: Workload | None = field(default=None, repr=False)
    """The StatefulSet whose claim templates give each copy claims of its own."""

    def copy(self, number: int) -> tuple[Pod, list[KubeObject]]:
        """Another pod, and the claims that controllers would create for it."""
        if self.workload is not None:
            return self._ordinal(number, self.workload)
        other = self.pod.with_name(f"{self.pod.name}-{number}", f"{self.name}, copy {number}")
        if not _has_own_claims(other):
            return other, []
        other.status = PodStatus(phase="Pending")  # claims_for writes the names of the claims into it
        return other, self._admitted(claims_for(other, self.claim_sources))

    def _ordinal(self, number: int, workload: Workload) -> tuple[Pod, list[KubeObject]]:
        """The pod of a StatefulSet with this number, and its claims."""
        made = expand(_of_one_pod(workload, number))
        (pod,) = (item for item in made if isinstance(item, Pod))
        self.admission.admit(pod)
        named = pod.with_name(pod.name, f"{self.name}, copy {number}")
        claims = [item for item in made if not isinstance(item, Pod)]
        return named, self._admitted([*claims, *claims_for(named, self.claim_sources)])

    def _admitted(self, claims: list[KubeObject]) -> list[KubeObject]:
        for claim in claims:
            self.admission.admit(claim)
        return claims


def _has_own_claims(pod: Pod) -> bool:
    return bool(pod.spec.resource_claims) or any(volume.ephemeral for volume in pod.spec.volumes or ())


# ---- reading


def pod_copies(
    loaded: LoadedCluster,
    source: Source | Written,
    in_turn: int = 1,
    validation: Validation = Validation.STRICT,
    warn: Warn | None = None,
) -> list[PodCopies]:
    """Each pod and workload of a file or dictionary, admitted as the cluster would admit it. Raises InputError."""
    manifests = read_objects(source, ReadOptions(loaded.objects, validation, loaded.gates))
    if manifests.problems:
        raise InputError(manifests.problems)
    if warn is not None:
        for warning in manifests.warnings:
            warn(warning)
    return _CopyReader(loaded, manifests, in_turn).read(str(source) if not isinstance(source, dict) else "")


class _CopyReader:
    """Turns what was read into copies, and collects problems."""

    def __init__(self, loaded: LoadedCluster, manifests: Manifests, in_turn: int) -> None:
        objects = [*loaded.objects, *(manifest.object for manifest in manifests.objects)]
        self._admission = Admission.of(objects, loaded.gates)
        self._claim_sources = ClaimSources.of(objects, loaded.gates)
        self._extras = [each.object for each in manifests.objects if not isinstance(each.object, Pod)]
        self._manifests = manifests
        self._in_turn = in_turn
        self._problems: list[Problem] = []

    def read(self, file: str) -> list[PodCopies]:
        pods = [each for each in self._manifests.objects if isinstance(each.object, Pod) and not each.made_from]
        found = [self._copies(each.where, _loose(each.object)) for each in pods if isinstance(each.object, Pod)]
        for each in self._manifests.workloads:
            if isinstance(each.object, Workload):
                found += self._of_workload(each, each.object)
        if not found and not self._problems:
            self._problems.append(
                Problem("", "no pod to count: write a Pod, or a workload with a pod template", file=file)
            )
        if self._problems:
            raise InputError(self._problems)
        return found

    def _of_workload(self, manifest: Manifest, workload: Workload) -> list[PodCopies]:
        """A pod of the workload, whatever number of pods it has."""
        if workload.kind == DAEMON_SET:
            text = "the pods of a DaemonSet have their nodes already; write a Pod or another workload"
            self._problems.append(Problem("kind", text, where=manifest.where, file=manifest.file))
            return []
        made = expand(_of_one_pod(workload, workload.spec.ordinals.start if workload.spec.ordinals else 0))
        (pod,) = (item for item in made if isinstance(item, Pod))
        problems = [*self._admission.admit(pod), *validate(pod)]
        self._problems += [each.under("spec.template").at(manifest.where, manifest.file) for each in problems]
        owns_claims = workload.kind == "StatefulSet" and workload.spec.volume_claim_templates
        return [self._copies(manifest.where, pod, workload if owns_claims else None)]

    def _copies(self, name: str, pod: Pod, workload: Workload | None = None) -> PodCopies:
        return PodCopies(name, pod, self._admission, self._claim_sources, self._in_turn, self._extras, workload)


def _loose(pod: Pod) -> Pod:
    """The pod as it was created: a pod that runs in a cluster serves as a template as well."""
    spec = msgspec.structs.replace(pod.spec, node_name="")
    metadata = msgspec.structs.replace(pod.metadata, deletion_timestamp=None)
    return Pod(metadata=metadata, spec=spec, status=PodStatus(phase="Pending"))


def _of_one_pod(workload: Workload, ordinal: int) -> Workload:
    """The workload with one pod, also if it is suspended, finished, or scaled to 0."""
    spec = msgspec.structs.replace(
        workload.spec, replicas=1, parallelism=1, completions=None, suspend=None, ordinals=Ordinals(start=ordinal)
    )
    status = type(workload.status)()
    changed: Workload = msgspec.structs.replace(workload, spec=spec, status=status)
    return changed
