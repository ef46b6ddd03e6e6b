"""OfferedNode: a kind of node that can be had, before it is checked like a manifest; and the instance types of a cloud
as offers, from the JSON of Karpenter's kwok provider, in its older and its newer form, or from CSV.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, TypeGuard

from mooring.api.validation.problem import Problem, show
from mooring.model.quantity import QuantityError, parse, to_amount, to_milli_amount

INSTANCE_TYPE, ZONE = "node.kubernetes.io/instance-type", "topology.kubernetes.io/zone"
ARCH, OS = "kubernetes.io/arch", "kubernetes.io/os"
CAPACITY_TYPE, NODE_POOL = "karpenter.sh/capacity-type", "karpenter.sh/nodepool"
PRICE = "mooring.dev/price"
"""A label or an annotation of a node: what it costs an hour, as a number."""
DEFAULT_PODS = "110"
"""How many pods a node takes if nothing else is said: the default of kubelets."""

Amounts = Mapping[str, str]
"""Resource -> quantity, as manifests have them."""
_NO_NAME = re.compile(r"[^a-z0-9.-]+")


@dataclass(frozen=True, slots=True)
class PoolLimits:
    """The room that all nodes of a pool together may still have. Pools with a higher weight are used first."""

    name: str
    left: Mapping[str, int] = field(default_factory=dict)
    """Resource -> amount, in the units of the node table; `nodes` is a number of nodes. Empty: there is no limit."""
    weight: int = 0

    def nodes(self, capacity: Amounts) -> int | None:
        """How many nodes with this capacity the limits allow; None: any number."""
        most = [
            left if name == "nodes" else left // amount
            for name, left in self.left.items()
            if name == "nodes" or (amount := amount_of(name, capacity.get(name, "0")) or 0)
        ]
        return min(most, default=None)


@dataclass(frozen=True, slots=True)
class OfferedNode:
    """A kind of node: labels, taints and amounts of its nodes, and what one costs an hour."""

    name: str
    price: float | None
    labels: Mapping[str, str]
    capacity: Amounts
    allocatable: Amounts
    taints: Sequence[Mapping[str, Any]] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)
    pool: PoolLimits | None = None
    limit: int | None = None
    file: str = ""
    where: str = ""
    """The object or entry of the file, for problems."""

    def manifest(self) -> dict[str, Any]:
        """The node as a manifest has it."""
        return {
            "metadata": {"labels": dict(self.labels), "annotations": dict(self.annotations)},
            "spec": {"taints": [dict(taint) for taint in self.taints]},
            "status": {"allocatable": dict(self.allocatable), "capacity": dict(self.capacity)},
        }

    def problem(self, path: str, found: str, allowed: str = "") -> Problem:
        return Problem(path, found, allowed, self.where, self.file)


def offer_name(*parts: str) -> str:
    """A name for nodes from the names of a pool, an instance type, a zone and so on, without what node names cannot have."""
    return _NO_NAME.sub("-", "-".join(filter(None, parts)).lower()).strip("-.")[:200] or "offer"


def amount_of(resource: str, quantity: object) -> int | None:
    """A quantity in the units of the node table; None if it is none."""
    try:
        parsed = parse(str(quantity))
        return to_milli_amount(parsed) if resource == "cpu" else to_amount(parsed)
    except QuantityError:
        return None


def checked_amounts(written: object, path: str, problems: list[Problem]) -> dict[str, str]:
    """A map of quantities; notes problems of others."""
    if not isinstance(written, Mapping):
        problems.append(Problem(path, show(written), "an object with a quantity for each resource"))
        return {}
    found: dict[str, str] = {}
    for name, quantity in written.items():
        if amount_of(str(name), quantity) is None:
            problems.append(Problem(f"{path}[{name}]", show(quantity), "a quantity, such as 16 or 64Gi"))
        else:
            found[str(name)] = str(quantity)
    return found


def price_of(written: object) -> float | None:
    """A price; None if it is no number from 0."""
    try:
        price = float(written) if isinstance(written, str) else written
    except ValueError:
        return None
    return float(price) if is_price(price) else None


def is_price(written: object) -> TypeGuard[int | float]:
    """Whether plain data is a price: a number from 0."""
    return isinstance(written, int | float) and not isinstance(written, bool) and 0 <= written < 1e15


MAX_VARIANTS = 64
"""Combinations of labels of one offering: a list of values in a file must not fill the memory."""
KWOK = "karpenter.kwok.sh"
"""The prefix of labels that the kwok provider gives to nodes."""
AWS = "karpenter.k8s.aws"
"""The prefix of labels that NodePools of AWS name. They follow from the name of a type."""
RESERVED = {"cpu": 100, "memory": 10 << 20}
"""The kwok provider takes this off the capacity for the kubelet: 100m and 10Mi."""
_AWS_NAME = re.compile(r"(([a-z]+)-?[a-z]*?(\d+)[a-z0-9-]*)\.([a-z0-9-]+)")

CSV_NAMES = ("instancetype", "instance_type", "name")
CSV_LABELS = {
    "zone": ZONE,
    "capacitytype": CAPACITY_TYPE,
    "capacity_type": CAPACITY_TYPE,
    "architecture": ARCH,
    "arch": ARCH,
    "operatingsystem": OS,
    "os": OS,
}


@dataclass(frozen=True, slots=True)
class InstanceOffering:
    """A place where a type can be had, as labels of its nodes, and the price of an hour there."""

    labels: Mapping[str, str]
    price: float | None


@dataclass(frozen=True, slots=True)
class InstanceType:
    """A type of machine."""

    name: str
    labels: Mapping[str, str]
    capacity: Amounts
    allocatable: Amounts
    offerings: Sequence[InstanceOffering]
    file: str = field(default="", compare=False)


def are_instance_types(written: Any) -> bool:
    """Whether a document is a list of instance types: its entries have offerings."""
    return isinstance(written, list) and any(isinstance(entry, Mapping) and "offerings" in entry for entry in written)


def instance_types(written: Sequence[Any], file: str, problems: list[Problem]) -> list[InstanceType]:
    """The types of a document; its problems are noted."""
    found: list[InstanceType] = []
    for number, entry in enumerate(written):
        faults: list[Problem] = []
        if not isinstance(entry, Mapping):
            faults.append(Problem("", show(entry), "an object with name, offerings and resources"))
        else:
            found += _read_type(_lowered(entry), file, faults)
        problems += [fault.under(f"[{number}]").at("", file) for fault in faults]
    return found


def _lowered(written: Mapping[str, Any]) -> dict[str, Any]:
    """Field names in lower case, as JSON of Go is read: files have `Price` as well as `price`."""
    return {str(name).lower(): value for name, value in written.items()}


def _read_type(entry: Mapping[str, Any], file: str, faults: list[Problem]) -> Iterator[InstanceType]:
    name = entry.get("name")
    if not isinstance(name, str) or not name:
        faults.append(Problem("name", show(name), "the name of a type"))
        return
    capacity = {"pods": DEFAULT_PODS, **checked_amounts(entry.get("resources"), "resources", faults)}
    written = entry.get("offerings")
    if not isinstance(written, list):
        faults.append(Problem("offerings", show(written), "a list"))
        return
    offerings = [
        offering for at, each in enumerate(written) for offering in _offerings(each, f"offerings[{at}]", faults)
    ]
    own = _requirement_labels(entry.get("requirements"), "requirements", faults)
    for os_name in _names(entry.get("operatingsystems"), faults):
        labels = {**type_labels(name, capacity), ARCH: str(entry.get("architecture") or "amd64"), OS: os_name}
        for more in own:
            yield InstanceType(name, {**labels, **more}, capacity, after_kubelet(capacity), offerings, file)


def type_labels(name: str, capacity: Amounts) -> dict[str, str]:
    """The labels that follow from the name and the amounts of a type, as providers of Karpenter set them."""
    cpu, memory = (str(capacity.get(resource, "0")) for resource in ("cpu", "memory"))
    aws = _AWS_NAME.fullmatch(name)
    parts = re.split(r"[.-]", name, maxsplit=1)
    family = parts[0] if len(parts) > 1 else name[:1]
    labels = {
        INSTANCE_TYPE: name,
        f"{KWOK}/instance-family": family,
        f"{KWOK}/instance-size": aws[4] if aws else cpu,
        f"{KWOK}/instance-cpu": cpu,
        f"{KWOK}/instance-memory": memory,
    }
    if aws:
        mebibytes = (amount_of("memory", memory) or 0) >> 20
        named = {"family": aws[1], "category": aws[2], "generation": aws[3], "size": aws[4], "cpu": cpu}
        labels |= {f"{AWS}/instance-{key}": text for key, text in {**named, "memory": str(mebibytes)}.items()}
    return labels


def after_kubelet(capacity: Amounts) -> dict[str, str]:
    """The capacity without what the kubelet takes."""
    left = dict(capacity)
    for name, taken in RESERVED.items():
        if name in left:
            amount = max((amount_of(name, left[name]) or 0) - taken, 0)
            left[name] = f"{amount}m" if name == "cpu" else str(amount)
    return left


def _offerings(written: Any, path: str, faults: list[Problem]) -> Iterator[InstanceOffering]:
    """An offering, once for each combination of labels that it allows; none if it is not available."""
    if not isinstance(written, Mapping):
        faults.append(Problem(path, show(written), "an object with a price"))
        return
    entry = _lowered(written)
    price = price_of(entry.get("price"))
    if price is None:
        faults.append(Problem(f"{path}.price", show(entry.get("price")), "a number from 0"))
        return
    if entry.get("available") is False:
        return
    named = {ZONE: entry.get("zone"), CAPACITY_TYPE: entry.get("capacitytype")}
    plain = {key: str(text) for key, text in named.items() if text}
    for labels in _requirement_labels(entry.get("requirements"), f"{path}.requirements", faults):
        yield InstanceOffering({**plain, **labels}, price)


def _requirement_labels(written: Any, path: str, faults: list[Problem]) -> list[dict[str, str]]:
    """The labels that requirements with the operator In stand for, one dictionary for each combination."""
    choices: list[list[tuple[str, str]]] = []
    entries = written if isinstance(written, list) else [] if written is None else [written]
    for number, each in enumerate(entries):
        entry = _lowered(each) if isinstance(each, Mapping) else {}
        values = entry.get("values")
        if not isinstance(entry.get("key"), str) or not isinstance(entry.get("operator"), str):
            faults.append(Problem(f"{path}[{number}]", show(each), "an object with key, operator and values"))
        elif entry["operator"] == "In" and isinstance(values, list) and values:
            choices.append([(entry["key"], str(text)) for text in values])
    combined = 1
    for choice in choices:
        combined *= len(choice)
    if combined > MAX_VARIANTS:
        faults.append(Problem(path, f"{combined} combinations of values; write at most {MAX_VARIANTS}"))
        return []
    return [dict(each) for each in product(*choices)]


def _names(written: Any, faults: list[Problem]) -> list[str]:
    """Operating systems: a list, or an object whose keys they are; linux if there are none."""
    if written is None or written == [] or written == {}:
        return ["linux"]
    if isinstance(written, Mapping | list):
        return [str(name) for name in written]
    faults.append(Problem("operatingSystems", show(written), "a list of names"))
    return []


# ---- CSV


def csv_instance_types(
    rows: Iterable[tuple[int, Mapping[str, str]]], file: str, problems: list[Problem]
) -> list[InstanceType]:
    """The types of a table with a row for each offering: a column for the name, `price`, columns for labels (zone,
    capacityType, architecture, operatingSystem), and a column for each resource. Rows with equal amounts are one type."""
    found: dict[tuple[Any, ...], tuple[InstanceType, list[InstanceOffering]]] = {}
    for line, cells in rows:
        row = {name.strip(): cell.strip() for name, cell in cells.items()}
        lowered = {name.lower(): name for name in row}
        name = next((row[lowered[each]] for each in CSV_NAMES if each in lowered), "")
        price = price_of(row[lowered["price"]])
        labels = {CSV_LABELS[each]: row[own] for each, own in lowered.items() if each in CSV_LABELS and row[own]}
        amounts = {
            own: row[own]
            for each, own in lowered.items()
            if each not in (*CSV_NAMES, *CSV_LABELS, "price") and row[own]
        }
        faults: list[Problem] = []
        capacity = {"pods": DEFAULT_PODS, **checked_amounts(amounts, "", faults)}
        if not name:
            faults.append(Problem("name", show(name), "the name of a type"))
        if price is None:
            faults.append(Problem("price", show(row[lowered["price"]]), "a number from 0"))
        if faults:
            problems += [
                Problem(each.path.strip("[]"), each.found, each.allowed, file=file, line=line) for each in faults
            ]
            continue
        fixed = {**type_labels(name, capacity), ARCH: labels.pop(ARCH, "amd64"), OS: labels.pop(OS, "linux")}
        key = name, *sorted(fixed.items()), *sorted(capacity.items())
        kept = found.setdefault(key, (InstanceType(name, fixed, capacity, after_kubelet(capacity), [], file), []))
        kept[1].append(InstanceOffering(labels, price))
    return [
        InstanceType(kind.name, kind.labels, kind.capacity, kind.allocatable, offerings, file)
        for kind, offerings in found.values()
    ]
