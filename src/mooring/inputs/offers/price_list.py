"""Prices of nodes an hour: by name or instance type, in the CSV form of OpenCost, or as instance types have them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from mooring.api.validation.problem import Problem, show
from mooring.inputs.offers.instance_types import CAPACITY_TYPE, INSTANCE_TYPE, InstanceType, price_of

COLUMN = "MarketPriceHourly"
"""The column by which the form of OpenCost is recognised."""
REGION = "topology.kubernetes.io/region"
PROVIDER_ID = "spec.providerID"
_LABELS = "metadata.labels."
_DEFAULTS = {CAPACITY_TYPE: "on-demand"}
"""Nodes that Karpenter did not make have no capacity type."""


@dataclass(frozen=True, slots=True)
class PricedNode:
    """The facts about a node by which lists of prices name it."""

    name: str
    labels: Mapping[str, str]
    provider_id: str = ""


@dataclass(frozen=True, slots=True)
class PriceRow:
    """One price, and which nodes have it."""

    price: float
    instance_type: str = ""
    by: str = ""
    """The field of a node that is compared: `spec.providerID`, `metadata.labels.KEY`; others and none: name or type."""
    value: str = ""
    region: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels that a node with this price has: zone and capacity type of an offering."""

    def fits(self, node: PricedNode) -> bool:
        labels = node.labels
        if self.region and labels.get(REGION, self.region).lower() != self.region.lower():
            return False
        if self.instance_type and labels.get(INSTANCE_TYPE) != self.instance_type:
            return False
        if any(labels.get(key, _DEFAULTS.get(key, value)) != value for key, value in self.labels.items()):
            return False
        return self.value in _names(node, self.by) if self.value else bool(self.instance_type)


def _names(node: PricedNode, by: str) -> Sequence[str]:
    """The names of the node, for rows that compare this field."""
    if by.startswith(_LABELS):
        return (node.labels.get(by.removeprefix(_LABELS), ""),)
    if by == PROVIDER_ID:  # aws:///eu-1a/i-0abc: lists have all of it, or its end
        parts = node.provider_id.split("/")
        return ["/".join(parts[start:]) for start in range(len(parts))]
    return node.name, node.labels.get(INSTANCE_TYPE, "")


@dataclass(frozen=True)
class PriceList:
    """Prices from one source. Prices by name or instance type go before rows, and rows for a region before rows for all."""

    by_name: Mapping[str, float] = field(default_factory=dict)
    rows: Sequence[PriceRow] = ()
    unit: str = ""
    """The unit to show beside prices: EUR, or `EUR an hour`."""

    def show(self, amount: float) -> str:
        """An amount of money with its unit, without the hour: 0.096 EUR, 12,345 EUR."""
        text = f"{amount:.4g}" if amount < 1000 else f"{amount:,.0f}"
        return f"{text} {self.unit.removesuffix('an hour')}".strip()

    def price(self, node: PricedNode) -> float | None:
        """The price of a node; None: the list has none."""
        for name in (node.name, node.labels.get(INSTANCE_TYPE, node.name)):
            if name in self.by_name:
                return self.by_name[name]
        fitting = [row for key in self._keys(node) for row in self._rows.get(key, ()) if row.fits(node)]
        return min(fitting, key=lambda row: (not row.region, not row.value)).price if fitting else None

    def _keys(self, node: PricedNode) -> list[tuple[str, str]]:
        """The fields and values under which rows for this node are found. To try all rows on all nodes would take seconds."""
        found = [(by, name) for by in self._fields for name in dict.fromkeys(_names(node, by))]
        return [*found, (INSTANCE_TYPE, node.labels.get(INSTANCE_TYPE, ""))]

    @cached_property
    def _fields(self) -> list[str]:
        return [*dict.fromkeys(row.by for row in self.rows)]

    @cached_property
    def _rows(self) -> dict[tuple[str, str], list[PriceRow]]:
        found: dict[tuple[str, str], list[PriceRow]] = {}
        for row in self.rows:
            key = (row.by, row.value) if row.value else (INSTANCE_TYPE, row.instance_type)
            found.setdefault(key, []).append(row)
        return found


def price_rows(rows: Iterable[tuple[int, Mapping[str, str]]], file: str, problems: list[Problem]) -> list[PriceRow]:
    """The prices of nodes in OpenCost's CSV; rows of other assets, such as volumes, are left out."""
    found = []
    for line, row in rows:
        if row.get("AssetClass", "node").strip().lower() != "node":
            continue
        price = price_of(row[COLUMN].strip())
        if price is None:
            problems.append(Problem(COLUMN, show(row[COLUMN]), "a number from 0", file=file, line=line))
            continue
        columns = ("InstanceType", "InstanceIDField", "InstanceID", "Region")
        kind, by, value, region = (row.get(name, "").strip() for name in columns)
        found.append(PriceRow(price, kind, by, value, region))
    return found


def offering_rows(types: Iterable[InstanceType]) -> list[PriceRow]:
    """The prices of instance types, where they are offered."""
    return [
        PriceRow(offering.price, kind.name, labels=offering.labels)
        for kind in types
        for offering in kind.offerings
        if offering.price is not None
    ]
