"""The steps of a scheduler as a recording has them: one JSON line each.

A line says what happened, the time since the step before, and what the scheduler asked for in answer. An update holds
only the fields that changed. Codes and fields may be added, never reused: recordings outlive versions of Mooring.
"""

import hashlib
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, lru_cache
from typing import Any, TypeVar, get_type_hints

import msgspec
from msgspec.structs import astuple, replace

from mooring.api.kinds import BY_STRUCT
from mooring.framework.contract.annotation_keys import AnnotationKeys
from mooring.framework.contract.intents import Bind, Call, CallFault, Evict, Intent, PatchStatus, Record, Write
from mooring.model.meta import KubeObject
from mooring.model.pod import Pod
from mooring.model.pod_spec import PodSpec
from mooring.model.storage import CLASS_ANNOTATION
from mooring.model.volumes import BIND_COMPLETED, BOUND_BY_CONTROLLER, MIGRATED_PLUGINS, SELECTED_NODE
from mooring.plugins.devices.device_claims import MARK as EXTENDED_CLAIM
from mooring.rules.claims_and_volumes import DEFAULT_CLASS, POD_CLAIM_NAME
from mooring.scheduler import inputs

# ---- Objects as they may be written to a recording: annotations that neither Mooring nor a plugin reads are replaced
# by digests.
#
# Annotations are free text, and people put secrets into them. That one changed may wake pods, so a digest takes its
# place; it is keyed with a random number that is written nowhere. Other parts that hold secrets (environment,
# commands) are not decoded at all.


READ_ANNOTATIONS = AnnotationKeys.of(
    (
        *(CLASS_ANNOTATION, BIND_COMPLETED, BOUND_BY_CONTROLLER, SELECTED_NODE, DEFAULT_CLASS),
        *(MIGRATED_PLUGINS, POD_CLAIM_NAME, EXTENDED_CLAIM, "mooring.dev/*"),
    )
)
"""The annotations that code of Mooring reads: decisions, and simulated nodes and pods. Plugins of users declare others."""

T = TypeVar("T", bound=KubeObject)


LONGEST_KEPT = 512
DIGESTS_KEPT = 2048
"""Texts up to this length have their digests kept, and so many of them: a mebibyte at most."""


class Concealer:
    """Replaces all annotations that nothing reads. `kept` are those that plugins read, or that the user wants to keep."""

    def __init__(self, kept: AnnotationKeys | None = None) -> None:
        read = READ_ANNOTATIONS | (kept or AnnotationKeys())
        self._exact, self._prefixes = read.exact, read.prefixes
        self._key = secrets.token_bytes(16)
        self._kept_digest = lru_cache(DIGESTS_KEPT)(self._digest)
        """Hot: pods of one template share most annotations. A digest takes 1.6 µs, to look it up 0.15 µs."""

    def _digest(self, text: str) -> str:
        return hashlib.blake2s(text.encode("utf-8", "replace"), key=self._key, digest_size=6).hexdigest()

    def __call__(self, item: T) -> T:
        annotations = item.metadata.annotations
        if not annotations:
            return item
        exact, prefixes = self._exact, self._prefixes
        shown = {
            name: text
            if name in exact or name.startswith(prefixes)
            else (self._kept_digest if len(text) <= LONGEST_KEPT else self._digest)(text)
            for name, text in annotations.items()
        }
        metadata = msgspec.structs.replace(item.metadata, annotations=shown)
        return msgspec.structs.replace(item, metadata=metadata)


# ---- Changes between two versions of an object, field by field, and the object with these changes.
#
# Most updates change a few fields of a status: a heartbeat of a node, the node name of a pod. So only these are
# written.


Changes = dict[str, Any]
"""By field of the object: a value, or for a part that both forms have (metadata, spec, status) the values of its fields.
Names are those of JSON."""


def changes_between(old: KubeObject, new: KubeObject) -> Changes:
    """The fields that must be set in `old` to make it `new`."""
    if isinstance(old, Pod) and isinstance(new, Pod):
        return _pod_changes(old, new)
    changes: Changes = {}
    for name, before, after in _differing(old, new):
        if isinstance(after, msgspec.Struct) and type(before) is type(after):
            changes[name] = _fields_between(before, after)
        else:
            changes[name] = [after]
    return changes


