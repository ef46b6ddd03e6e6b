"""The contents of a dump: every object that decisions read, with the fields that they read, and nothing else.

The structs of the model have only these fields, so what is encoded from them has no managedFields, no environment, no
commands and no arguments. Of annotations, which are free text, only those stay that Mooring or a plugin reads; the header
names others.
"""

import gzip
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from mooring.api.json_objects import JsonObject
from mooring.api.kinds import BY_STRUCT, KINDS, WORKLOADS
from mooring.framework.contract.annotation_keys import AnnotationKeys
from mooring.inputs.dump_header import EVENT, EVENT_VERSION, DumpHeader, header_object, read_header
from mooring.inputs.manifests import Manifests
from mooring.kit.bounded_reading import GZIP_SUFFIX
from mooring.kit.private_files import write_private
from mooring.model.meta import KubeObject
from mooring.model.workloads import Workload
from mooring.state.recording.recorded_steps import READ_ANNOTATIONS

# ---- The file of a dump: a v1 List as JSON with one object on each line, compressed if its name ends in .gz.


_BEGIN, _BETWEEN, _END = b'{"apiVersion":"v1","kind":"List","metadata":{},"items":[\n', b",\n", b"\n]}\n"


def dump_text(items: Iterable[JsonObject]) -> bytes:
    """The list, in which programs like `kubectl` and `jq` find what they expect."""
    return _BEGIN + _BETWEEN.join(map(msgspec.json.encode, items)) + _END


def write_dump(path: Path, text: bytes) -> None:
    """Write the file at once, under another name until it is complete. Only its owner may read it. Raises OSError."""
    # Without a time in the header, two dumps of the same objects are equal.
    write_private(path, gzip.compress(text, mtime=0) if path.name.lower().endswith(GZIP_SUFFIX) else text)


NAMED_KEYS = 100
"""How many keys of annotations that were left out the header names, those of most objects first: keys may be unique."""
EVERY_KEY = AnnotationKeys.of("*")


def dumped_objects(
    manifests: Manifests, settings: JsonObject | None = None, kept: AnnotationKeys | None = None
) -> list[JsonObject]:
    """The items of the dump: its header, the settings of the scheduler if it has them, objects, workloads, events.

    `kept` are annotations that plugins read, or that the user wants to keep.
    """
    kept, left_out = READ_ANNOTATIONS | (kept or AnnotationKeys()), Counter[str]()
    for manifest in manifests.objects:
        left_out.update(key for key in manifest.object.metadata.annotations or () if key not in kept)
    known = header_of(manifests)
    # A dump that is made of a dump lacks what the first one lacks.
    before = (key for key in known.left_out_annotations or () if key not in kept)
    named = sorted({*(key for key, _ in left_out.most_common(NAMED_KEYS)), *before})
    header = msgspec.structs.replace(known, left_out_annotations=named or None)
    objects = (_stripped(each, kept) for each in _written_objects(manifests))
    return [header_object(header), *([settings] if settings is not None else []), *objects]


def _written_objects(manifests: Manifests) -> Iterator[JsonObject]:
    """Objects that decisions read, then workloads without such an object, then events."""
    workloads = {(each.kind, each.object.key): each.object for each in manifests.workloads}
    for manifest in manifests.objects:
        yield written_object(manifest.object, workloads.pop((manifest.kind, manifest.object.key), None))
    yield from map(written_object, workloads.values())
    for event in manifests.events:
        yield {"apiVersion": EVENT_VERSION, "kind": EVENT, **msgspec.to_builtins(event)}


def _stripped(body: JsonObject, kept: AnnotationKeys) -> JsonObject:
    """The object, after annotations that nothing reads were removed in place: its own, and those of its templates."""
    metadata = body.get("metadata")
    if isinstance(metadata, dict) and "annotations" in metadata:
        held = metadata.pop("annotations")
        if found := {key: text for key, text in held.items() if key in kept}:
            metadata["annotations"] = found
    spec = body.get("spec")
    if isinstance(spec, dict):
        for inner in _templates(spec):
            _stripped(inner, kept)
    return body


def header_of(manifests: Manifests) -> DumpHeader:
    """The header of the source, or a new one. A reader has made the pods of workloads, so all are there."""
    return msgspec.structs.replace(manifests.header or DumpHeader(), has_all_pods=True)


def header_in(items: Sequence[JsonObject]) -> DumpHeader:
    """The header of a dump that `dumped_objects` made."""
    return read_header(items[0]) or DumpHeader()


def written_object(item: KubeObject, workload: KubeObject | None = None) -> JsonObject:
    """An object as a manifest. A ReplicaSet and its like are read twice: for its selector, and as a workload."""
    if isinstance(item, Workload):
        body: JsonObject = msgspec.to_builtins(item)
        body.pop("kind", None)
        return {"apiVersion": WORKLOADS[item.kind].api_version, "kind": item.kind, **body}
    spec = BY_STRUCT[type(item)]
    body = msgspec.to_builtins(item)
    if workload is not None:
        whole = msgspec.to_builtins(workload)
        body = {**whole, **body, "spec": {**whole.get("spec", {}), **body.get("spec", {})}}
        body.pop("kind", None)
    elif spec.makes_pods:  # a ReplicaSet that a reader made of a Deployment has no template
        body["spec"] = {**body.get("spec", {}), "replicas": 0}
    return {"apiVersion": spec.api_version, "kind": spec.kind, **body}


def _templates(spec: JsonObject) -> Iterator[JsonObject]:
    """The templates of a spec: of pods, of claims, and those of ephemeral volumes inside of a pod."""
    if isinstance(spec.get("template"), dict):
        yield spec["template"]
    if isinstance(spec.get("metadata"), dict):  # the spec of a ResourceClaimTemplate is a template
        yield spec
    yield from spec.get("volumeClaimTemplates") or ()
    for volume in spec.get("volumes") or ():
        template = (volume.get("ephemeral") or {}).get("volumeClaimTemplate")
        if template is not None:
            yield template


def counts(items: Iterable[JsonObject]) -> dict[str, int]:
    """How many objects of each kind there are."""
    found: dict[str, int] = {}
    for item in items:
        if item["kind"] in KINDS or item["kind"] in WORKLOADS:
            found[item["kind"]] = found.get(item["kind"], 0) + 1
    return found
