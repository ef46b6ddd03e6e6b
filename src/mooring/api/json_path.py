"""JSONPath as printer columns of custom kinds write it: fields, indexes, `[*]` and filters that compare one field.

`.status.conditions[?(@.type=="Ready")].status`, `.metadata.labels['app\\.kubernetes\\.io/name']`, `.spec.items[0].name`.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any

_STEP = re.compile(
    r"""\.?(?:
        (?P<name>(?:\\.|[^.\[\]\\'"()?@])+)
      | \[(?P<index>-?[0-9]{1,9})\]
      | \[(?P<all>\*)\]
      | \[(?P<quote>['"])(?P<key>(?:\\.|(?!(?P=quote))[^\\])*)(?P=quote)\]
      | \[\?\(@\.(?P<field>[^=!<>()\[\]]+?)\s*(?P<compare>==|!=)\s*(?P<literal>"[^"]*"|'[^']*'|true|false|-?[0-9]+)\)\]
    )""",
    re.VERBOSE,
)
_ESCAPED = re.compile(r"\\(.)")
MAX_CHARS = 1024
"""The longest path that is read."""

JsonPathStep = Callable[[list[Any]], list[Any]]
"""All values before a step in, all behind it out."""


class JsonPathFault(ValueError):
    """The text is no path that can be read here."""


def read_json_path(text: str) -> Sequence[JsonPathStep]:
    """The steps of a path. Raises JsonPathFault."""
    path = text.strip().removeprefix("{").removesuffix("}")
    if not path.startswith((".", "[")) or len(path) > MAX_CHARS:
        raise JsonPathFault(f"unrecognized path {text!r}")
    steps: list[JsonPathStep] = []
    place = 0
    while place < len(path) and path != ".":
        found = _STEP.match(path, place)
        if found is None:
            raise JsonPathFault(f"unrecognized path {text!r}")
        steps.append(_step(found))
        place = found.end()
    return steps


def first_at(steps: Sequence[JsonPathStep], item: Any) -> Any:
    """The first value at a path; None if there is none."""
    values = [item]
    for step in steps:
        values = step(values)
    return values[0] if values else None


def _step(found: re.Match[str]) -> JsonPathStep:
    if found["index"] is not None:
        return _indexed(int(found["index"]))
    if found["all"]:
        return lambda values: [part for value in values for part in _parts(value)]
    if found["field"] is not None:
        return _filtered(found["field"].split("."), found["compare"] == "==", _literal(found["literal"]))
    name = _ESCAPED.sub(r"\1", found["name"] if found["name"] is not None else found["key"])
    return lambda values: [value[name] for value in values if isinstance(value, dict) and name in value]


def _indexed(index: int) -> JsonPathStep:
    return lambda values: [
        value[index] for value in values if isinstance(value, list) and -len(value) <= index < len(value)
    ]


def _filtered(names: list[str], is_equal: bool, literal: Any) -> JsonPathStep:
    def keep(part: Any) -> bool:
        for name in names:
            part = part.get(name) if isinstance(part, dict) else None
        return part is not None and (part == literal) is is_equal

    return lambda values: [part for value in values for part in _parts(value) if keep(part)]


def _parts(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


def _literal(text: str) -> Any:
    if text[0] in "\"'":
        return text[1:-1]
    return text == "true" if text in ("true", "false") else int(text)