def _pod_changes(old: Pod, new: Pod) -> Changes:
    """Hot: most updates of a pod change its version, its node or its status, and a bind its labels (topology labels of the
    node). Whether all the rest is equal is one comparison of structs; to look at each field takes six times as long. A
    status is written as a whole, because that is quicker than to look for what changed in it, and most of it changes at
    once."""
    changes: Changes = {}
    before, after = old.metadata, new.metadata
    if before is not after:
        if replace(after, resource_version=before.resource_version, labels=before.labels) == before:
            changes["metadata"] = {"resourceVersion": after.resource_version}
            if before.labels != after.labels:
                changes["metadata"]["labels"] = after.labels
        else:
            changes["metadata"] = _fields_between(before, after)
    if old.spec is not new.spec:
        if is_same_but_for_node(old.spec, new.spec):
            changes["spec"] = {"nodeName": new.spec.node_name}
        else:
            changes["spec"] = _fields_between(old.spec, new.spec)
    if old.status is not new.status and old.status != new.status:
        changes["status"] = [new.status]
    return changes


def is_same_but_for_node(one: PodSpec, other: PodSpec) -> bool:
    """Whether two specs differ in their nodes at most."""
    return replace(other, node_name=one.node_name) == one


def _fields_between(old: msgspec.Struct, new: msgspec.Struct) -> dict[str, Any]:
    """The fields that differ, with their new values."""
    return {name: after for name, _, after in _differing(old, new)}


def _differing(old: msgspec.Struct, new: msgspec.Struct) -> Iterator[tuple[str, Any, Any]]:
    """The fields that differ: their names in JSON, and their values in both."""
    for pair in zip(new.__struct_encode_fields__, astuple(old), astuple(new), strict=True):
        if pair[1] is not pair[2] and pair[1] != pair[2]:
            yield pair


def with_changes(old: KubeObject, changes: dict[str, msgspec.Raw]) -> KubeObject:
    """The object after the changes, which are JSON by field. A list of one item is a whole value."""
    values: dict[str, Any] = {}
    for name, written in _names(type(old)):
        if written in changes:
            values[name] = _changed(type(old), name, getattr(old, name), changes[written])
    return replace(old, **values)


def _changed(struct: type[KubeObject], name: str, before: Any, written: msgspec.Raw) -> Any:
    """One field after its change."""
    if bytes(written).startswith(b"["):
        return _decoder(struct, name).decode(written)[0]
    inner = _RAW_FIELDS.decode(written)
    part: type[msgspec.Struct] = type(before)
    values = {
        field: _decoder(part, field).decode(b"[" + bytes(inner[encoded]) + b"]")[0]
        for field, encoded in _names(part)
        if encoded in inner
    }
    return replace(before, **values)


_RAW_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])


@cache
def _names(struct: type[msgspec.Struct]) -> tuple[tuple[str, str], ...]:
    """The fields of a struct: their names in Python and in JSON."""
    return tuple(zip(struct.__struct_fields__, struct.__struct_encode_fields__, strict=True))


@cache
def _decoder(struct: type[msgspec.Struct], name: str) -> Any:
    """Reads a list with one value of the field."""
    kind = get_type_hints(struct)[name]
    return msgspec.json.Decoder(list[kind])  # type: ignore[valid-type]


ADDED, UPDATED, REMOVED, BOUND, EVICTED, WRITTEN, CALLED, TIME, HALF_MINUTE, ATTEMPT, RELEASE, CONFIGURED = range(1, 13)
"""Codes of the kind of a step. The code is the first item of a line."""

Line = tuple[Any, ...]
"""(code, nanoseconds since the step before, outcomes, what the code says)"""

Outcome = tuple[str, ...]
"""One action that the scheduler asked for, in words: ("bind", pod, node), ("fail", pod, message), ("nominate", pod, node),
("evict", victim, preemptor), ("write", method, kind, key), ("call", verb)."""
Outcomes = Sequence[Outcome]


def block_of(lines: Iterable[Line]) -> bytes:
    """The lines as a segment has them: no end after the last."""
    return b"\n".join(map(_ENCODER.encode, lines))


