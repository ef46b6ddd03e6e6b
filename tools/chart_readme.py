"""Writes the table of values in the README of the Helm chart, from the comments of values.yaml: `make chart`."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

CHART = Path(__file__).parent.parent / "deploy" / "helm" / "mooring"
BEGIN, END = "<!-- values: `make chart` writes this part -->\n", "<!-- end of values -->\n"
_KEY = re.compile(r"^( *)([A-Za-z]+):")


@dataclass(frozen=True, slots=True)
class Value:
    """One value of the chart. A map without a description of its own is no value: its members are."""

    section: str
    path: tuple[str, ...]
    description: str
    default: Any

    @property
    def row(self) -> str:
        told = self.description.replace("|", "\\|")
        return f"| `{'.'.join(self.path)}` | `{json.dumps(self.default)}` | {told} |"


def values_of(text: str) -> Iterator[Value]:
    """The values in the order of the file."""
    defaults, section = yaml.safe_load(text), ""
    comment: list[str] = []
    path: list[str] = []
    covered = -1  # how far lines below a described value are indented, which belong to it
    for line in text.splitlines():
        if line.startswith("# ---- "):
            section, comment = line.removeprefix("# ---- "), []
        elif line.lstrip().startswith("# "):
            comment.append(line.lstrip()[2:])
        elif (found := _KEY.match(line)) and (depth := len(found[1]) // 2) <= (covered if covered >= 0 else depth):
            path[depth:], covered = [found[2]], depth if comment else -1
            if comment:
                yield Value(section, tuple(path), " ".join(comment), _default(defaults, path))
            comment = []
        elif not line.strip():
            comment = []


def _default(defaults: Any, path: list[str]) -> Any:
    for name in path:
        defaults = defaults[name]
    return defaults


def table_of(text: str) -> str:
    """A table for each section."""
    lines, last = [], ""
    for value in values_of(text):
        if value.section != last:
            lines += ["", f"### {value.section}", "", "| value | default | what it is |", "|---|---|---|"]
            last = value.section
        lines.append(value.row)
    return "\n".join([*lines[1:], "", ""])


def with_table(readme: str, table: str) -> str:
    """The README with this table."""
    head, _, rest = readme.partition(BEGIN)
    return f"{head}{BEGIN}\n{table}{END}{rest.partition(END)[2]}"


def main() -> None:
    readme = CHART / "README.md"
    readme.write_text(with_table(readme.read_text(), table_of((CHART / "values.yaml").read_text())))


if __name__ == "__main__":
    main()
