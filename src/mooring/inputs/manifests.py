"""Reads manifests for a simulation: decodes, defaults, validates, and expands workloads into pods.

No fault of the input raises: each becomes a Problem, and all of them are reported together, in the order of the input.
"""

import gc
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import BinaryIO, TypeVar

import msgspec

from mooring.api.decode import decode_as, decode_json
from mooring.api.kinds import KINDS, WORKLOADS, is_read, kind_problem, other_form
from mooring.api.validate import amount_warnings, validate
from mooring.api.validation.problem import Problem
from mooring.framework.config.settings import SchedulerSettings, is_settings, read_settings
from mooring.inputs.admission import Admission, AdmittedPods, missing_namespaces, was_admitted
from mooring.inputs.created_objects import CreatedObjects, Manifest
from mooring.inputs.custom_workloads import CustomKinds, CustomWorkload, TemplatePaths
from mooring.inputs.documents import MAX_BYTES, Document, DocumentPlace, ManifestFile, PlacedProblem, gather, split
from mooring.inputs.dump_header import DumpHeader, PodEvent, is_event, is_header, pod_event_of, read_header
from mooring.inputs.field_checks import Validation, check_fields
from mooring.inputs.lines import placed
from mooring.model.meta import KubeObject
from mooring.model.workloads import Workload
from mooring.queue.queue_record import QueueRecord, is_record, read_record

OnProgress = Callable[[int, int], None]
"""Called with (bytes read, bytes in all)."""
T = TypeVar("T", bound=KubeObject)
LARGE_BYTES = 4 << 20
"""From this size on, the objects that were read are kept from the collector: some 3,000, which it would visit for 15 ms."""
_NOT_OF_A_SNAPSHOT = "does not have the form that `mooring snapshot` writes; remove it"


@dataclass(slots=True)
class Manifests:
    """Result of reading manifests. `objects` has no object with a problem, and none that controllers would create for one."""

    objects: list[Manifest] = field(default_factory=list)
    ignored: Counter[str] = field(default_factory=Counter)
    """Kinds that cannot change a decision, and how many objects of each there were."""
    problems: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)
    """Problems that do not prevent the use of the objects."""
    settings: SchedulerSettings | None = None
    """The settings in a snapshot of a scheduler; the first ones count."""
    workloads: list[Manifest] = field(default_factory=list)
    """The workloads; `objects` has the pods of those that had none in the input."""
    events: list[PodEvent] = field(default_factory=list)
    """Events about pods, in the order of the input."""
    header: DumpHeader | None = None
    """The header that `mooring dump` wrote; the first one counts."""
    queue: QueueRecord | None = None
    """The queue of the scheduler that a snapshot is of; the first one counts."""
    custom: CustomKinds = field(default_factory=CustomKinds)
    """Objects of kinds that Mooring does not know, with pod templates; `objects` has their pods."""
    to_apply: Sequence[ManifestFile] = ()
    """Files beside those that a cluster was saved in: they are to be applied to that cluster, and none of their objects is
    among `objects`."""

    def notes_of_dump(self) -> list[str]:
        """Notes for the user about a dump that was read."""
        settings = [] if self.settings is None else self.settings.notes("the snapshot")
        return [*settings, *(self.header.notes() if self.header is not None else ())]


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How manifests are read, and which cluster they come to."""

    cluster: Sequence[KubeObject] = ()
    """Objects that are there already: their classes and limits apply, DaemonSets run on their nodes, and their names are
    taken. They are not among what is returned."""
    validation: Validation = Validation.STRICT
    gates: Mapping[str, bool] | None = None
    """The feature gates of the cluster."""
    templates: TemplatePaths = field(default_factory=dict)
    """Where kinds that Mooring does not know have their pod templates."""
    header: DumpHeader | None = None
    """The header for files of which none has one."""
    separates: bool = False
    """Whether manifests beside a dump are not read but returned as files that are to be applied to its cluster."""


STRICT = ReadOptions()


def read(
    paths: Sequence[str],
    stdin: BinaryIO | None = None,
    options: ReadOptions = STRICT,
    on_progress: OnProgress | None = None,
    max_bytes: int = MAX_BYTES,
) -> Manifests:
    """Read files, folders and `-` for standard input: what `kubectl apply -f` takes and `kubectl get -o json` writes."""
    files, problems = gather(paths, stdin, max_bytes)
    result = read_files(files, options, on_progress)
    result.problems = problems + result.problems
    return result


def read_files(
    files: Sequence[ManifestFile], options: ReadOptions = STRICT, on_progress: OnProgress | None = None
) -> Manifests:
    """Read texts that are in memory."""
    total, done = sum(len(file.text) for file in files), 0
    intake = _Intake(options)
    with _collector_paused(total >= LARGE_BYTES):
        for file in files:
            report = None if on_progress is None else _from(done, total, on_progress)
            for found in split(file, report, keeps_repeats=True):
                intake.take(found)
            done += len(file.text)
            if on_progress is not None:
                on_progress(done, total)
        if options.separates:
            intake.separate(files)
        return intake.finish(files)


def _from(done: int, total: int, on_progress: OnProgress) -> Callable[[int], None]:
    return lambda position: on_progress(done + position, total)


@contextmanager
def _collector_paused(is_large: bool) -> Iterator[None]:
    """Hot: reading creates millions of objects and no garbage; the collector would take half of the time for a large dump.

    In the end all of them would be young, and the collector would visit them at once (5 µs for an object of a dump). To
    freeze and unfreeze them puts them among the old ones without a visit. Where the program has frozen objects already, as
    every command has frozen what it imported, they stay frozen. Not after a small input: it would do the same to what the
    program itself has just made, garbage included, and to count what is frozen takes 15 ns an object (66 ms for each read in
    a process that had frozen four million).
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if is_large:
            has_frozen = gc.get_freeze_count()
            gc.freeze()
            if not has_frozen:  # or else what the program has frozen would be unfrozen
                gc.unfreeze()
        if enabled:
            gc.enable()


