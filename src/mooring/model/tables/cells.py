"""Cells of tables that many kinds share: how a field, a count, a label or an age is read from an object."""

from collections.abc import Callable

from mooring.kit.clock import moment_ns
from mooring.model.json_objects import JsonObject, at
from mooring.model.tables.ages import human_duration, whole_s

Cell = str | int | bool

NONE, UNSET, UNKNOWN = "<none>", "<unset>", "<unknown>"


def since(written: str | None, now_ns: int) -> str:
    """How long ago an RFC 3339 time was."""
    return human_duration(whole_s(now_ns - moment_ns(written))) if written else UNKNOWN


def ago(path: str, otherwise: str = UNKNOWN) -> Callable[[JsonObject, int], Cell]:
    def cell(item: JsonObject, now_ns: int) -> Cell:
        written = at(item, path)
        return since(written, now_ns) if written else otherwise

    return cell


def field_cell(path: str, otherwise: Cell = "") -> Callable[[JsonObject, int], Cell]:
    def cell(item: JsonObject, _: int) -> Cell:
        found: Cell = at(item, path, otherwise)
        return found

    return cell


def count(*paths: str) -> Callable[[JsonObject, int], Cell]:
    return lambda item, _: sum(len(at(item, path, ())) for path in paths)


def ratio(done: str, wanted: str) -> Callable[[JsonObject, int], Cell]:
    return lambda item, _: f"{at(item, done, 0)}/{at(item, wanted, 1)}"


def joined(path: str, key: str) -> Callable[[JsonObject, int], Cell]:
    return lambda item, _: ",".join(line.get(key, "") for line in at(item, path, ()))


def labels_cell(path: str) -> Callable[[JsonObject, int], Cell]:
    return lambda item, _: ",".join(f"{k}={v}" for k, v in sorted(at(item, path, {}).items())) or NONE


def selector(path: str) -> Callable[[JsonObject, int], Cell]:
    return lambda item, _: _selector_text(at(item, path, {})) or NONE


_OPERATORS = {"In": "{key} in ({values})", "NotIn": "{key} notin ({values})", "Exists": "{key}"}


def _selector_text(selector: JsonObject) -> str:
    rules = [(key, f"{key}={value}") for key, value in selector.get("matchLabels", {}).items()]
    for rule in selector.get("matchExpressions", ()):
        values = ",".join(sorted(rule.get("values", ())))
        rules.append((rule["key"], _OPERATORS.get(rule["operator"], "!{key}").format(key=rule["key"], values=values)))
    return ",".join(text for _, text in sorted(rules))


def state_cell(path: str, terminating: str = "Terminating") -> Callable[[JsonObject, int], Cell]:
    """A phase, which gives way to the fact that the object is being deleted."""
    return lambda item, _: terminating if at(item, "metadata.deletionTimestamp") else at(item, path, "")


def conditions(item: JsonObject) -> dict[str, str]:
    """The status of each condition by its type."""
    return {line.get("type", ""): line.get("status", "") for line in at(item, "status.conditions", ())}
