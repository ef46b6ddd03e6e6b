"""How deep data may be nested: the one check that lets everything behind it recurse."""

from typing import Any

from mooring.model.api_errors import bad_request

MAX_DEPTH = 200
"""Python gives up at 1000 frames, and what walks objects here takes up to four for each level. No kind that Kubernetes
has is nested more than some thirty levels deep; Go's decoder gives up at 10,000."""


def check_depth(value: Any) -> None:
    """Raises ApiError 400 for data that is nested too deeply. Goes level by level, so that it cannot recurse itself."""
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [part for outer in level for part in _parts(outer) if type(part) is dict or type(part) is list]
        if not level:
            return
    raise bad_request("exceeded max depth")


def check_body_depth(value: Any, body: bytes) -> None:
    """The same for what a body was decoded to. Hot: few bodies have as many brackets as would be needed."""
    if body.count(b"{") + body.count(b"[") > MAX_DEPTH:
        check_depth(value)


def _parts(value: Any) -> Any:
    return value.values() if type(value) is dict else value if type(value) is list else ()