@lru_cache(maxsize=1024)  # bounded, because kinds are texts of the input
def _is_plain_kind(kind: str, api_version: str) -> bool:
    """Whether documents of a kind are objects that decisions read, and in the form of their struct: nearly all are.

    Hot: to ask this about each object takes a tenth of the time for a large dump.
    """
    own = is_settings(kind, api_version) or is_header(kind, api_version) or is_record(kind, api_version)
    if own or is_event(kind, api_version) or kind_problem(kind, api_version) is not None:
        return False
    return is_read(kind, api_version) and other_form(kind, api_version) is None


@dataclass(frozen=True, slots=True)
class _Told:
    """A problem and its document."""

    order: int
    place: DocumentPlace | None
    problem: Problem


class _Intake:
    """Collects objects and problems document by document; `finish` treats them as one cluster."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._cluster = options.cluster
        self._result = Manifests(header=options.header, custom=CustomKinds(options.templates))
        self._is_complete = options.header is not None and options.header.has_all_pods
        self._complete_files: set[str] = set()
        """Files whose workloads have all their pods in the input."""
        self._cluster_files: set[str] = set()
        """Files that a cluster was saved in: a dump, a snapshot, or objects that an API server has admitted."""
        self._admitted_pods = AdmittedPods()
        self._objects: list[Manifest] = []
        self._workloads: list[Manifest] = []
        self._ignored: Counter[tuple[str, str]] = Counter()
        """By file and kind."""
        self._custom_workloads: list[CustomWorkload] = []
        self._problems: list[_Told] = []
        self._odd_fields: list[_Told] = []
        """Unknown and repeated fields. Kept apart until the end, so that their objects are still checked for others."""
        self._warnings: list[_Told] = []
        self._order = 0

    def take(self, found: Document | PlacedProblem) -> None:
        """One document, or one problem, in the order of the input."""
        self._order += 1
        if isinstance(found, PlacedProblem):
            self._problems.append(_Told(self._order, found.place, found))
            return
        if _is_plain_kind(found.kind, found.api_version):
            self._type(found)
            return
        if is_settings(found.kind, found.api_version):
            self._take_settings(found)
            return
        if is_header(found.kind, found.api_version):
            self._take_header(found)
            return
        if is_record(found.kind, found.api_version):
            self._take_queue(found)
            return
        if (event := pod_event_of(found)) is not None:
            self._result.events.append(event)
            return
        problem = kind_problem(found.kind, found.api_version)
        if problem is not None:
            self._problems += self._told(found, [problem])
        elif not is_read(found.kind, found.api_version):
            self._take_custom(found)
        else:
            self._take_known(found)

    def _take_known(self, document: Document) -> None:
        """An object of a kind that Mooring reads, from an older API version in the form of the newest."""
        form = other_form(document.kind, document.api_version)
        if form is not None:
            try:
                document = msgspec.structs.replace(document, body=form.read(document.plain()))
            except ValueError as fault:
                self._problems += self._told(document, [Problem("", str(fault))])
                return
        self._type(document)

    def _take_custom(self, document: Document) -> None:
        """An object of a kind that Mooring does not know counts if it has a pod template."""
        workload, problems = self._result.custom.workload_of(document, self._order)
        if workload is not None:
            self._custom_workloads.append(workload)
        elif problems:
            self._problems += self._told(document, problems)
        else:
            self._ignored[document.place.file, document.kind] += 1

    def separate(self, files: Sequence[ManifestFile]) -> None:
        """If some of the files are those of a cluster, forget what the others hold: they are to be applied to it."""
        kept = self._cluster_files
        if not kept:
            return
        self._result.to_apply = [file for file in files if file.name not in kept]
        self._objects = [each for each in self._objects if each.file in kept]
        self._workloads = [each for each in self._workloads if each.file in kept]
        self._custom_workloads = [each for each in self._custom_workloads if each.place.file in kept]
        self._ignored = Counter({key: count for key, count in self._ignored.items() if key[0] in kept})
        for told in (self._problems, self._odd_fields, self._warnings):
            told[:] = [each for each in told if each.problem.file in kept]

    def _take_settings(self, document: Document) -> None:
        self._cluster_files.add(document.place.file)
        settings = read_settings(document.plain(), document.place.file)
        if settings is None:
            self._problems += self._told(document, [Problem("configuration", _NOT_OF_A_SNAPSHOT)])
        self._result.settings = self._result.settings or settings

    def _take_queue(self, document: Document) -> None:
        record = read_record(document.plain())
        if record is None:
            self._problems += self._told(document, [Problem("", _NOT_OF_A_SNAPSHOT)])
        self._result.queue = self._result.queue or record

    def _take_header(self, document: Document) -> None:
        self._cluster_files.add(document.place.file)
        header = read_header(document.plain())
        if header is None:
            text = "does not have the form that `mooring dump` writes; remove it"
            self._problems += self._told(document, [Problem("", text)])
        elif header.has_all_pods:
            self._complete_files.add(document.place.file)
        self._result.header = self._result.header or header

    def _type(self, document: Document) -> None:
        """Decode the document into an object, and into a workload as well if its kind is both (ReplicaSet, StatefulSet)."""
        if document.kind == "Pod" and (pod := self._admitted_pods.read(document)) is not None:
            self._objects.append(self._manifest(pod, document))
            self._cluster_files.add(document.place.file)
            return
        typed: list[KubeObject] = []
        problems: list[Problem] = []
        if document.kind in WORKLOADS:
            workload, problems = _decode_workload(document)
            if workload is not None:
                self._workloads.append(self._manifest(workload, document))
                typed.append(workload)
        if document.kind in KINDS:
            item, more = _decode(document)
            problems += [problem for problem in more if problem not in problems]
            if item is not None and not problems:
                self._objects.append(self._manifest(item, document))
                typed.append(item)
        self._problems += self._told(document, problems)
        is_admitted = any(map(was_admitted, typed))
        if is_admitted:
            self._cluster_files.add(document.place.file)
        # A document that cannot be decoded at all has a problem without a path, and no fields to check.
        if self._options.validation is not Validation.IGNORE and all(problem.path for problem in problems):
            self._check_fields(document, is_admitted)

    def _check_fields(self, document: Document, is_admitted: bool) -> None:
        """An unknown field of an admitted object is only a warning: it comes from a newer Kubernetes, or was edited in."""
        found = self._told(document, check_fields(document, is_admitted))
        if self._options.validation is Validation.STRICT and not is_admitted:
            self._odd_fields += found
        else:
            self._warnings += found

    def _told(self, document: Document, problems: Sequence[Problem]) -> list[_Told]:
        if not problems:
            return []
        where, file = document.where(), document.place.file
        return [_Told(self._order, document.place, problem.at(where, file)) for problem in problems]

    def _manifest(self, typed: KubeObject, document: Document) -> Manifest:
        return Manifest(typed, document.place, order=self._order)

    def finish(self, files: Sequence[ManifestFile]) -> Manifests:
        """Treat all objects as the API server and the controllers would. The order matters: admission sets defaults,
        validation checks the result, controllers expand only sound workloads."""
        objects = [*self._cluster, *(manifest.object for manifest in self._objects)]
        settings, result = self._result.settings, self._result
        admission = Admission.of(objects, self._options.gates or (settings.gates if settings else None))
        every = (*self._objects, *self._workloads)
        new = [manifest for manifest in every if not was_admitted(manifest.object)]
        for manifest in new:
            self._tell(manifest, admission.admit(manifest.object))
        self._tell_doubles()
        for manifest in every:
            if found := validate(manifest.object):
                self._tell(manifest, found)
        for manifest in new:
            self._warnings += _of(manifest, amount_warnings(manifest.object))
        self._objects = self._sound(self._objects)
        self._workloads = self._sound(self._workloads)
        expanded = [each for each in self._workloads if self._lacks_pods(each.file)]
        custom = [each for each in self._custom_workloads if self._lacks_pods(each.place.file)]
        created = CreatedObjects(self._objects, self._cluster, admission, self._tell)
        self._objects += created.run(expanded, custom, result.custom)
        self._problems += self._odd_fields
        self._objects = self._sound(self._objects)
        namespaces = missing_namespaces([manifest.object for manifest in self._objects], self._cluster)
        self._objects += [Manifest(namespace, None) for namespace in namespaces]
        self._objects.sort(key=lambda manifest: manifest.order)
        result.objects, result.workloads, result.ignored = self._objects, self._workloads, _by_kind(self._ignored)
        result.problems, result.warnings = _with_lines(files, self._problems), _with_lines(files, self._warnings)
        return result

    def _lacks_pods(self, file: str) -> bool:
        """Whether workloads of the file stand for pods that are not in it."""
        return not self._is_complete and file not in self._complete_files

    def _tell(self, manifest: Manifest, problems: Sequence[Problem]) -> None:
        self._problems += _of(manifest, problems)

    def _tell_doubles(self) -> None:
        """Problems of objects that the input has twice."""
        first: dict[tuple[str, str], Manifest] = {}
        kept_twice = [manifest for manifest in self._workloads if manifest.kind not in KINDS]
        every = (*self._objects, *kept_twice)
        names = {(type(manifest.object), manifest.object.key) for manifest in self._objects}
        if len(names) + len({(manifest.kind, manifest.object.key) for manifest in kept_twice}) == len(every):
            return  # Hot: as a rule; to sort 220,000 objects took 0.4 s
        for manifest in sorted(every, key=lambda manifest: manifest.order):
            other = first.setdefault((manifest.kind, manifest.object.key), manifest)
            if other is not manifest and other.place is not None:
                text = f"the object is in {other.file}, {other.place.label}, already; remove one of the two"
                self._tell(manifest, [Problem("metadata.name", text)])

    def _sound(self, manifests: list[Manifest]) -> list[Manifest]:
        faulty = {told.order for told in self._problems}
        return [manifest for manifest in manifests if manifest.order not in faulty] if faulty else manifests


def _by_kind(ignored: Mapping[tuple[str, str], int]) -> Counter[str]:
    found: Counter[str] = Counter()
    for (_, kind), count in ignored.items():
        found[kind] += count
    return found


def _of(manifest: Manifest, problems: Sequence[Problem]) -> list[_Told]:
    if not problems:
        return []
    where, file = manifest.where, manifest.file
    return [_Told(manifest.order, manifest.place, problem.at(where, file)) for problem in problems]


def _with_lines(files: Sequence[ManifestFile], told: list[_Told]) -> list[Problem]:
    """The problems with their lines, sorted by document and line."""
    named = {file.name: file for file in reversed(files)}
    by_file: dict[str, list[tuple[int, DocumentPlace, Problem]]] = {}
    found = [(each.order, each.problem) for each in told if each.place is None]
    for each in told:
        if each.place is not None:
            by_file.setdefault(each.place.file, []).append((each.order, each.place, each.problem))
    for name, asked in by_file.items():
        problems = placed(named[name], [(place, problem) for _, place, problem in asked])
        found += zip((order for order, _, _ in asked), problems, strict=True)
    return [problem for _, problem in sorted(found, key=lambda entry: (entry[0], entry[1].line))]


def _decode(document: Document) -> tuple[KubeObject | None, list[Problem]]:
    """Hot: JSON is decoded directly into the struct; only if that fails, plain data shows all faults."""
    if isinstance(document.body, msgspec.Raw):
        try:
            return decode_json(document.body, document.kind), []
        except ValueError:
            pass  # msgspec reports only the first fault; the plain data shows all
    return _decode_plain(document, KINDS[document.kind].struct)


def _decode_workload(document: Document) -> tuple[Workload | None, list[Problem]]:
    workload, problems = _decode_plain(document, Workload)
    if workload is not None:
        workload.kind = document.kind
    return workload, problems


def _decode_plain(document: Document, struct: type[T]) -> tuple[T | None, list[Problem]]:
    try:
        plain = document.plain()
    except ValueError:
        return None, [Problem("", "the text is not UTF-8: write JSON in UTF-8")]
    typed, problems = decode_as(struct, plain)
    return typed if not problems else None, problems


def note_ignored(manifests: Manifests) -> list[str]:
    """A note about objects that cannot change a decision."""
    if not manifests.ignored:
        return []
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(manifests.ignored.items()))
    return [f"ignored, because decisions do not read these kinds: {kinds}"]
