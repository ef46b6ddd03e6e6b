"""Prices of nodes an hour in the CSV form of OpenCost: by name, label or provider ID of a node, or by instance type."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from mooring.api.validation.problem import Problem, show
from mooring.inputs.offers.offered_node import INSTANCE_TYPE, price_of

COLUMN = "MarketPriceHourly"
"""The column by which the form is recognised."""
REGION = "topology.kubernetes.io/region"
_LABELS = "metadata.labels."


@dataclass(frozen=True, slots=True)
class PriceRow:
    """One price, and which nodes have it."""

    field: str
    """The field of a node that is compared: `metadata.name`, `spec.providerID`, `metadata.labels.KEY`; or empty."""
    value: str
    region: str
    instance_type: str
    price: float

    def fits(self, node: Mapping[str, Any]) -> bool:
        """Whether a node, as a manifest has it, has this price."""
        labels = (node.get("metadata") or {}).get("labels") or {}
        if self.region and labels.get(REGION, self.region).lower() != self.region.lower():
            return False
        if self.instance_type and labels.get(INSTANCE_TYPE) != self.instance_type:
            return False
        if not self.value:
            return bool(self.instance_type)
        if self.field.startswith(_LABELS):
            return bool(labels.get(self.field.removeprefix(_LABELS)) == self.value)
        if self.field == "spec.providerID":
            return self.value in str((node.get("spec") or {}).get("providerID") or "")
        return self.value in ((node.get("metadata") or {}).get("name"), labels.get(INSTANCE_TYPE))


def price_rows(rows: Iterable[tuple[int, Mapping[str, str]]], file: str, problems: list[Problem]) -> list[PriceRow]:
    """The prices of nodes; rows of other assets, such as volumes, are left out."""
    found = []
    for line, row in rows:
        if row.get("AssetClass", "node").strip().lower() != "node":
            continue
        price = price_of(row[COLUMN].strip())
        if price is None:
            problems.append(Problem(COLUMN, show(row[COLUMN]), "a number from 0", file=file, line=line))
            continue
        columns = ("InstanceIDField", "InstanceID", "Region", "InstanceType")
        by, value, region, kind = (row.get(name, "").strip() for name in columns)
        found.append(PriceRow(by, value, region, kind, price))
    return found


def listed_price(rows: Iterable[PriceRow], node: Mapping[str, Any]) -> float | None:
    """The price of a node; None: no row has one. Rows for a region go before rows for all."""
    fitting = [row for row in rows if row.fits(node)]
    return min(fitting, key=lambda row: (not row.region, not row.value)).price if fitting else None
