"""YAML that would be the end of the server: nested so deeply that its parser crashes, or small but endless by aliases."""

from typing import Any

import msgspec
import yaml

from mooring.apiserver.nesting import MAX_DEPTH
from mooring.apiserver.server.media import YAML
from mooring.apiserver.server.request import Request
from mooring.model.api_errors import bad_request, request_entity_too_large
from mooring.model.json_objects import APPLY_PATCH, media_type

MAX_YAML_BYTES = 256 * 1024
"""Reading YAML takes some 5 µs a byte, and nobody else is answered meanwhile. kubectl sends JSON, whatever it read."""
MAX_WEIGHT = MAX_YAML_BYTES
"""How many values a document may stand for once its aliases are written out: more than any has without them."""

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def check_yaml(request: Request) -> None:
    """Before the body of a request is read as YAML, if it is. What is no YAML at all is left for the reader to refuse."""
    if media_type(request.content_type) not in (YAML, APPLY_PATCH) or _is_json(request.body):
        return
    if len(request.body) > MAX_YAML_BYTES:
        raise request_entity_too_large(f"limit is {MAX_YAML_BYTES} for YAML; JSON may be larger")
    try:
        weight = _weight(request.body)
    except yaml.YAMLError:
        return
    if weight > MAX_WEIGHT:
        raise bad_request("error converting YAML to JSON: yaml: document contains excessive aliasing")


def _is_json(body: bytes) -> bool:
    """Most of what is called YAML is JSON, whose reader has limits of its own."""
    try:
        msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return False
    return True


def _weight(body: bytes) -> int:
    """How many values there are; an alias weighs as much as what it stands for."""
    open_weights = [0]
    anchors: list[str | None] = [None]
    weights: dict[str, int] = {}
    for event in yaml.parse(body, Loader=_Loader):
        match event:
            case yaml.CollectionStartEvent():
                open_weights.append(1)
                anchors.append(event.anchor)
                if len(open_weights) > MAX_DEPTH:
                    raise bad_request("error converting YAML to JSON: yaml: exceeded max depth")
            case yaml.CollectionEndEvent():
                weight, anchor = open_weights.pop(), anchors.pop()
                open_weights[-1] += weight
                if anchor:
                    weights[anchor] = weight
            case yaml.AliasEvent():
                # What is not closed yet, and so not known, is an alias within itself: endless.
                is_open = event.anchor in anchors and event.anchor not in weights
                open_weights[-1] += MAX_WEIGHT + 1 if is_open else weights.get(event.anchor or "", 1)
            case yaml.ScalarEvent():
                open_weights[-1] += 1
    return open_weights[0]
