"""Bodies that come as protobuf. What cannot be read is refused in kube-apiserver's words."""

from mooring.apiserver.schema.protobuf import MalformedError, UnknownKindError, decode
from mooring.model.api_errors import ApiError, bad_request
from mooring.model.json_objects import JsonObject

_SHOWN_BYTES = 30


def read_protobuf(body: bytes, kind: str) -> JsonObject:
    """The object in a body that should hold one of this kind."""
    try:
        return decode(body)
    except MalformedError:
        raise _unrecognized(body, kind) from None
    except UnknownKindError as fault:
        what = f'{fault.kind} in version "{fault.version}"'
        raise bad_request(f"{what} cannot be handled as a {kind}: {fault}") from None


def _unrecognized(body: bytes, kind: str) -> ApiError:
    shown = body[:_SHOWN_BYTES].hex() + (" ..." if len(body) > _SHOWN_BYTES else "")
    return bad_request(f"the object provided is unrecognized (must be of type {kind}): unexpected EOF ({shown})")
