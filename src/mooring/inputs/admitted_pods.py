"""Reads pods of a dump that have the spec of a template: it is decoded and checked once for all of them.

The text of a spec without the name of the node says which pods have the same spec. Only pods that an API server has admitted
are read so, because nothing changes their specs afterwards.
"""

import re

import msgspec

from mooring.inputs.documents import Document
from mooring.inputs.field_checks import check_fields
from mooring.model.meta import ObjectMeta
from mooring.model.pod import Pod, SharedSpec
from mooring.model.pod_spec import PodSpec, PodStatus

_MOST_TEXT = 16 << 20
"""How many bytes of specs are remembered. The pods of a DaemonSet have specs of their own."""
_NODE_NAME = re.compile(rb'"nodeName"\s*:\s*"([-.0-9A-Za-z]+)"')
_ANOTHER = b"another.node"
"""A name in place of that of the node, to see that the text names the node there and nowhere else."""


class _Parts(msgspec.Struct, gc=False):
    """A pod of which the spec is still text."""

    spec: msgspec.Raw
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    status: PodStatus = msgspec.field(default_factory=PodStatus)


_parts = msgspec.json.Decoder(_Parts)
_spec = msgspec.json.Decoder(PodSpec)


class AdmittedPods:
    """The specs that pods of one input have in common."""

    def __init__(self) -> None:
        self._known: dict[tuple[bytes, int], SharedSpec | bool] = {}
        """By the text without the name of the node, and by its place: the spec, or whether it is to be shared if there is
        another pod with it."""
        self._size = 0
        """The bytes of these texts."""

    def read(self, document: Document) -> Pod | None:
        """The pod, if it was admitted and its spec has no fault that is found in the text. None: it is to be read like any
        other object, as the first pod of each template is."""
        try:
            parts = _parts.decode(document.body) if isinstance(document.body, msgspec.Raw) else None
        except ValueError:
            return None
        if parts is None or not (parts.metadata.uid and parts.metadata.resource_version):
            return None
        text, name, place = bytes(parts.spec), b"", 0
        if (found := _NODE_NAME.search(text)) is not None:
            name, place = found[1], found.start(1)
            text = text[:place] + text[found.end(1) :]
        known = self._known.get((text, place))
        if known is None:
            self._note(text, place)
        elif known is True:
            known = self._known[text, place] = _shared(document, text, name, place) or False
        return known.pod(parts.metadata, name.decode(), parts.status) if isinstance(known, SharedSpec) else None

    def _note(self, text: bytes, place: int) -> None:
        self._size += len(text)
        if self._size > _MOST_TEXT:
            self._known.clear()
            self._size = len(text)
        self._known[text, place] = True


def _shared(document: Document, text: bytes, name: bytes, place: int) -> SharedSpec | None:
    """The spec with this text, the name of the node being at this place; None if pods with it are to be read one by one."""
    if check_fields(document, was_admitted=True):
        return None
    try:
        spec, other = (_spec.decode(text[:place] + each + text[place:]) for each in (name, _ANOTHER if name else b""))
    except ValueError:
        return None
    names = (name.decode(), _ANOTHER.decode() if name else "")
    if (spec.node_name, other.node_name) != names or msgspec.structs.replace(other, node_name=names[0]) != spec:
        return None
    return SharedSpec(spec)
