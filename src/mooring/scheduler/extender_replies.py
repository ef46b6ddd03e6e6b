"""Calls to extenders as upstream writes them, and replies as Go reads them: keys in any case, null for the empty value,
any other type refused.

Error texts are those of Go's encoding/json, as far as they end up in events and conditions of pods.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NoReturn

import msgspec

from mooring.api.json_objects import JsonObject
from mooring.cluster.nodes.table import NodeTable
from mooring.framework.config.types import Extender
from mooring.framework.contract.intents import Call, CallFault, CallReply
from mooring.framework.contract.points import Victims
from mooring.model.pod import Pod

MAX_TEXT = 4096
"""How many characters of a reason or an error are kept. They end up in conditions and events, and an extender could
send megabytes; an event's note holds 1,024 bytes anyway."""

_FILTER, _VICTIMS, _SCORE = "ExtenderFilterResult", "MetaVictims", "HostPriority"
_INT64 = range(-(1 << 63), 1 << 63)
"""Go decodes scores and counts into int64, and refuses numbers outside."""
_GO_KINDS: dict[type, str] = {bool: "bool", str: "string", int: "number", float: "number", list: "array"}
"""Names of types in the error messages of Go's json package. A value of a type that is not here is an object."""


class Unusable(Exception):
    """A call failed, or its reply cannot be used: the text goes into conditions and events."""

    def __init__(self, text: str) -> None:
        super().__init__(_cut(text))


class FilterReply(msgspec.Struct, frozen=True):
    """An ExtenderFilterResult."""

    nodes: list[str] | None = None
    """The names of the nodes that came back whole; None: none came back that way."""
    node_names: list[str] | None = None
    failed: dict[str, str] = msgspec.field(default_factory=dict)
    """Node -> reason. Preemption may help on these nodes."""
    unresolvable: dict[str, str] = msgspec.field(default_factory=dict)
    """Node -> reason. Preemption cannot help there."""


class MetaVictims(msgspec.Struct, frozen=True):
    """The victims on a node, by uid, and how many of them violate a PodDisruptionBudget."""

    uids: list[str]
    violations: int = 0


def read_filter(reply: CallReply) -> FilterReply:
    """Raises Unusable, also for what the extender itself calls an error."""
    members = _members(_value(reply), f"value of type v1.{_FILTER}")
    if error := _text(members.get("error"), f"{_FILTER}.Error"):
        raise Unusable(error)
    return FilterReply(
        _names_of(members.get("nodes")),
        _texts(members.get("nodenames"), f"{_FILTER}.NodeNames"),
        _reasons(members.get("failednodes"), f"{_FILTER}.FailedNodes"),
        _reasons(members.get("failedandunresolvablenodes"), f"{_FILTER}.FailedAndUnresolvableNodes"),
    )


def read_scores(reply: CallReply) -> list[tuple[str, int]]:
    """Hosts with their scores, as they come. Raises Unusable."""
    entries = _list(_value(reply), "value of type v1.HostPriorityList")
    read = (_members(entry, f"value of type v1.{_SCORE}") for entry in entries or ())
    return [
        (_text(entry.get("host"), f"{_SCORE}.Host"), _integer(entry.get("score"), f"{_SCORE}.Score")) for entry in read
    ]


def read_victims(reply: CallReply) -> dict[str, MetaVictims]:
    """The victims on each node that is left. Raises Unusable."""
    members = _members(_value(reply), "value of type v1.ExtenderPreemptionResult")
    where = "ExtenderPreemptionResult.NodeNameToMetaVictims"
    return {name: _meta_victims(written) for name, written in _map(members.get("nodenametometavictims"), where).items()}


def read_bound(reply: CallReply) -> None:
    """Returns if the pod is bound, raises Unusable otherwise."""
    members = _members(_value(reply), "value of type v1.ExtenderBindingResult")
    if error := _text(members.get("error"), "ExtenderBindingResult.Error"):
        raise Unusable(error)


def _meta_victims(written: Any) -> MetaVictims:
    members = _members(written, f"value of type v1.{_VICTIMS}")
    pods = _list(members.get("pods"), f"struct field {_VICTIMS}.Pods") or []
    uids = [_text(_members(pod, "value of type v1.MetaPod").get("uid"), "MetaPod.UID") for pod in pods]
    return MetaVictims(uids, _integer(members.get("numpdbviolations"), f"{_VICTIMS}.NumPDBViolations"))


def _names_of(nodes: Any) -> list[str] | None:
    """The names in a NodeList; None if the member is absent."""
    if nodes is None:
        return None
    items = _list(_members(nodes, f"struct field {_FILTER}.Nodes").get("items"), "struct field NodeList.items")
    return [_name_of(item) for item in items or ()]


def _name_of(node: Any) -> str:
    """The name of a node that came back whole; all else of it is ignored."""
    # Hot: thousands of nodes may come back, and nearly all have keys in the usual case: no copy with lower keys is made.
    if isinstance(node, dict) and isinstance(metadata := node.get("metadata"), dict):
        name = metadata.get("name")
        if isinstance(name, str):
            return name
    metadata = _members(node, "value of type v1.Node").get("metadata")
    return _text(_members(metadata, "struct field Node.metadata").get("name"), "ObjectMeta.name")


# ---- JSON


def _value(reply: CallReply) -> Any:
    """The reply as a JSON value. Only a reply that msgspec refuses is read again with Go's leniency, which is
    slower."""
    if isinstance(reply, CallFault):
        raise Unusable(reply.message)
    try:
        return msgspec.json.decode(reply)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError):
        return _value_as_go_reads(reply.decode("utf-8", errors="replace").lstrip(" \t\r\n"))


