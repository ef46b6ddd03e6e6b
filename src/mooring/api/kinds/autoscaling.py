"""HorizontalPodAutoscalers: stored as autoscaling/v2, and served as autoscaling/v1 too.

Version 1 has one field for the target of CPU; upstream keeps what it cannot say in annotations of the object, as JSON.
"""

import json
from typing import Any

from mooring.api.json_objects import JsonObject, at, metadata_of
from mooring.api.kind_spec import AGE, NAME, Cell, Column, KindSpec, OtherForm, number

V1, V2 = "autoscaling/v1", "autoscaling/v2"
_PREFIX = "autoscaling.alpha.kubernetes.io/"
METRICS, BEHAVIOR, CONDITIONS = f"{_PREFIX}metrics", f"{_PREFIX}behavior", f"{_PREFIX}conditions"
_KEPT = (METRICS, BEHAVIOR, CONDITIONS)
_DEFAULT_CPU_PERCENT = 80
"""Parity: the target of an autoscaler that names no metric."""
_STATUS = ("observedGeneration", "lastScaleTime", "currentReplicas", "desiredReplicas")
"""Fields of the status that both versions have."""


def _cpu(percent: Any) -> JsonObject:
    target = {"type": "Utilization", "averageUtilization": percent}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


def _cpu_percent(metric: JsonObject) -> Any:
    """The target of a metric that version 1 has a field for; None for any other metric."""
    resource = metric.get("resource") or {}
    return at(resource, "target.averageUtilization") if resource.get("name") == "cpu" else None


def _complete(autoscaler: JsonObject) -> None:
    """Version 1 gets its default target when it is converted: annotations may name metrics."""
    spec = autoscaler.setdefault("spec", {})
    spec.setdefault("minReplicas", 1)
    if autoscaler["apiVersion"] == V2 and not spec.get("metrics"):
        spec["metrics"] = [_cpu(_DEFAULT_CPU_PERCENT)]


# ---- metrics in the form that the annotation has


_SELECTED = {"Pods": "selector", "Object": "selector", "External": "metricSelector"}
"""By type of metric, the field for the selector of the metric."""


def _parts_of(metric: JsonObject) -> tuple[str, str, JsonObject, JsonObject]:
    """The type of a metric, the field that its type names, what is there, and what both versions have alike of it."""
    kind = str(metric.get("type", ""))
    key = kind[:1].lower() + kind[1:]
    source: JsonObject = metric.get(key) or {}
    return kind, key, source, {name: source[name] for name in ("name", "container") if name in source}


def _flat(metric: JsonObject) -> JsonObject:
    """A metric of version 2 as version 1 writes it: the target is spread over fields."""
    kind, key, source, made = _parts_of(metric)
    target = source.get("target") or {}
    if "metric" in source:
        made["metricName"] = at(source, "metric.name", "")
        made |= {_SELECTED[kind]: source["metric"]["selector"]} if source["metric"].get("selector") else {}
    if kind == "Object":
        made["target"] = source.get("describedObject")
        values = {"targetValue": target.get("value", "0"), "averageValue": target.get("averageValue")}
    else:
        values = {f"target{name[:1].upper()}{name[1:]}": target.get(name) for name in _TARGETS}
    return {"type": kind, key: made | {name: value for name, value in values.items() if value is not None}}


_TARGETS = ("value", "averageValue", "averageUtilization")


def _nested(metric: JsonObject) -> JsonObject:
    """The metric of version 2 that `_flat` makes this of."""
    kind, key, source, made = _parts_of(metric)
    if "metricName" in source:
        selector = source.get(_SELECTED.get(kind, ""))
        made["metric"] = {"name": source["metricName"], **({"selector": selector} if selector else {})}
    values = {name: source.get(f"target{name[:1].upper()}{name[1:]}") for name in _TARGETS}
    if kind == "Object":
        made["describedObject"] = source.get("target")
        values |= {"averageValue": source.get("averageValue")}
        if values["averageValue"] is not None:
            values["value"] = None
    known = {name: value for name, value in values.items() if value is not None}
    types = {"value": "Value", "averageValue": "AverageValue", "averageUtilization": "Utilization"}
    return {"type": kind, key: {**made, "target": {"type": types[next(iter(known), "value")], **known}}}


# ---- objects


