"""What `kubectl get` prints of an object: columns, and the cells that many kinds share, with kube-apiserver's words.

A cell is a function of an object and of the present moment in nanoseconds since 1970. The columns of a kind are in its
spec. kubectl shows columns of priority 1 only with `-o wide`.
"""

from collections.abc import Callable

import msgspec

from mooring.api.json_objects import JsonObject, at
from mooring.kit.clock import NS_PER_S, moment_ns

# ---- ages


def human_duration(seconds: int) -> str:
    """A duration with the one or two units that matter: apimachinery's duration.HumanDuration, bounds included.

    5 -> 5s, 119 -> 119s, 192 -> 3m12s, 600 -> 10m, 10800 -> 3h, 187200 -> 2d4h, 864000 -> 10d
    """
    if seconds < 0:  # Parity: a moment one second ahead, by clocks that differ, counts as now.
        return "0s" if seconds == -1 else "<invalid>"
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    steps = (
        (seconds < 120, f"{seconds}s"),
        (minutes < 10, _two(minutes, "m", seconds % 60, "s")),
        (minutes < 180, f"{minutes}m"),
        (hours < 8, _two(hours, "h", minutes % 60, "m")),
        (hours < 48, f"{hours}h"),
        (days < 8, _two(days, "d", hours % 24, "h")),
        (days < 2 * 365, f"{days}d"),
        (days < 8 * 365, _two(days // 365, "y", days % 365, "d")),
    )
    return next((text for fits, text in steps if fits), f"{days // 365}y")


def _two(large: int, unit: str, small: int, small_unit: str) -> str:
    return f"{large}{unit}{small}{small_unit}" if small else f"{large}{unit}"


def whole_s(duration_ns: int) -> int:
    """Seconds, truncated towards zero as in Go."""
    return abs(duration_ns) // NS_PER_S * (1 if duration_ns >= 0 else -1)


Cell = str | int | bool

NONE, UNSET, UNKNOWN = "<none>", "<unset>", "<unknown>"

# ---- cells


def since(written: str | None, now_ns: int) -> str:
    """How long ago an RFC 3339 time was."""
    return human_duration(whole_s(now_ns - moment_ns(written))) if written else UNKNOWN


def ago(path: str, otherwise: str = UNKNOWN) -> Callable[[JsonObject, int], Cell]:
    """How long ago the time at a path was."""

    def cell(item: JsonObject, now_ns: int) -> Cell:
        written = at(item, path)
        return since(written, now_ns) if written else otherwise

    return cell


def field_cell(path: str, otherwise: Cell = "") -> Callable[[JsonObject, int], Cell]:
    """The value at a dotted path as it is."""

    def cell(item: JsonObject, _: int) -> Cell:
        found: Cell = at(item, path, otherwise)
        return found

    return cell


def count(*paths: str) -> Callable[[JsonObject, int], Cell]:
    """How many entries the lists or maps at these paths have together."""
    return lambda item, _: sum(len(at(item, path, ())) for path in paths)


def ratio(done: str, wanted: str) -> Callable[[JsonObject, int], Cell]:
    """`1/3`: replicas that are ready, of those that are wanted (1 where the workload does not say)."""
    return lambda item, _: f"{at(item, done, 0)}/{at(item, wanted, 1)}"


def joined(path: str, key: str) -> Callable[[JsonObject, int], Cell]:
    """One field of every item of a list, such as the names of containers."""
    return lambda item, _: ",".join(line.get(key, "") for line in at(item, path, ()))


def labels_cell(path: str) -> Callable[[JsonObject, int], Cell]:
    return lambda item, _: ",".join(f"{k}={v}" for k, v in sorted(at(item, path, {}).items())) or NONE


def selector(path: str) -> Callable[[JsonObject, int], Cell]:
    return lambda item, _: _selector_text(at(item, path, {})) or NONE


_OPERATORS = {"In": "{key} in ({values})", "NotIn": "{key} notin ({values})", "Exists": "{key}"}


def _selector_text(selector: JsonObject) -> str:
    """A label selector in kubectl's notation, sorted by key."""
    rules = [(key, f"{key}={value}") for key, value in selector.get("matchLabels", {}).items()]
    for rule in selector.get("matchExpressions", ()):
        values = ",".join(sorted(rule.get("values", ())))
        rules.append((rule["key"], _OPERATORS.get(rule["operator"], "!{key}").format(key=rule["key"], values=values)))
    return ",".join(text for _, text in sorted(rules))


def state_cell(path: str, terminating: str = "Terminating") -> Callable[[JsonObject, int], Cell]:
    """The phase of an object, or `Terminating` while it is being deleted."""
    return lambda item, _: terminating if at(item, "metadata.deletionTimestamp") else at(item, path, "")


def conditions(item: JsonObject) -> dict[str, str]:
    """The status of each condition by its type."""
    return {line.get("type", ""): line.get("status", "") for line in at(item, "status.conditions", ())}


# ---- columns


class Column(msgspec.Struct, frozen=True):
    """One column of a table, as clients see it, and the function that makes its cells."""

    name: str
    cell: Callable[[JsonObject, int], Cell]
    priority: int = 0
    type: str = "string"
    format: str = ""

    def definition(self) -> JsonObject:
        shown = {"name": self.name, "type": self.type, "format": self.format, "description": self.name}
        return {**shown, "priority": self.priority}

    def read(self, item: JsonObject, now_ns: int) -> Cell:
        """The cell of an object. Some kinds are stored without validation, and one odd object must not break the whole
        list, so that errors in reading become `<invalid>`."""
        try:
            return self.cell(item, now_ns)
        except (AttributeError, KeyError, TypeError, ValueError):
            return "<invalid>"


def wide(name: str, cell: Callable[[JsonObject, int], Cell]) -> Column:
    return Column(name, cell, priority=1)


def number(name: str, path: str, otherwise: int = 0) -> Column:
    return Column(name, field_cell(path, otherwise), type="integer")


def template_columns(pod_spec: str, selects: str = "") -> tuple[Column, ...]:
    """The wide columns of a workload: containers, images and, if `selects` is the path of one, its label selector."""
    containers = f"{pod_spec}.containers"
    shown = (wide("Containers", joined(containers, "name")), wide("Images", joined(containers, "image")))
    return (*shown, wide("Selector", selector(selects))) if selects else shown


NAME = Column("Name", field_cell("metadata.name"), format="name")

AGE = Column("Age", ago("metadata.creationTimestamp"))

PLAIN = (NAME, AGE)

POD_SPEC = "spec.template.spec"
"""Where a workload has the spec of its pods."""
