"""Tables of plain values: what `to_frame` turns into a pandas DataFrame.

Printed tables are for people: they have units, differences and dashes in their cells. These tables are for programs: each
column has one kind of value, its unit is in its name, and a value that is missing is None. Amounts of resources are whole
numbers in the units of the node table; shares are percentages from 0 to 100.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from operator import attrgetter
from typing import Any

from mooring.answers.form.published import DECIMALS
from mooring.model.quantity import is_in_bytes


class Time:
    """The kind of a column of moments: nanoseconds since 1970, which a frame has as UTC timestamps."""


DTYPES: Mapping[type, str] = {str: "string", int: "Int64", float: "float64", bool: "boolean"}
"""The dtype of a column by the kind of its values. All of them can be missing, so a dtype does not depend on the rows."""

Columns = Mapping[str, type]
"""Name -> the kind of the values: str, int, float, bool, Time; object for values that users choose."""
Row = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class DataTable:
    """Rows of values under named columns."""

    columns: Columns
    rows: Sequence[Row] = field(repr=False)

    def frame(self) -> Any:
        """The table as a pandas DataFrame."""
        pandas = _pandas()
        values = [[row[i] for row in self.rows] for i in range(len(self.columns))]
        return pandas.DataFrame(
            {name: _series(pandas, kind, each) for (name, kind), each in zip(self.columns.items(), values, strict=True)}
        )


def _pandas() -> Any:
    try:
        return import_module("pandas")
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "to_frame needs pandas, which is not installed: pip install 'mooring[frames]'", name=error.name
        ) from None


def data_table(columns: Columns, rows: Iterable[Row]) -> DataTable:
    """The table of these rows. An empty text is a missing one."""
    return DataTable(columns, [tuple(None if value == "" else value for value in row) for row in rows])


def attribute_table(items: Iterable[object], columns: Columns) -> DataTable:
    """The table whose columns are attributes of the items: `at_ns:at` is the attribute at_ns under the name at."""
    heads = {each.rpartition(":")[2]: kind for each, kind in columns.items()}
    return data_table(heads, map(attrgetter(*(each.partition(":")[0] for each in columns)), items))


def _series(pandas: Any, kind: type, values: Sequence[Any]) -> Any:
    if kind is Time:
        return pandas.to_datetime(pandas.Series(values, dtype="Int64"), unit="ns", utc=True).astype(
            "datetime64[ns, UTC]"
        )
    if kind is float:
        values = [None if value is None else round(value, DECIMALS) for value in values]
    series = pandas.Series(values, dtype=DTYPES.get(kind, "object"))
    return series if kind in DTYPES else series.infer_objects()


def percent_of(share: float | None) -> float | None:
    """A share from 0 to 1 in percent."""
    return None if share is None else 100 * share


def amount_column(resource: str, what: str = "") -> str:
    """The name of a column of amounts, with its unit: `cpu_free_milli`, `memory_free_bytes`, `nvidia.com/gpu_free`."""
    unit = "milli" if resource == "cpu" else "bytes" if is_in_bytes(resource) else ""
    return "_".join(part for part in (_name(resource), what, unit) if part)


def share_column(resource: str) -> str:
    """The name of a column of the requested share of what is allocatable."""
    return f"{_name(resource)}_utilisation_percent"


def _name(resource: str) -> str:
    return resource if "/" in resource else resource.replace("-", "_")


def in_snake_case(name: str) -> str:
    """The name of a column for a field of the JSON: `waits.p50Seconds` is `waits_p50_seconds`."""
    return re.sub("(?<=[a-z0-9])([A-Z])", lambda found: f"_{found[1].lower()}", name.replace(".", "_"))
