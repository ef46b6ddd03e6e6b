"""Manifests as people have them, made ready to simulate: read, typed, expanded, defaulted and checked.

Nothing that is wrong with the input raises: each fault becomes a Problem, and all of them are told together.
"""

import gc
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import BinaryIO, TypeVar

import msgspec

from mooring.model.decode import decode_as, decode_json, misspelt_fields
from mooring.model.defaults import Admission, missing_namespaces, was_admitted
from mooring.model.devices import ResourceClaimTemplate
from mooring.model.kinds import KINDS, WORKLOADS, is_read, kind_problem
from mooring.model.meta import KubeObject
from mooring.model.node import Node
from mooring.model.pod import Pod
from mooring.model.pod_claims import claims_of
from mooring.model.problem import Problem
from mooring.model.validate import validate
from mooring.model.workload_pods import Ownership, count_pods, expand
from mooring.model.workloads import Workload
from mooring.sim.documents import Document, split
from mooring.sim.manifest_files import MAX_BYTES, gather

OnProgress = Callable[[int, int], None]
"""Told (bytes done, bytes in all)."""
Tell = Callable[["Manifest", Sequence[Problem]], None]
T = TypeVar("T", bound=KubeObject)

MAX_PODS = 1_000_000
"""How many pods one workload may stand for; a slip in `replicas` shall not fill the memory."""


@dataclass(slots=True)
class Manifest:
    """One object and where it came from."""

    object: KubeObject
    file: str
    document: str
    """`document 3`, or `document 1, item 7` for what stood in a list."""
    made_from: str = ""
    """The workload or pod, `Deployment default/web`, for an object that no file has."""
    order: int = 0
    """Rank of the document among all that were read."""

    @property
    def kind(self) -> str:
        return self.object.kind if isinstance(self.object, Workload) else type(self.object).__name__

    @property
    def where(self) -> str:
        name = self.made_from or f"{self.kind} {self.object.key}"
        return f"{self.file}: {name}" if self.file else name


@dataclass(slots=True)
class Manifests:
    """All that was read. An object with a problem is not among the objects, nor is what would be made of it."""

    objects: list[Manifest] = field(default_factory=list)
    ignored: Counter[str] = field(default_factory=Counter)
    """Kinds that cannot change where a pod goes, and how many of each there were."""
    problems: list[Problem] = field(default_factory=list)


def read(
    paths: Sequence[str],
    stdin: BinaryIO | None = None,
    on_progress: OnProgress | None = None,
    max_bytes: int = MAX_BYTES,
) -> Manifests:
    """Read files, folders and `-` for standard input, as `kubectl apply -f` and `kubectl get -o json` know them."""
    files, problems = gather(paths, stdin, max_bytes)
    total, done = sum(len(file.text) for file in files), 0
    intake = _Intake()
    with _collector_paused():
        for file in files:
            report = None if on_progress is None else _from(done, total, on_progress)
            for found in split(file, report):
                intake.take(found)
            done += len(file.text)
            if on_progress is not None:
                on_progress(done, total)
        result = intake.finish()
    result.problems = problems + result.problems
    return result


def _from(done: int, total: int, on_progress: OnProgress) -> Callable[[int], None]:
    return lambda position: on_progress(done + position, total)


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Hot: millions of new objects and no garbage; the collector would take half of the time of a large dump."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class _Intake:
    """Objects on their way from documents to a cluster."""

    def __init__(self) -> None:
        self._objects: list[Manifest] = []
        self._workloads: list[Manifest] = []
        self._ignored: Counter[str] = Counter()
        self._problems: list[tuple[int, Problem]] = []
        self._order = 0

    def take(self, found: Document | Problem) -> None:
        self._order += 1
        if isinstance(found, Problem):
            self._problems.append((self._order, found))
            return
        problem = kind_problem(found.kind, found.api_version)
        if problem is not None:
            self._problems.append((self._order, problem.at(found.where())))
        elif not is_read(found.kind, found.api_version):
            self._ignored[found.kind] += 1
        else:
            self._type(found)

    def _type(self, document: Document) -> None:
        """Make the document an object, and a workload too where its kind is both."""
        problems: list[Problem] = []
        if document.kind in WORKLOADS:
            workload, problems = _decode_workload(document)
            if workload is not None:
                self._workloads.append(self._manifest(workload, document))
        if document.kind in KINDS:
            typed, more = _decode(document)
            problems += [problem for problem in more if problem not in problems]
            if typed is not None and not problems:
                self._objects.append(self._manifest(typed, document))
        if problems:
            where = document.where()
            self._problems += [(self._order, problem.at(where)) for problem in problems]

    def _manifest(self, typed: KubeObject, document: Document) -> Manifest:
        return Manifest(typed, document.place.file, document.place.label, order=self._order)

    def finish(self) -> Manifests:
        """Do with all of it what API server and controllers would do."""
        admission = Admission.of([manifest.object for manifest in self._objects])
        for manifest in (*self._objects, *self._workloads):
            self._tell(manifest, admission.admit(manifest.object))
        self._tell_doubles()
        for manifest in (*self._objects, *self._workloads):
            self._tell(manifest, validate(manifest.object))
        self._objects = self._sound(self._objects)
        self._objects += _Controllers(self._objects, admission, self._tell).run(self._sound(self._workloads))
        self._objects = self._sound(self._objects)
        namespaces = missing_namespaces([manifest.object for manifest in self._objects])
        self._objects += [Manifest(namespace, file="", document="") for namespace in namespaces]
        self._objects.sort(key=lambda manifest: manifest.order)
        self._problems.sort(key=lambda entry: entry[0])
        return Manifests(self._objects, self._ignored, [problem for _, problem in self._problems])

    def _tell(self, manifest: Manifest, problems: Sequence[Problem]) -> None:
        if problems:
            self._problems += [(manifest.order, problem.at(manifest.where)) for problem in problems]

    def _tell_doubles(self) -> None:
        first: dict[tuple[str, str], Manifest] = {}
        kept_twice = [manifest for manifest in self._workloads if manifest.kind not in KINDS]
        for manifest in sorted((*self._objects, *kept_twice), key=lambda manifest: manifest.order):
            other = first.setdefault((manifest.kind, manifest.object.key), manifest)
            if other is not manifest:
                found = f"the same object as in {other.file}, {other.document}"
                self._tell(manifest, [Problem("metadata.name", found, "each object once")])

    def _sound(self, manifests: list[Manifest]) -> list[Manifest]:
        faulty = {order for order, _ in self._problems}
        return [manifest for manifest in manifests if manifest.order not in faulty] if faulty else manifests