_ENCODER = msgspec.json.Encoder()
append_line = _ENCODER.encode_into
"""(line, lines, -1): appends a line, without its end. If it raises, part of the line may be there."""


_KINDS = {struct: spec.kind for struct, spec in BY_STRUCT.items()}


def kind_of(item: KubeObject) -> str:
    """The name of the kind: `Pod`."""
    return _KINDS[type(item)]


# ---- inputs: what a line has after its outcomes


Parts = tuple[Any, ...]
MakeParts = Callable[[Any, Concealer], Parts]
"""(input, what hides secrets) -> what the code of the input says."""


def whole_object(change: inputs.ObjectAdded | inputs.ObjectRemoved, conceal: Concealer) -> Parts:
    """The kind of an object, and all of it."""
    return _KINDS[type(change.item)], conceal(change.item)


def _updated(change: inputs.ObjectUpdated, conceal: Concealer) -> Parts:
    """The key as well: the object that changed is found by it."""
    old, new = change.old, change.new
    if old.metadata.annotations != new.metadata.annotations:
        changes = changes_between(conceal(old), conceal(new))
    else:  # Hot: equal ones have equal digests, which take 2 µs each
        changes = changes_between(old, new)
    return _KINDS[type(new)], old.key, changes


def _evicted(change: inputs.EvictionAnswered, conceal: Concealer) -> Parts:
    return conceal(change.victim), conceal(change.preemptor), change.fault, change.was_there


def _written(change: inputs.WriteAnswered, conceal: Concealer) -> Parts:
    fault = None if change.fault is None else (change.fault.message, change.fault.code)
    if change.item is None:
        return change.token, "", None, fault
    return change.token, _KINDS[type(change.item)], conceal(change.item), fault


def _called(change: inputs.CallAnswered, conceal: Concealer) -> Parts:
    """The reply in base64: an extender may send any bytes."""
    reply = change.reply
    return (change.token, None, reply.message) if isinstance(reply, CallFault) else (change.token, reply, None)


LINES: dict[type[inputs.Input], tuple[int, MakeParts]] = {
    inputs.ObjectAdded: (ADDED, whole_object),
    inputs.ObjectUpdated: (UPDATED, _updated),
    inputs.ObjectRemoved: (REMOVED, whole_object),
    inputs.BindAnswered: (BOUND, lambda change, conceal: (change.pod.id, change.fault, change.elsewhere)),
    inputs.EvictionAnswered: (EVICTED, _evicted),
    inputs.WriteAnswered: (WRITTEN, _written),
    inputs.CallAnswered: (CALLED, _called),
    inputs.TimePassed: (TIME, lambda change, conceal: ()),
    inputs.HalfMinutePassed: (HALF_MINUTE, lambda change, conceal: ()),
}
"""By type of input: its code, and what its line has beside the time and the outcomes. The recorder of a scheduler adds
ConfigurationChanged (CONFIGURED: the settings)."""


# ---- outcomes


_DECISIONS = ("bind", "fail", "nominate", "evict")


def is_whole(outcome: Outcome) -> bool:
    """Whether a recorded outcome has what its kind has."""
    return bool(outcome) and (outcome[0] not in _DECISIONS or len(outcome) == 3)


def outcomes_of(intents: Iterable[Intent]) -> list[Outcome]:
    """The intents of a step as outcomes. Events of bound pods say nothing that the bind has not said."""
    found: list[Outcome] = []
    for intent in intents:
        match intent:
            case Bind():
                found.append(("bind", intent.pod.key, intent.node_name))
            case Record():
                if intent.reason == "FailedScheduling":
                    found.append(("fail", intent.pod.key, intent.note))
            case PatchStatus():
                if intent.nominated_node_name is not None:
                    found.append(("nominate", intent.pod.key, intent.nominated_node_name))
            case Evict():
                found.append(("evict", intent.victim.key, intent.preemptor.key))
            case Write():
                key = f"{intent.namespace}/{intent.name}" if intent.namespace else intent.name
                found.append(("write", intent.method, intent.kind.__name__, key))
            case Call():
                found.append(("call", intent.verb))
    return found
