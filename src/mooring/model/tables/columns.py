"""Columns of tables, and those that many kinds share; a kind's own are in its spec.

Columns of priority 1 are shown by `kubectl get -o wide` only.
"""

from collections.abc import Callable
from dataclasses import dataclass

from mooring.model.json_objects import JsonObject
from mooring.model.tables.cells import Cell, ago, field_cell, joined, selector


@dataclass(frozen=True, slots=True)
class Column:
    """One column: `cell` reads it from an object at a moment in nanoseconds since 1970."""

    name: str
    cell: Callable[[JsonObject, int], Cell]
    priority: int = 0
    type: str = "string"
    format: str = ""

    def definition(self) -> JsonObject:
        shown = {"name": self.name, "type": self.type, "format": self.format, "description": self.name}
        return {**shown, "priority": self.priority}

    def read(self, item: JsonObject, now_ns: int) -> Cell:
        """The cell of an object. Kinds that nobody validates can hold anything: one odd object must not hide a list."""
        try:
            return self.cell(item, now_ns)
        except (AttributeError, KeyError, TypeError, ValueError):
            return "<invalid>"


def wide(name: str, cell: Callable[[JsonObject, int], Cell]) -> Column:
    return Column(name, cell, priority=1)


def number(name: str, path: str, otherwise: int = 0) -> Column:
    return Column(name, field_cell(path, otherwise), type="integer")


def template_columns(pod_spec: str, selects: str = "") -> tuple[Column, ...]:
    """The wide columns of a workload; `selects` is where its selector is, if that is shown."""
    containers = f"{pod_spec}.containers"
    shown = (wide("Containers", joined(containers, "name")), wide("Images", joined(containers, "image")))
    return (*shown, wide("Selector", selector(selects))) if selects else shown


NAME = Column("Name", field_cell("metadata.name"), format="name")

AGE = Column("Age", ago("metadata.creationTimestamp"))

PLAIN = (NAME, AGE)

POD_SPEC = "spec.template.spec"
"""Where a workload has the spec of its pods."""
