"""The words and paths of kube-apiserver for rules that the model words otherwise, as a table.

The model speaks to people who write manifests, and names the entry that is wrong. kube-apiserver often names the map or the
list.
"""

import json
import re
from typing import Final, NamedTuple

from mooring.api.api_errors import Cause, field_duplicate
from mooring.api.json_objects import JsonObject
from mooring.api.validation.problem import AGAIN, NOTHING_THERE, Problem
from mooring.model.names import percent_faults
from mooring.model.shape import ANY_IP


class Words(NamedTuple):
    """A rule of the model, and what the server says about it."""

    path: re.Pattern[str]
    allowed: re.Pattern[str]
    """The rule in the model's words."""
    message: str
    """The message of the server; `{found}` is the value."""
    place: str
    """Its path, with groups of `path` as in `re.Match.expand`."""


_INVALID, _REQUIRED, _FORBIDDEN, _UNSUPPORTED = (
    "Invalid value: {found}: ",
    "Required value: ",
    "Forbidden: ",
    "Unsupported value: ",
)
_REASONS: Final = {
    _INVALID: "FieldValueInvalid",
    "Required": "FieldValueRequired",
    _FORBIDDEN: "FieldValueForbidden",
    _UNSUPPORTED: "FieldValueNotSupported",
}
_GATE = re.compile(r".*\.schedulingGates\[\d+\]\.name")
_KEY = r"(?:\.[\w-]+|\[[^\]]*\])"


def _row(path: str, allowed: str, message: str, place: str = r"\g<0>") -> Words:
    return Words(re.compile(path), re.compile(allowed, re.DOTALL), message, place)


_NO_SELECTOR = "nothing, because labelSelector is not set"
_ROWS: Final = (
    _row(rf"(.*\.(?:labels|nodeSelector|matchLabels)|spec\.selector){_KEY}", ".+", f"{_INVALID}{{allowed}}", r"\1"),
    _row(r".*\.(replicas|parallelism|completions)", "0 or more", f"{_INVALID}must be greater than or equal to 0"),
    _row(
        r"(.*\.tolerations\[\d+\])\.value",
        "nothing with Exists",
        f"{_INVALID}value must be empty when `operator` is 'Exists'",
        r"\1.operator",
    ),
    _row(
        r".*\.tolerations\[\d+\]\.operator",
        "Exists, because the key is empty",
        f'{_INVALID}operator must be Exists when `key` is empty, which means "match all values and all keys"',
    ),
    _row(
        r"spec\.(minAvailable|maxUnavailable)",
        "a number of pods, or a percentage, .*",
        f"{_INVALID}{percent_faults('')[0]}",
    ),
    _row(r".*\.nodeSelectorTerms", "one term or more", f"{_REQUIRED}must have at least one node selector term"),
    _row(
        r".*\.matchExpressions\[\d+\]\.values",
        "one value or more with .*",
        f"{_REQUIRED}must be specified when `operator` is 'In' or 'NotIn'",
    ),
    _row(r".*\.matchExpressions\[\d+\]\.operator", "In, NotIn, .*", f"{_INVALID}not a valid selector operator"),
    _row(
        r".*\.minDomains",
        "nothing unless .*",
        f"{_INVALID}can only use minDomains if whenUnsatisfiable=DoNotSchedule, not ScheduleAnyway",
    ),
    _row(
        r"(.*\.matchLabelKeys)\[0\]",
        _NO_SELECTOR,
        f"{_FORBIDDEN}must not be specified when labelSelector is not set",
        r"\1",
    ),
    _row(
        r".*\.hostPort",
        ".*because hostNetwork is set",
        f"{_INVALID}must match `containerPort` when `hostNetwork` is true",
    ),
    _row(r".*\.(requests|limits)\[.*\]", "a whole number", f"{_INVALID}must be an integer"),
    _row(
        r"(.*\.(?:requests|limits))(?:\.|\[)([^\]]*)\]?",
        "cpu, memory, ephemeral-storage, .*",
        f"{_INVALID}must be a standard resource type or fully qualified",
        r"\1[\2]",
    ),
    _row(
        r"spec\.accessModes\[\d+\]",
        ".*",
        f'{_UNSUPPORTED}{{found}}: supported values: "ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"',
        "spec.accessModes",
    ),
    _row(r"spec\.resources\.requests\.storage", ".*", _REQUIRED.removesuffix(": "), "spec.resources[storage]"),
    _row(r"(?:.*\.)?spec\.accessModes", ".*", f"{_REQUIRED}at least 1 access mode is required"),
)


def in_server_words(problem: Problem, item: JsonObject) -> Cause | None:
    """A problem as the server words it; None where the table has no row for it."""
    if problem.found.endswith(AGAIN):
        return _duplicate(problem)
    for row in _ROWS:
        place = row.path.fullmatch(problem.path)
        is_required = row.message.startswith("Required")
        if place is None or row.allowed.fullmatch(problem.allowed) is None:
            continue
        if is_required == (problem.found == NOTHING_THERE):
            reason = next(reason for start, reason in _REASONS.items() if row.message.startswith(start))
            message = row.message.format(found=problem.found, allowed=problem.allowed)
            return Cause(reason, message, place.expand(row.place))
    return None


def _duplicate(problem: Problem) -> Cause | None:
    """Host ports and scheduling gates that are there twice."""
    found = problem.found.removesuffix(AGAIN)
    if problem.path.endswith(".hostPort"):
        address, protocol, port = json.loads(f"[{found}]")
        return field_duplicate(problem.path, f"{protocol}/{'' if address == ANY_IP else address}/{port}")
    if _GATE.fullmatch(problem.path):
        return field_duplicate(problem.path.removesuffix(".name"), json.loads(found))
    return None
