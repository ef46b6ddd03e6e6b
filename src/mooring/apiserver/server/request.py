"""A request and its answer, whatever carries them, and what the path of a request means."""

import re
from dataclasses import dataclass, field
from typing import Any

from mooring.api.api_errors import ApiError, bad_request
from mooring.api.kind_spec import KindSpec
from mooring.api.kinds import REQUESTS, RESOURCES

_TRUE = {"true", "1", "True", "TRUE", "t", "T", ""}
"""What Go reads as true; an empty value is one that was named without `=`."""
_FALSE = {"false", "0", "False", "FALSE", "f", "F"}
"""What Go reads as false."""
_WHOLE = re.compile(r"[+-]?[0-9]{1,18}")
"""What fits 64 bits, and only ASCII: int() accepts more."""


@dataclass(frozen=True, slots=True)
class Request:
    """`path` is unquoted; of a query parameter that is given several times the first counts."""

    method: str
    path: str
    query: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    content_type: str = ""
    accept: str = ""
    user_agent: str = ""

    def flag(self, name: str) -> bool:
        """A parameter that is true or false; false where it is missing. Raises 400."""
        text = self.query.get(name, "false")
        if text in _TRUE or text in _FALSE:
            return text in _TRUE
        raise bad_request(f"{name}: {text!r} is neither true nor false")

    def number(self, name: str) -> int | None:
        """A parameter that is a whole number; None where it is missing. Raises 400."""
        text = self.query.get(name, "")
        if not text:
            return None
        if not _WHOLE.fullmatch(text):
            raise bad_request(f"{name}: {text!r} is not a whole number")
        return int(text)


@dataclass(slots=True)
class Answer:
    """`body` is turned into JSON unless it is text or bytes already."""

    code: int
    body: Any
    content_type: str = "application/json"
    headers: list[tuple[str, str]] = field(default_factory=list)


def refusal(error: ApiError) -> Answer:
    """An error as an answer: a Status."""
    headers = [("Retry-After", str(error.retry_after_s))] if error.retry_after_s else []
    return Answer(error.code, error.status(), headers=headers)


# ---- paths


_POSTED = {(resource.group, resource.version, resource.plural): resource for resource in REQUESTS}
"""Kinds that are only posted, by group, version and plural."""


@dataclass(frozen=True, slots=True)
class Target:
    """What a path means: a collection, an object, or a part of one. An empty name stands for the collection, an empty
    namespace for all of them."""

    resource: KindSpec
    namespace: str = ""
    name: str = ""
    subresource: str = ""


def target_of(path: str) -> Target | None:
    """What a path means; None: no resource is there.

    | /api/v1/nodes/n1                               | a node         |
    | /api/v1/namespaces/default                     | a namespace    |
    | /api/v1/namespaces/default/pods                | the pods in it |
    | /apis/apps/v1/namespaces/a/deployments/b/scale | a part         |
    """
    match path.strip("/").split("/"):
        case ["api", version, *rest]:
            return _target("", version, rest)
        case ["apis", group, version, *rest]:
            return _target(group, version, rest)
    return None


def _target(group: str, version: str, parts: list[str]) -> Target | None:
    """The part of a path behind group and version."""
    if not all(parts):
        return None  # or `namespaces//pods`, with a name forgotten, would be the pods of all namespaces
    namespace = ""
    is_within = parts[:1] == ["namespaces"] and len(parts) > 2
    if is_within and not (group == "" and parts[2] in RESOURCES["", "v1", "namespaces"].subresources):
        namespace, parts = parts[1], parts[2:]
    if not 1 <= len(parts) <= 3:
        return None
    plural, name, subresource = (*parts, "", "")[:3]
    resource = RESOURCES.get((group, version, plural)) or _POSTED.get((group, version, plural))
    if resource is None or (namespace and not resource.namespaced):
        return None
    if name and resource.namespaced and not namespace:
        return None
    if subresource and subresource not in resource.subresources:
        return None
    return Target(resource, namespace, name, subresource)
