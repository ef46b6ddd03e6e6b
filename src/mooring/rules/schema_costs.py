"""The limits of what the rules of a schema can cost, which are checked when a CustomResourceDefinition is stored.

The cost of a rule is the most that one evaluation costs, times how often an object can have the value that it is about.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from mooring.api.api_errors import Cause, field_forbidden
from mooring.api.structural_schema import Schema
from mooring.cel.estimates import added, multiplied

EXPRESSION_LIMIT = 10_000_000
"""The most that one expression may cost for an object (upstream: StaticEstimatedCostLimit)."""
SCHEMA_LIMIT = 100_000_000
"""The most that all expressions of a version may cost for an object (upstream: StaticEstimatedCRDCostLimit)."""
_MOST_NAMED = 4
"""How many expressions the answer names if all together cost too much. Each costs a hundredth of the limit or more."""


def repetitions_of(schema: Schema, times: int | None = 1) -> Iterator[tuple[Schema, int | None]]:
    """A node and all below it outside of junctors, each with how often an object can have it; None: only the size of the
    request bounds it."""
    yield schema, times
    below = times
    if schema.type == "array" or (schema.type == "object" and "additionalProperties" in schema.written):
        most = schema.written.get("maxItems" if schema.type == "array" else "maxProperties")
        below = None if times is None or most is None else multiplied(times, max(most, 0))
    for inner in (*schema.properties.values(), schema.items, schema.entries):
        if inner is not None:
            yield from repetitions_of(inner, below)


# ---- limits


@dataclass(slots=True)
class TotalCost:
    """The cost of all expressions of a schema."""

    total: int = 0
    expensive: list[tuple[int, str]] = field(default_factory=list)
    """The highest costs with the paths of their expressions, the highest first."""

    def add(self, cost: int, path: str, name: str) -> list[Cause]:
        """Count an expression, and tell if it costs too much alone. `name` is what the message calls it."""
        self.total = added(self.total, cost)
        if cost >= SCHEMA_LIMIT // 100:
            self.expensive = sorted([*self.expensive, (cost, path)], key=lambda each: -each[0])[:_MOST_NAMED]
        if cost <= EXPRESSION_LIMIT:
            return []
        return [field_forbidden(path, _exceeded(f"estimated {name} cost", cost, EXPRESSION_LIMIT))]

    def faults(self, path: str) -> list[Cause]:
        """The faults if all expressions together cost too much; `path` is that of the schema."""
        if self.total <= SCHEMA_LIMIT:
            return []
        share = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
        what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
        named = [field_forbidden(place, share) for _, place in self.expensive]
        return [*named, field_forbidden(path, _exceeded(what, self.total, SCHEMA_LIMIT))]


def _exceeded(what: str, cost: int, limit: int) -> str:
    """Parity: the factor has more digits near 1, and none if it is so high that only a limit of lengths can help."""
    factor = cost / limit
    told = "more than 100x" if factor > 100 else f"{factor:.6f}x" if factor < 1.5 else f"{factor:.1f}x"
    advice = (
        "try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are "
        "declared"
    )
    return f"{what} exceeds budget by factor of {told} ({advice})"
