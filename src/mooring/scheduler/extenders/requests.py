"""What extenders are sent: keys in capitals, and null for what is absent, as upstream's structs are written."""

from collections.abc import Iterable, Mapping
from typing import Any

from mooring.cluster.nodes.table import NodeTable
from mooring.framework.config.types import Extender
from mooring.framework.intents import Call
from mooring.framework.points import Victims
from mooring.model.json_objects import JsonObject
from mooring.model.pod import Pod


def filter_call(extender: Extender, pod: Pod, nodes: NodeTable, rows: Iterable[int]) -> Call:
    return Call(extender, extender.filter_verb, _about_nodes(extender, pod, nodes, rows))


def prioritize_call(extender: Extender, pod: Pod, nodes: NodeTable, rows: Iterable[int]) -> Call:
    return Call(extender, extender.prioritize_verb, _about_nodes(extender, pod, nodes, rows))


def preempt_call(extender: Extender, pod: Pod, victims: Mapping[str, Victims]) -> Call:
    """Who would have to leave where; to an extender that knows the cluster victims are named by their uid."""
    if extender.node_cache_capable:
        meta = {name: _victims([{"UID": victim.id} for victim in on.pods], on) for name, on in victims.items()}
        return Call(extender, extender.preempt_verb, _about_victims(pod, None, meta))
    whole = {name: _victims(list(on.pods), on) for name, on in victims.items()}
    return Call(extender, extender.preempt_verb, _about_victims(pod, whole, None))


def bind_call(extender: Extender, pod: Pod, node_name: str) -> Call:
    body = {"PodName": pod.name, "PodNamespace": pod.namespace, "PodUID": pod.uid, "Node": node_name}
    return Call(extender, extender.bind_verb, body, binds=True)


def _about_nodes(extender: Extender, pod: Pod, nodes: NodeTable, rows: Iterable[int]) -> JsonObject:
    if extender.node_cache_capable:
        return {"Pod": pod, "Nodes": None, "NodeNames": [nodes.names[row] for row in rows]}
    items = [nodes.nodes[row] for row in rows]
    return {"Pod": pod, "Nodes": {"metadata": {}, "items": items}, "NodeNames": None}


def _about_victims(pod: Pod, whole: JsonObject | None, meta: JsonObject | None) -> JsonObject:
    return {"Pod": pod, "NodeNameToVictims": whole, "NodeNameToMetaVictims": meta}


def _victims(pods: list[Any], on: Victims) -> JsonObject:
    return {"Pods": pods, "NumPDBViolations": on.violations}
