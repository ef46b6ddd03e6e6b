"""Namespaces, and what limits the objects in a namespace: LimitRanges and ResourceQuotas."""

from mooring.api.json_objects import JsonObject
from mooring.api.kind_spec import READ_WRITE, KindSpec, Watch, labels_at
from mooring.api.table_columns import AGE, NAME, Column, field_cell
from mooring.api.validation import field_rules as rules
from mooring.api.validation.problem import Problems
from mooring.model.workloads import LimitRange, Namespace

_NAME_LABEL = "kubernetes.io/metadata.name"
"""The label that every namespace has, so that namespace selectors can select by name."""


def _complete_namespace(namespace: JsonObject) -> None:
    meta = namespace["metadata"]
    meta["labels"] = {**meta.get("labels", {}), _NAME_LABEL: meta.get("name", "")}
    namespace.setdefault("spec", {}).setdefault("finalizers", ["kubernetes"])


def _complete_limit_range(limit_range: JsonObject) -> None:
    for item in limit_range.get("spec", {}).get("limits", ()):
        complete_limit_item(item)


def complete_limit_item(item: JsonObject) -> None:
    """Default an item of a LimitRange: its maximum is the default limit; that, or else its minimum, is the default
    request. Public, because a simulation reads LimitRanges that no server has defaulted."""
    if item.get("type") == "Container":
        limits = {**item.get("max", {}), **item.get("default", {})}
        asked = {**item.get("min", {}), **limits, **item.get("defaultRequest", {})}
        item |= {key: group for key, group in (("default", limits), ("defaultRequest", asked)) if group}


def _check_limit_range(written: LimitRange) -> Problems:
    for i, item in enumerate(written.spec.limits or ()):
        groups = {"default": item.default, "defaultRequest": item.default_request, "min": item.min, "max": item.max}
        for name, group in groups.items():
            yield from rules.quantities(f"spec.limits[{i}].{name}", group)


NAMESPACE = KindSpec(
    *("", "v1", "namespaces", "Namespace", False, ("ns",)),
    subresources=("status", "finalize"),
    verbs=tuple(verb for verb in READ_WRITE if verb != "deletecollection"),
    struct=Namespace,
    watch=Watch(),
    complete=_complete_namespace,
    completes_status=True,
    new_status={"phase": "Active"},
    has_spec_finalizers=True,
    field_labels=labels_at("metadata.name", "status.phase"),
    columns=(NAME, Column("Status", field_cell("status.phase")), AGE),
)

LIMIT_RANGE = KindSpec(
    *("", "v1", "limitranges", "LimitRange", True, ("limits",)),
    struct=LimitRange,
    check=_check_limit_range,
    complete=_complete_limit_range,
)

RESOURCE_QUOTA = KindSpec("", "v1", "resourcequotas", "ResourceQuota", True, ("quota",), subresources=("status",))
