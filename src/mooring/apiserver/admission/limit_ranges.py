"""The LimitRanger admission: defaults for containers that do not say, and bounds that pods must keep."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from mooring.apiserver.admission.tidy import show_amount
from mooring.apiserver.lookups import Lookups, name_of
from mooring.model.api_errors import forbidden
from mooring.model.json_objects import JsonObject
from mooring.model.quantity import NANO, parse
from mooring.model.validation.field_rules import amount
from mooring.rules.pod_admission import add_limits

_NOTE = "kubernetes.io/limit-ranger"
_CONTAINER = "Container"


def apply_limit_ranges(pod: JsonObject, cluster: Lookups) -> None:
    """Fill in the defaults of the namespace, then check the pod against its bounds."""
    found = sorted(cluster.limit_ranges(pod["metadata"]["namespace"]), key=name_of)
    items = [item for held in found for item in held.get("spec", {}).get("limits", ())]
    notes = [note for item in items for note in add_limits(pod["spec"], item)]
    if notes:
        annotations = pod["metadata"].setdefault("annotations", {})
        annotations[_NOTE] = f"LimitRanger plugin set: {'; '.join(notes)}"
    faults = [fault for item in items for fault in limit_faults(pod["spec"], item)]
    if faults:
        raise forbidden("pods", name_of(pod), faults[0] if len(faults) == 1 else f"[{', '.join(faults)}]")


def limit_faults(spec: JsonObject, item: JsonObject) -> Iterator[str]:
    """The bounds that the pod, or a container of it, does not keep."""
    if item.get("type") == _CONTAINER:
        for container in (*spec.get("containers", ()), *spec.get("initContainers", ())):
            resources = container.get("resources", {})
            yield from _Bounds(_CONTAINER, _amounts(resources, "requests"), _amounts(resources, "limits")).broken(item)
    elif item.get("type") == "Pod":
        yield from _Bounds("Pod", _total(spec, "requests"), _total(spec, "limits")).broken(item)


@dataclass(frozen=True, slots=True)
class _Bounds:
    """One container, or one pod, before the bounds of one item of a LimitRange. Amounts are in nano-units."""

    what: str
    asked: dict[str, int]
    limits: dict[str, int]

    def broken(self, item: JsonObject) -> Iterator[str]:
        for name, text in item.get("min", {}).items():
            yield from self._below(name, parse(text))
        for name, text in item.get("max", {}).items():
            yield from self._above(name, parse(text))
        for name, text in item.get("maxLimitRequestRatio", {}).items():
            yield from self._apart(name, amount(text) or 0)

    def _below(self, name: str, bound: int) -> Iterator[str]:
        rule = f"minimum {name} usage per {self.what} is {show_amount(bound)}"
        if name not in self.asked:
            yield f"{rule}.  No request is specified"
        elif self.asked[name] < bound:
            yield f"{rule}, but request is {show_amount(self.asked[name])}"
        elif name in self.limits and self.limits[name] < bound:
            yield f"{rule}, but limit is {show_amount(self.limits[name])}"

    def _above(self, name: str, bound: int) -> Iterator[str]:
        rule = f"maximum {name} usage per {self.what} is {show_amount(bound)}"
        if name not in self.limits:
            yield f"{rule}.  No limit is specified"
        elif self.limits[name] > bound:
            yield f"{rule}, but limit is {show_amount(self.limits[name])}"
        elif self.asked.get(name, 0) > bound:
            yield f"{rule}, but request is {show_amount(self.asked[name])}"

    def _apart(self, name: str, ratio: int) -> Iterator[str]:
        if not ratio:
            return
        rule = f"{name} max limit to request ratio per {self.what} is {show_amount(ratio)}"
        if not self.asked.get(name):
            yield f"{rule}, but no request is specified or request is 0"
        elif not self.limits.get(name):
            yield f"{rule}, but no limit is specified or limit is 0"
        elif self.limits[name] * NANO > ratio * self.asked[name]:
            yield f"{rule}, but provided ratio is {self.limits[name] / self.asked[name]:f}"


def _amounts(resources: JsonObject, group: str) -> dict[str, int]:
    return {name: parse(text) for name, text in resources.get(group, {}).items()}


def _total(spec: JsonObject, group: str) -> dict[str, int]:
    """What all containers have together, or one init container alone where that is more."""
    total: dict[str, int] = {}
    for name, nano in _each(spec.get("containers", ()), group):
        total[name] = total.get(name, 0) + nano
    for name, nano in _each(spec.get("initContainers", ()), group):
        total[name] = max(total.get(name, 0), nano)
    return total


def _each(containers: Iterable[JsonObject], group: str) -> Iterator[tuple[str, int]]:
    for container in containers:
        yield from _amounts(container.get("resources", {}), group).items()
