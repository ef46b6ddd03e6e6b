"""YAML that would be the end of the server: nested so deeply that its parser crashes, or small but endless by aliases."""

import msgspec

from mooring.apiserver.nesting import MAX_DEPTH
from mooring.apiserver.server.media import YAML
from mooring.apiserver.server.request import Request
from mooring.kit.yaml_reader import YamlLimits
from mooring.model.api_errors import request_entity_too_large
from mooring.model.media_types import APPLY_PATCH, media_type

MAX_YAML_BYTES = 256 * 1024
"""Reading YAML takes some 5 µs a byte, and nobody else is answered meanwhile. kubectl sends JSON, whatever it read."""
MAX_WEIGHT = MAX_YAML_BYTES
"""How many values a document may stand for once its aliases are written out: more than any has without them."""

LIMITS = YamlLimits(MAX_DEPTH - 1, MAX_WEIGHT)


def check_yaml(request: Request) -> None:
    """Before the body of a request is read as YAML, if it is. What is no YAML at all is left for the reader to refuse."""
    if media_type(request.content_type) not in (YAML, APPLY_PATCH) or _is_json(request.body):
        return
    if len(request.body) > MAX_YAML_BYTES:
        raise request_entity_too_large(f"limit is {MAX_YAML_BYTES} for YAML; JSON may be larger")


def _is_json(body: bytes) -> bool:
    """Most of what is called YAML is JSON, whose reader has limits of its own."""
    try:
        msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return False
    return True
