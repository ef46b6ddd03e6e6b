"""Just enough of protobuf to tell a message from junk: this server reads JSON and YAML only."""

from mooring.api.errors import ApiError, bad_request

_MAGIC = b"k8s\x00"
_SHOWN_BYTES = 30


def unreadable_protobuf(body: bytes, kind: str) -> ApiError | None:
    """The refusal of a body that is no protobuf at all; None if it is, so that its sender can be told to use JSON."""
    if body.startswith(_MAGIC) and _is_message(body[len(_MAGIC) :]):
        return None
    shown = body[:_SHOWN_BYTES].hex() + (" ..." if len(body) > _SHOWN_BYTES else "")
    return bad_request(f"the object provided is unrecognized (must be of type {kind}): unexpected EOF ({shown})")


def _is_message(data: bytes) -> bool:
    """Whether the fields of the outermost message end where the data ends. All that Kubernetes sends are of length."""
    place = 0
    while place < len(data):
        tag, place = _varint(data, place)
        if tag & 7 != 2:
            return False
        length, place = _varint(data, place)
        place += length
    return place == len(data)


def _varint(data: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    for at in range(place, len(data)):
        value |= (data[at] & 0x7F) << shift
        shift += 7
        if data[at] < 0x80:
            return value, at + 1
    return value, len(data) + 1
