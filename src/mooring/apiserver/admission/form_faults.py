"""Faults of the form of objects that clients write: what kube-apiserver rejects although no decision depends on it.

The rules are in `rules.pod_form` and `rules.workload_form`. Here they meet the rules of metadata and of pod templates.
"""

from collections.abc import Iterator

from mooring.api.api_errors import Cause, field_forbidden, field_invalid, field_required
from mooring.api.decode import decode_as
from mooring.api.json_objects import JsonObject, at
from mooring.api.kind_spec import KindSpec
from mooring.api.validation.pod_rules import check_pod_spec
from mooring.apiserver.admission.faults import cause_of
from mooring.model.names import qualified_name_faults
from mooring.model.pod_spec import PodSpec
from mooring.rules.workload_form import CHANGE_FAULTS, FORM_FAULTS, NEW_FAULTS

_KUBERNETES = ("", "apps", "batch")
"""Groups with kinds whose finalizers have a domain."""
_STANDARD_FINALIZERS = ("kubernetes", "orphan", "foregroundDeletion")
"""The finalizers without a domain that kube-apiserver knows."""


def form_faults(resource: KindSpec, old: JsonObject, new: JsonObject) -> list[Cause]:
    """The faults of a new object, for which `old` is empty, or of a change. A change that leaves the spec alone is not asked
    for more than its metadata."""
    faults = [*_metadata(resource, old.get("metadata") or {}, new["metadata"])]
    if old and old.get("spec") == new.get("spec"):
        return faults
    key = (resource.group, resource.kind)
    faults += NEW_FAULTS[key](new) if not old and key in NEW_FAULTS else ()
    if resource.pod_template:
        faults += _template(resource, new)
    faults += FORM_FAULTS[key](new) if key in FORM_FAULTS else ()
    return [*faults, *(CHANGE_FAULTS[key](old, new) if old and key in CHANGE_FAULTS else ())]


def _template(resource: KindSpec, item: JsonObject) -> Iterator[Cause]:
    """The rules of pods for the pods that a workload will make: a fault shows at once, and not in an event."""
    path = ".".join((*resource.pod_template, "spec"))
    spec, problems = decode_as(PodSpec, at(item, path, {}))
    found = problems if spec is None else check_pod_spec(path, spec)
    yield from (cause_of(problem, item) for problem in found)


def _metadata(resource: KindSpec, old: JsonObject, new: JsonObject) -> Iterator[Cause]:
    for key in new.get("annotations") or ():
        yield from (field_invalid("metadata.annotations", key, why) for why in qualified_name_faults(key.lower()))
    finalizers = new.get("finalizers") or []
    for i, name in enumerate(finalizers):
        path = f"metadata.finalizers[{i}]"
        yield from (field_invalid(path, name, why) for why in qualified_name_faults(name))
        if "/" not in name and resource.group in _KUBERNETES and name not in _STANDARD_FINALIZERS:
            yield field_invalid(path, name, "name is neither a standard finalizer name nor is it fully qualified")
    added = [name for name in finalizers if name not in (old.get("finalizers") or [])]
    if old.get("deletionTimestamp") and added:
        shown = ", ".join(f'"{name}"' for name in added)
        why = f"no new finalizers can be added if the object is being deleted, found new finalizers []string{{{shown}}}"
        yield field_forbidden("metadata.finalizers", why)
    for i, owner in enumerate(new.get("ownerReferences") or ()):
        missing = [part for part in ("apiVersion", "kind", "name", "uid") if not owner.get(part)]
        yield from (field_required(f"metadata.ownerReferences[{i}].{part}", "must not be empty") for part in missing)