class _Controllers:
    """Makes what the controllers of a real cluster would: pods of workloads, claims of pods."""

    def __init__(self, given: Sequence[Manifest], admission: Admission, tell: Tell) -> None:
        self._given = given
        self._admission = admission
        self._tell = tell
        self._pods = {manifest.object.key for manifest in given if isinstance(manifest.object, Pod)}
        self._keys = {(manifest.kind, manifest.object.key) for manifest in given}

    def run(self, workloads: Sequence[Manifest]) -> list[Manifest]:
        """`workloads` that have no pods among the given objects get them; then all new pods get their claims."""
        objects = [manifest.object for manifest in self._given]
        ownership = Ownership(objects)
        nodes = [node for node in objects if isinstance(node, Node)]
        made: list[Manifest] = []
        # The names of a StatefulSet's pods are fixed; those of others give way where they would be the same.
        for manifest in sorted(workloads, key=lambda manifest: manifest.kind != "StatefulSet"):
            if isinstance(manifest.object, Workload) and not ownership.covers(manifest.object):
                made += self._expand(manifest, manifest.object, nodes)
        return made + self._make_claims([*self._given, *made])

    def _expand(self, manifest: Manifest, workload: Workload, nodes: Sequence[Node]) -> list[Manifest]:
        wanted = 0 if workload.kind == "DaemonSet" else count_pods(workload)
        if wanted > MAX_PODS:
            path = "spec.parallelism" if workload.kind == "Job" else "spec.replicas"
            self._tell(manifest, [Problem(path, str(wanted), f"at most {MAX_PODS} pods in a simulation")])
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

    def _make_claims(self, manifests: Sequence[Manifest]) -> list[Manifest]:
        templates = {m.object.key: m.object for m in manifests if isinstance(m.object, ResourceClaimTemplate)}
        made = []
        for manifest in manifests:
            if isinstance(manifest.object, Pod) and not was_admitted(manifest.object):
                for claim in claims_of(manifest.object, templates):
                    self._admission.admit(claim)
                    made += self._keep(claim, manifest)
        return made

    def _keep(self, product: KubeObject, maker: Manifest) -> list[Manifest]:
        """The product, unless it was there before: then the controller would have found it and made none."""
        made_from = f"{maker.kind} {maker.object.key}"
        manifest = Manifest(product, maker.file, maker.document, made_from, maker.order)
        key = (manifest.kind, product.key)
        if key in self._keys:
            return []
        self._keys.add(key)
        if isinstance(product, Pod):
            self._pods.add(product.key)
        return [manifest]


def _of_template(problems: Sequence[Problem]) -> list[Problem]:
    """What is wrong with a made pod is wrong with the template, but for its name."""
    return [problem.under("spec.template") for problem in problems if problem.path != "metadata.name"]


def _decode(document: Document) -> tuple[KubeObject | None, list[Problem]]:
    """Hot: JSON goes straight into the struct; plain data of it is made only for a closer look."""
    struct = KINDS[document.kind].struct
    if isinstance(document.body, msgspec.Raw):
        try:
            typed = decode_json(document.body, document.kind)
            problems = [] if was_admitted(typed) else misspelt_fields(struct, document.plain())
        except ValueError:
            return _decode_plain(document, struct)
        return typed if not problems else None, problems
    return _decode_plain(document, struct)


def _decode_workload(document: Document) -> tuple[Workload | None, list[Problem]]:
    workload, problems = _decode_plain(document, Workload)
    if workload is not None:
        workload.kind = document.kind
    return workload, problems


def _decode_plain(document: Document, struct: type[T]) -> tuple[T | None, list[Problem]]:
    try:
        plain = document.plain()
    except ValueError:
        return None, [Problem("", "text that is not UTF-8", "JSON in UTF-8")]
    typed, problems = decode_as(struct, plain)
    if typed is None or not was_admitted(typed):
        problems += misspelt_fields(struct, plain)
    return typed if not problems else None, problems
