"""The values of the chart: each is described, has a type, and is refused under another name or with another type."""

import copy
import json
import re
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

sys.path.insert(0, str(Path(__file__).parent.parent.parent / "tools"))

from chart_readme import CHART, table_of, values_of, with_table

TEXT = (CHART / "values.yaml").read_text()
DEFAULTS: dict[str, Any] = yaml.safe_load(TEXT)
SCHEMA = json.loads((CHART / "values.schema.json").read_text())
VALUES = {".".join(value.path): value for value in values_of(TEXT)}
ALSO_TEXT = ("podDisruptionBudget.maxUnavailable",)
"""Values that are numbers or texts."""


def changed(path: tuple[str, ...], value: Any) -> dict[str, Any]:
    """The default values, and one that is different."""
    values = copy.deepcopy(DEFAULTS)
    place = values
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = value
    return values


def refusal_of(values: dict[str, Any]) -> str:
    """What the schema has against values; empty: nothing."""
    fault = jsonschema.Draft7Validator(SCHEMA).iter_errors(values)
    return "; ".join(f"{'.'.join(map(str, each.absolute_path))}: {each.message}" for each in fault)


def test_the_schema_is_one_and_takes_the_defaults() -> None:
    jsonschema.Draft7Validator.check_schema(SCHEMA)
    assert refusal_of(DEFAULTS) == ""


def test_the_readme_has_the_values_as_they_are() -> None:
    readme = (CHART / "README.md").read_text()
    assert with_table(readme, table_of(TEXT)) == readme, "run make chart"


def test_every_value_is_described() -> None:
    def leaves(values: Any, path: tuple[str, ...]) -> list[str]:
        if ".".join(path) in VALUES or not isinstance(values, dict):
            return [".".join(path)]
        return [leaf for name, below in values.items() for leaf in leaves(below, (*path, name))]

    assert leaves(DEFAULTS, ()) == list(VALUES)
    assert all(value.section and len(value.description) > 8 for value in VALUES.values())


def test_every_value_is_used() -> None:
    templates = "".join(path.read_text() for path in (CHART / "templates").iterdir())
    assert [path for path in VALUES if f".Values.{path}" not in templates] == []


def test_the_schema_names_the_same_values() -> None:
    def names(schema: dict[str, Any], path: str) -> list[str]:
        if path in VALUES:
            return [path]
        return [
            each for name, below in schema["properties"].items() for each in names(below, f"{path}.{name}".strip("."))
        ]

    without_global = {**SCHEMA, "properties": {k: v for k, v in SCHEMA["properties"].items() if k != "global"}}
    assert sorted(names(without_global, "")) == sorted(VALUES)


SOMETHING: dict[type, Any] = {str: "text", int: 7, bool: True, list: ["x"], dict: {"x": "y"}}


@pytest.mark.parametrize("path", VALUES)
def test_a_value_of_another_type_is_refused(path: str) -> None:
    value = VALUES[path]
    right = {type(value.default), *((str,) if path in ALSO_TEXT else ())}
    for kind, other in SOMETHING.items():
        if kind not in right:
            assert path in refusal_of(changed(value.path, other)), other


GROUPS = sorted({value.path[:-1] for value in VALUES.values()} | {("resources",), ("affinity",)})


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: ".".join(group) or "the values")
def test_an_unknown_name_is_refused(group: tuple[str, ...]) -> None:
    assert "'unknwon' was unexpected" in refusal_of(changed((*group, "unknwon"), {}))


EXAMPLES = {path: re.search(r"[Ff]or example (\[.*\]|\{.*\}|\w+)", value.description) for path, value in VALUES.items()}


@pytest.mark.parametrize("path", [path for path, found in EXAMPLES.items() if found])
def test_the_examples_in_the_descriptions_are_right(path: str) -> None:
    found = EXAMPLES[path]
    assert found is not None
    assert refusal_of(changed(VALUES[path].path, yaml.safe_load(found[1]))) == ""
