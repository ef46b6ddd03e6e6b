"""A request and its answer, whatever carries them."""

import re
from dataclasses import dataclass, field
from typing import Any

from mooring.model.api_errors import ApiError, bad_request

_TRUE = {"true", "1", "True", "TRUE", "t", "T", ""}
"""What Go reads as true; an empty value is one that was named without `=`."""
_FALSE = {"false", "0", "False", "FALSE", "f", "F"}
_WHOLE = re.compile(r"[+-]?[0-9]{1,18}")
"""What fits 64 bits, and only ASCII: int() would take more."""


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
        text = self.query.get(name, "false")
        if text in _TRUE or text in _FALSE:
            return text in _TRUE
        raise bad_request(f"{name}: {text!r} is neither true nor false")

    def number(self, name: str) -> int | None:
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
    headers = [("Retry-After", str(error.retry_after_s))] if error.retry_after_s else []
    return Answer(error.code, error.status(), headers=headers)
