"""Objects that the scheduler does not watch, and that answers need: workloads with their templates, classes, and the events
of the pod that is asked about. They come from an API server (`mooring run`) or from the store of an embedded cluster."""

from collections.abc import Iterator
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

from mooring.api.api_errors import ApiError
from mooring.api.json_objects import JsonObject
from mooring.api.kind_spec import KindSpec
from mooring.api.kinds import WORKLOADS, split_kind
from mooring.apiclient.client import ApiClient, Limits
from mooring.apiclient.connection_settings import ConnectionSettings
from mooring.apiclient.http_requests import Unanswered
from mooring.apiserver.resource_api import ResourceApi
from mooring.dashboard.interfaces import AskedChanges, ExplainPod, Question, Refused
from mooring.dashboard.questions.asked_cluster import FetchObjects, MoreObjects
from mooring.inputs.live_source import EVENTS, LISTED

# ---- The workloads that a question names, read from the API server when it is asked: `mooring run` watches no
# Deployments and Jobs, and of other workloads it keeps only selectors. Nothing else is read, and nothing is written.


MAX_NAMED = 20
"""Workloads that one question may name: each is a request."""
_NAMING = ("scale", "delete")
"""Changes whose value begins with KIND/[NAMESPACE/]NAME."""
_LIMITS = Limits(request_s=10, answer_bytes=8 << 20)
_ELSEWHERE = "or ask `mooring what-if` with your own credentials"


def workloads_at(access: ConnectionSettings, user_agent: str) -> FetchObjects:
    """From this API server, with a connection of their own: questions cannot delay binds."""

    async def fetch(question: Question) -> list[JsonObject]:
        named = named_workloads(question)
        if not named:
            return []
        async with ApiClient(access, user_agent, 5, 10, limits=_LIMITS) as client:
            return [item for spec, rest in named for item in await _read(client, spec, rest)]

    return fetch


def named_workloads(question: Question) -> list[tuple[KindSpec, str]]:
    """Kind and `[NAMESPACE/]NAME` of each workload in the question, once. Values that cannot be read are left to the answer,
    which says what is wrong with them. Raises Refused."""
    if not isinstance(question, AskedChanges):
        return []
    found = [*dict.fromkeys(_named(question))]
    if len(found) > MAX_NAMED:
        raise Refused(422, f"the question names {len(found)} workloads; ask about at most {MAX_NAMED} at once")
    return found


def _named(question: AskedChanges) -> Iterator[tuple[KindSpec, str]]:
    for change in question.changes:
        written = change.value.rpartition("=")[0] if change.change == "scale" else change.value
        spec, rest = split_kind(written, WORKLOADS.values())
        if change.change in _NAMING and spec is not None:
            yield spec, rest


async def _read(client: ApiClient, spec: KindSpec, rest: str) -> list[JsonObject]:
    """The workload; without a namespace all with the name. None if there is none: the answer says so. Raises Refused."""
    namespace, slash, name = rest.rpartition("/")
    try:
        if slash:
            items = [await client.get(f"{spec.path}/namespaces/{quote(namespace, '')}/{spec.plural}/{quote(name, '')}")]
        else:
            items = _items(await client.get(f"{spec.path}/{spec.plural}", {"fieldSelector": f"metadata.name={name}"}))
    except ApiError as fault:
        if fault.code == HTTPStatus.NOT_FOUND:
            return []
        raise _refusal(spec, rest, bool(slash), fault) from None
    except Unanswered as fault:
        raise Refused(503, f"the API server does not show {spec.kind} {rest}: {fault}") from None
    return [{"apiVersion": spec.api_version, "kind": spec.kind, **item} for item in items if isinstance(item, dict)]


def _items(listed: Any) -> list[Any]:
    items = listed.get("items") if isinstance(listed, dict) else None
    return items if isinstance(items, list) else []


def _refusal(spec: KindSpec, rest: str, is_one: bool, fault: ApiError) -> Refused:
    """RBAC is what an administrator can change: the text says what to grant, and to whom."""
    if fault.code not in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        return Refused(503, f"the API server does not show {spec.kind} {rest}: {fault.message}")
    verb = "get" if is_one else "list"
    grant = f"allow the scheduler's account to {verb} {spec.resource}"
    return Refused(403, f"the scheduler may not read {spec.kind} {rest}: {grant}, {_ELSEWHERE} ({fault.message})")


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