def _value_as_go_reads(text: str) -> Any:
    """Parity: one value is read, and whatever follows it is left alone."""
    if not text:
        raise Unusable("EOF")
    if text[0] not in '{["-0123456789tfn':
        raise Unusable(f"invalid character {_quoted(text[0])} looking for beginning of value")
    try:
        return json.JSONDecoder(parse_constant=_refuse_constant).raw_decode(text)[0]
    except json.JSONDecodeError as fault:
        if fault.pos >= len(text.rstrip()) or fault.msg.startswith("Unterminated"):
            raise Unusable("unexpected EOF") from None
        raise Unusable(f"invalid character {_quoted(text[fault.pos])} at offset {fault.pos}") from None
    except (ValueError, RecursionError) as fault:
        raise Unusable(f"the reply cannot be read: {fault}") from None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"invalid character {_quoted(name[0])} looking for beginning of value")


def _quoted(character: str) -> str:
    """A character as Go's error messages show it."""
    return "'\\''" if character == "'" else f"'{character}'" if character.isprintable() else repr(character)


def _members(value: Any, where: str) -> Mapping[str, Any]:
    """The members of an object by their name in small letters; null has none."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise _mismatch(value, where)
    return {key.lower(): member for key, member in value.items()}


def _list(value: Any, where: str) -> list[Any] | None:
    """A list, or None for null or absent."""
    if value is not None and not isinstance(value, list):
        raise _mismatch(value, where)
    return value


def _map(value: Any, field_name: str) -> dict[str, Any]:
    """An object with its keys as written: here keys are data (node names), not members of a struct."""
    if value is not None and not isinstance(value, dict):
        raise _mismatch(value, f"struct field {field_name}")
    return value or {}


def _texts(value: Any, field_name: str) -> list[str] | None:
    found = _list(value, f"struct field {field_name}")
    return None if found is None else [_text(item, field_name) for item in found]


def _reasons(value: Any, field_name: str) -> dict[str, str]:
    return dict(_read_reasons(_map(value, field_name), field_name))


def _read_reasons(written: dict[str, Any], field_name: str) -> Iterator[tuple[str, str]]:
    for name, reason in written.items():
        yield _whole(name), _cut(_text(reason, field_name))


def _text(value: Any, field_name: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise _mismatch(value, f"struct field {field_name} of type string")
    return _whole(value)


def _integer(value: Any, field_name: str) -> int:
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int) or value not in _INT64:
        raise _mismatch(value, f"struct field {field_name} of type int64")
    return value


def _mismatch(value: Any, where: str) -> Unusable:
    """Go's UnmarshalTypeError. A number is shown with its value, cut at 80 characters since it may have any length."""
    kind = _GO_KINDS.get(type(value), "object")
    shown = f"number {value}"[:80] if kind == "number" else kind
    return Unusable(f"json: cannot unmarshal {shown} into Go {where}")


def _whole(text: str) -> str:
    """Half a surrogate pair cannot be written anywhere: it becomes what Go makes of it."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _cut(text: str) -> str:
    """At most MAX_TEXT characters, with a mark where something is missing."""
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]} ..."


# ---- Arguments for extenders: keys begin with a capital, and absent values are null, as upstream writes its structs


def filter_call(extender: Extender, pod: Pod, nodes: NodeTable, rows: Iterable[int]) -> Call:
    return Call(extender, extender.filter_verb, _about_nodes(extender, pod, nodes, rows), pod_id=pod.id)


def prioritize_call(extender: Extender, pod: Pod, nodes: NodeTable, rows: Iterable[int]) -> Call:
    return Call(extender, extender.prioritize_verb, _about_nodes(extender, pod, nodes, rows), pod_id=pod.id)


def preempt_call(extender: Extender, pod: Pod, victims: Mapping[str, Victims]) -> Call:
    """An ExtenderPreemptionArgs. An extender that knows the cluster gets victims by uid, others get whole pods."""
    if extender.node_cache_capable:
        meta = {name: _victims([{"UID": victim.id} for victim in on.pods], on) for name, on in victims.items()}
        return Call(extender, extender.preempt_verb, _about_victims(pod, None, meta), pod_id=pod.id)
    whole = {name: _victims(list(on.pods), on) for name, on in victims.items()}
    return Call(extender, extender.preempt_verb, _about_victims(pod, whole, None), pod_id=pod.id)


def bind_call(extender: Extender, pod: Pod, node_name: str) -> Call:
    """An ExtenderBindingArgs. `binds` marks the call as one that changes the cluster."""
    body = {"PodName": pod.name, "PodNamespace": pod.namespace, "PodUID": pod.uid, "Node": node_name}
    return Call(extender, extender.bind_verb, body, pod_id=pod.id, binds=True)


def _about_nodes(extender: Extender, pod: Pod, nodes: NodeTable, rows: Iterable[int]) -> JsonObject:
    """An ExtenderArgs: names for extenders that know the cluster, whole nodes for others."""
    if extender.node_cache_capable:
        return {"Pod": pod, "Nodes": None, "NodeNames": [nodes.names[row] for row in rows]}
    items = [nodes.nodes[row] for row in rows]
    return {"Pod": pod, "Nodes": {"metadata": {}, "items": items}, "NodeNames": None}


def _about_victims(pod: Pod, whole: JsonObject | None, meta: JsonObject | None) -> JsonObject:
    return {"Pod": pod, "NodeNameToVictims": whole, "NodeNameToMetaVictims": meta}


def _victims(pods: list[Any], on: Victims) -> JsonObject:
    return {"Pods": pods, "NumPDBViolations": on.violations}
