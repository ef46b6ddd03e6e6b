"""Parts of objects with rules of their own: binding, eviction, scale, logs."""

import re

from mooring.apiserver.admission.eviction import evict
from mooring.apiserver.admission.scale import scale_of, with_scale
from mooring.apiserver.resource_api import Change, Requester, ResourceApi
from mooring.apiserver.schema.typed_values import check_typed
from mooring.apiserver.server.bodies import read_object
from mooring.apiserver.server.options import by_whom, delete_options, how_to_delete
from mooring.apiserver.server.request import Answer, Request
from mooring.apiserver.server.routes import Target
from mooring.apiserver.server.writing import patcher, success
from mooring.model.api_errors import bad_request
from mooring.model.json_objects import JsonObject

_SIMULATED = "this pod is simulated by `mooring up` and no container runs"
_STREAMED = re.compile(r"/api/v1/namespaces/[^/]+/pods/[^/]+/(exec|attach|portforward|proxy)(?:/.*)?")


def post_binding(api: ResourceApi, target: Target, request: Request) -> Answer:
    """`pods/NAME/binding`, and the older `bindings`, where only the body names the pod."""
    binding = read_object(request.body, request.content_type, "Binding")
    check_typed("core.Binding", binding, "Binding", "v1")
    if binding.get("kind", "Binding") != "Binding":
        raise bad_request(f"{binding['kind']} in version {binding.get('apiVersion')} cannot be handled as a Binding")
    name = target.name or (binding.get("metadata") or {}).get("name", "")
    api.bind(target.namespace, name, binding, by_whom(request, "CreateOptions"))
    return Answer(201, success(code=201))


def post_eviction(api: ResourceApi, target: Target, request: Request) -> Answer:
    eviction = read_object(request.body, request.content_type, "Eviction")
    check_typed("policy.Eviction", eviction, "Eviction", "v1")
    named = (eviction.get("metadata") or {}).get("name", target.name)
    if named != target.name:
        raise bad_request("name in URL does not match name in Eviction object")
    options = delete_options(eviction.get("deleteOptions") or {})
    is_dry_run = by_whom(request, "CreateOptions").is_dry_run or "All" in (options.dry_run or ())
    evict(api, target.namespace, target.name, how_to_delete(options), Requester(is_dry_run=is_dry_run))
    return Answer(201, success(code=201))


def get_scale(api: ResourceApi, target: Target, request: Request) -> Answer:
    return Answer(200, scale_of(target.resource, api.get(target.resource, target.namespace, target.name)))


def put_scale(api: ResourceApi, target: Target, request: Request) -> Answer:
    given = read_object(request.body, request.content_type, "Scale")
    return _rescale(api, target, request, lambda _: given)


def patch_scale(api: ResourceApi, target: Target, request: Request) -> Answer:
    return _rescale(api, target, request, patcher(request))


def get_log(api: ResourceApi, target: Target, request: Request) -> Answer:
    """Simulated containers write nothing; users should not have to guess why."""
    api.get(target.resource, target.namespace, target.name)
    return Answer(200, f"{_SIMULATED}: there is no log\n", "text/plain")


def refuse_stream(path: str) -> None:
    """kubectl exec, attach, cp, port-forward and proxy: there is no container to talk to."""
    found = _STREAMED.fullmatch(path)
    if found is not None:
        raise bad_request(f"{_SIMULATED}: {found[1]} is not possible")


def _rescale(api: ResourceApi, target: Target, request: Request, change: Change) -> Answer:
    def scaled(item: JsonObject) -> JsonObject:
        return with_scale(item, change(scale_of(target.resource, item)))

    by = by_whom(request, "UpdateOptions")
    made = api.change(target.resource, target.namespace, target.name, scaled, by)
    return Answer(200, scale_of(target.resource, made))
