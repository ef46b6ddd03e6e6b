"""Objects of an embedded cluster that its scheduler does not watch, and that answers need: workloads with their templates,
classes, and the events of the pod that is asked about."""

from collections.abc import Iterator

from mooring.api.json_objects import JsonObject
from mooring.api.kind_spec import KindSpec
from mooring.apiserver.resource_api import ResourceApi
from mooring.dashboard.interfaces import ExplainPod, Question
from mooring.dashboard.questions.asked_cluster import MoreObjects
from mooring.inputs.live_source import EVENTS, LISTED

UNSEEN = tuple(spec for spec in LISTED if spec.watch is None or spec.makes_pods)
"""Workloads are here though the scheduler watches some of them: it reads their selectors only."""


def objects_in_store(api: ResourceApi) -> MoreObjects:
    """From the store of this API server. The objects there are values: a write makes new ones."""

    def more(question: Question) -> Iterator[JsonObject]:
        kept = [(spec, api.store.all(spec.storage)) for spec in UNSEEN]
        events = _events(api, question)
        return _written([*kept, (EVENTS, events)])

    return more


def _written(kept: list[tuple[KindSpec, list[JsonObject]]]) -> Iterator[JsonObject]:
    for spec, items in kept:
        for item in items:
            yield {"apiVersion": spec.api_version, "kind": spec.kind, **item}


def _events(api: ResourceApi, question: Question) -> list[JsonObject]:
    if not isinstance(question, ExplainPod):
        return []
    wanted = (question.namespace, question.name)
    return [item for item in api.store.all(EVENTS.storage) if _about(item) == wanted]


def _about(event: JsonObject) -> tuple[str, str]:
    involved = event.get("involvedObject") or {}
    return involved.get("namespace", ""), involved.get("name", "")