def _to_v1(autoscaler: JsonObject) -> JsonObject:
    spec, status = {**autoscaler.get("spec", {})}, autoscaler.get("status", {})
    notes: dict[str, str] = {}
    metrics = spec.pop("metrics", None) or []
    behavior = spec.pop("behavior", None)
    chosen = next((metric for metric in metrics if _cpu_percent(metric) is not None), None)
    if chosen is not None:
        spec["targetCPUUtilizationPercentage"] = _cpu_percent(chosen)
    others = [_flat(metric) for metric in metrics if metric is not chosen]
    for name, value in ((METRICS, others), (BEHAVIOR, behavior), (CONDITIONS, status.get("conditions"))):
        if value:
            notes[name] = json.dumps(value, separators=(",", ":"))
    made = {**autoscaler, "apiVersion": V1, "spec": spec, "metadata": _with_notes(autoscaler, notes)}
    if "status" in autoscaler:
        made["status"] = {key: status[key] for key in _STATUS if key in status}
    return made


def _to_v2(autoscaler: JsonObject) -> JsonObject:
    spec, status = {**autoscaler.get("spec", {})}, {**autoscaler.get("status", {})}
    percent = spec.pop("targetCPUUtilizationPercentage", None)
    others = _note(autoscaler, METRICS, list)
    metrics = [*map(_nested, others or ()), *([_cpu(percent)] if percent is not None else [])]
    spec["metrics"] = metrics or [_cpu(_DEFAULT_CPU_PERCENT)]
    if behavior := _note(autoscaler, BEHAVIOR, dict):
        spec["behavior"] = behavior
    if conditions := _note(autoscaler, CONDITIONS, list):
        status["conditions"] = conditions
    made = {**autoscaler, "apiVersion": V2, "spec": spec, "metadata": _with_notes(autoscaler, {})}
    return made | ({"status": status} if "status" in autoscaler else {})


def _note(autoscaler: JsonObject, name: str, wanted: type) -> Any:
    """The value in an annotation; None where it is missing or has another form, because users may write annotations."""
    annotations = metadata_of(autoscaler).get("annotations")
    try:
        value = json.loads((annotations or {}).get(name, "null"))
    except (ValueError, RecursionError):
        return None
    if wanted is list and isinstance(value, list) and not all(map(_is_entry, value)):
        return None
    return value if isinstance(value, wanted) else None


def _is_entry(entry: Any) -> bool:
    """Whether a part of an annotation is a metric or a condition: an object with a type, in which objects hold the rest."""
    if not isinstance(entry, dict) or not isinstance(entry.get("type"), str):
        return False
    kind = entry["type"]
    return isinstance(entry.get(kind[:1].lower() + kind[1:], {}), dict)


def _with_notes(autoscaler: JsonObject, notes: dict[str, str]) -> JsonObject:
    """The metadata with these annotations of the conversion, and no others."""
    metadata = {key: value for key, value in metadata_of(autoscaler).items() if key != "annotations"}
    held = metadata_of(autoscaler).get("annotations") or {}
    kept = {key: value for key, value in held.items() if key not in _KEPT} | notes
    return {**metadata, "annotations": kept} if kept else metadata


# ---- what `kubectl get` prints


def _reference(autoscaler: JsonObject, _: int) -> Cell:
    return f"{at(autoscaler, 'spec.scaleTargetRef.kind', '')}/{at(autoscaler, 'spec.scaleTargetRef.name', '')}"


def _targets(autoscaler: JsonObject, _: int) -> Cell:
    """No controller measures anything here, so that current values are unknown."""
    if "metrics" not in autoscaler.get("spec", {}):
        autoscaler = _to_v2(autoscaler)
    shown = []
    for metric in autoscaler["spec"]["metrics"]:
        source = metric.get(metric["type"][:1].lower() + metric["type"][1:]) or {}
        name = source.get("name") or at(source, "metric.name", "")
        percent = at(source, "target.averageUtilization")
        wanted = at(source, "target.value") or at(source, "target.averageValue", "")
        shown.append(f"{name}: <unknown>/{f'{percent}%' if percent is not None else wanted}")
    return ", ".join(shown)


HORIZONTAL_POD_AUTOSCALER = KindSpec(
    *("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler", True, ("hpa",), ("all",)),
    subresources=("status",),
    served_too=(V1,),
    other_forms={V1: OtherForm(_to_v2, _to_v1)},
    complete=_complete,
    columns=(
        *(NAME, Column("Reference", _reference), Column("Targets", _targets), number("MinPods", "spec.minReplicas", 1)),
        *(number("MaxPods", "spec.maxReplicas"), number("Replicas", "status.currentReplicas"), AGE),
    ),
)
