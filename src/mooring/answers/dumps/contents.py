"""What a dump holds: every object that decisions read, with the fields that they read, and nothing else.

The structs of the model have only these fields, so what is encoded from them has no managedFields, no environment, no
commands and no arguments. Of annotations, which are free text, only those stay that some code of Mooring reads.
"""

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from mooring.model.json_objects import JsonObject
from mooring.model.kinds import BY_STRUCT, KINDS, WORKLOADS
from mooring.model.meta import KubeObject
from mooring.model.workloads import Workload
from mooring.recording.concealed import KEPT_ANNOTATIONS, OWN_ANNOTATIONS
from mooring.sim.reading.dump_header import DumpHeader, header_object
from mooring.sim.reading.manifests import Manifests
from mooring.sim.reading.pod_events import API_VERSION as EVENT_VERSION
from mooring.sim.reading.pod_events import KIND as EVENT


def dumped_objects(manifests: Manifests, settings: JsonObject | None = None) -> Iterator[JsonObject]:
    """The items of the dump: its header, the settings of the scheduler if it has them, objects, workloads, events."""
    yield header_object(header_of(manifests))
    if settings is not None:
        yield settings
    workloads = {(each.kind, each.object.key): each.object for each in manifests.workloads}
    for manifest in manifests.objects:
        workload = workloads.pop((manifest.kind, manifest.object.key), None)
        yield written_object(manifest.object, workload)
    for workload in workloads.values():
        yield written_object(workload)
    for event in manifests.events:
        yield {"apiVersion": EVENT_VERSION, "kind": EVENT, **_encoded(event)}


def header_of(manifests: Manifests) -> DumpHeader:
    """The header of the source, or a new one. A reader has made the pods of workloads, so all are there."""
    return msgspec.structs.replace(manifests.header or DumpHeader(), has_all_pods=True)


def written_object(item: KubeObject, workload: KubeObject | None = None) -> JsonObject:
    """An object as a manifest. A ReplicaSet and its like are read twice: for its selector, and as a workload."""
    if isinstance(item, Workload):
        body = _encoded(item)
        body.pop("kind", None)
        return {"apiVersion": WORKLOADS[item.kind].api_version, "kind": item.kind, **body}
    spec = BY_STRUCT[type(item)]
    body = _encoded(item)
    if workload is not None:
        whole = _encoded(workload)
        body = {**whole, **body, "spec": {**whole.get("spec", {}), **body.get("spec", {})}}
        body.pop("kind", None)
    elif spec.makes_pods:  # a ReplicaSet that a reader made of a Deployment has no template
        body["spec"] = {**body.get("spec", {}), "replicas": 0}
    return {"apiVersion": spec.api_version, "kind": spec.kind, **body}


def _encoded(item: KubeObject) -> JsonObject:
    body: JsonObject = msgspec.to_builtins(item)
    _strip_annotations(body)
    return body


def _strip_annotations(body: JsonObject) -> None:
    """Remove annotations that nothing reads, in place: of the object, and of the templates in it."""
    metadata = body.get("metadata")
    if isinstance(metadata, dict) and "annotations" in metadata:
        kept = kept_annotations(metadata["annotations"])
        metadata.pop("annotations")
        if kept:
            metadata["annotations"] = kept
    spec = body.get("spec")
    if isinstance(spec, dict):
        for inner in _templates(spec):
            _strip_annotations(inner)


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


def kept_annotations(annotations: Mapping[str, str]) -> dict[str, str]:
    return {
        key: text for key, text in annotations.items() if key in KEPT_ANNOTATIONS or key.startswith(OWN_ANNOTATIONS)
    }


def counts(items: Iterable[JsonObject]) -> dict[str, int]:
    """How many objects of each kind there are."""
    found: dict[str, int] = {}
    for item in items:
        if item["kind"] in KINDS or item["kind"] in WORKLOADS:
            found[item["kind"]] = found.get(item["kind"], 0) + 1
    return found
