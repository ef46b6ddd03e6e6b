"""Parts of objects with rules of their own: binding and eviction of pods, the scale of workloads, logs.

`status` and the other subresources that only narrow what a write may change are in `verbs`.
"""

import re

from mooring.api import api_errors as errors
from mooring.api.json_objects import JsonObject, at
from mooring.api.kind_spec import KindSpec, selector_text
from mooring.api.kinds.pods import POD
from mooring.api.kinds.scheduling import POD_DISRUPTION_BUDGET
from mooring.api.schema.typed_values import check_typed
from mooring.api.selector_text import selector_from
from mooring.apiserver.admission.object_meta import Deletion, check_preconditions
from mooring.apiserver.resource_api import CONTROL_PLANE, Change, Requester, ResourceApi
from mooring.apiserver.server.request import (
    Answer,
    Request,
    Target,
    by_whom,
    delete_options,
    how_to_delete,
    read_object,
)
from mooring.apiserver.server.verbs import patcher, success
from mooring.model.pod_spec import FINISHED_PHASES
from mooring.rules.conditions import disruption_target, holds, with_condition
from mooring.rules.evictions import lets_unready_go

_PROCESSING_RETRY_S = 10
"""Parity: when a client may ask again whose budget the controller has not looked at yet."""
_SCALE_METADATA = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
"""The metadata of its workload that a Scale shows."""
_MOST_REPLICAS = (1 << 31) - 1
"""Replicas are an int32."""
_SIMULATED = "this pod is simulated by `mooring up` and no container runs"
"""Why there is nothing to read or to talk to."""
_STREAMED = re.compile(r"/api/v1/namespaces/[^/]+/pods/[^/]+/(exec|attach|portforward|proxy)(?:/.*)?")
"""Paths of `kubectl exec`, `attach`, `port-forward` and `proxy`."""


# ---- binding


def post_binding(api: ResourceApi, target: Target, request: Request) -> Answer:
    """`pods/NAME/binding`, and the older `bindings`, where only the body names the pod."""
    binding = read_object(request.body, request.content_type, "Binding")
    check_typed("core.Binding", binding, "Binding", "v1")
    if binding.get("kind", "Binding") != "Binding":
        raise errors.bad_request(
            f"{binding['kind']} in version {binding.get('apiVersion')} cannot be handled as a Binding"
        )
    name = target.name or (binding.get("metadata") or {}).get("name", "")
    api.bind(target.namespace, name, binding, by_whom(request, "CreateOptions"))
    return Answer(201, success(code=201))


# ---- eviction


def post_eviction(api: ResourceApi, target: Target, request: Request) -> Answer:
    """`pods/NAME/eviction`: a deletion that a PodDisruptionBudget may refuse."""
    eviction = read_object(request.body, request.content_type, "Eviction")
    check_typed("policy.Eviction", eviction, "Eviction", "v1")
    named = (eviction.get("metadata") or {}).get("name", target.name)
    if named != target.name:
        raise errors.bad_request("name in URL does not match name in Eviction object")
    options = delete_options(eviction.get("deleteOptions") or {})
    is_dry_run = by_whom(request, "CreateOptions").is_dry_run or "All" in (options.dry_run or ())
    evict(api, target.namespace, target.name, how_to_delete(options), Requester(is_dry_run=is_dry_run))
    return Answer(201, success(code=201))


def evict(api: ResourceApi, namespace: str, name: str, how: Deletion, by: Requester = CONTROL_PLANE) -> None:
    """Delete a pod if its budget allows that, and count it there. Raises 429 if not now."""
    pod = api.get(POD, namespace, name)
    check_preconditions(POD, pod, how)  # before a budget is charged for what does not happen
    budget = None if _needs_no_budget(pod) else _budget_of(api, pod)
    if budget is not None and not _is_unhealthy_and_free(pod, budget):
        _take_one(api, budget, pod, by)
    if not by.is_dry_run:
        why = disruption_target("EvictionByEvictionAPI", "Eviction API: evicting", pod)
        conditions = with_condition(pod.get("status", {}).get("conditions", ()), why, api.now())
        api.put_status(POD, pod, {**pod.get("status", {}), "conditions": conditions})
    api.delete(POD, namespace, name, how, by)


def _needs_no_budget(pod: JsonObject) -> bool:
    """Whether a pod does not run, or is on its way out: no budget counts it, so its eviction costs none."""
    phase = pod.get("status", {}).get("phase")
    return phase in FINISHED_PHASES or phase == "Pending" or bool(pod["metadata"].get("deletionTimestamp"))


def _budget_of(api: ResourceApi, pod: JsonObject) -> JsonObject | None:
    """The budget that covers a pod. Parity: more than one is an error of the server."""
    namespace, labels = pod["metadata"]["namespace"], pod["metadata"].get("labels", {})
    found = [
        budget
        for budget in api.store.all(POD_DISRUPTION_BUDGET.storage)
        if budget["metadata"]["namespace"] == namespace
        and selector_from(budget["spec"].get("selector")).matches(labels)
    ]
    if len(found) > 1:
        raise errors.unexplained(
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        )
    return found[0] if found else None


def _is_unhealthy_and_free(pod: JsonObject, budget: JsonObject) -> bool:
    """Whether a pod that is not ready may go without being counted, by the budget's policy."""
    if holds(pod, "Ready"):
        return False
    status, policy = budget.get("status", {}), budget["spec"].get("unhealthyPodEvictionPolicy")
    return lets_unready_go(policy, status.get("desiredHealthy", 0), status.get("currentHealthy", 0))


def _take_one(api: ResourceApi, budget: JsonObject, pod: JsonObject, by: Requester) -> None:
    """Charge an eviction to the budget. Raises 429 where it has none to give, or is not counted yet."""
    status, name = budget.get("status", {}), budget["metadata"]["name"]
    if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        why = "Cannot evict pod as it would violate the pod's disruption budget."
        raise errors.too_many_requests(
            f"{why} The disruption budget {name} is still being processed by the server.", _PROCESSING_RETRY_S
        )
    allowed = status.get("disruptionsAllowed", 0)
    if allowed <= 0:
        raise errors.budget_exhausted(name, status.get("desiredHealthy", 0), status.get("currentHealthy", 0))
    if not by.is_dry_run:
        disrupted = {**status.get("disruptedPods", {}), pod["metadata"]["name"]: api.now()}
        api.put_status(
            POD_DISRUPTION_BUDGET, budget, {**status, "disruptionsAllowed": allowed - 1, "disruptedPods": disrupted}
        )


# ---- scale


def get_scale(api: ResourceApi, target: Target, request: Request) -> Answer:
    return Answer(200, scale_of(target.resource, api.get(target.resource, target.namespace, target.name)))


def put_scale(api: ResourceApi, target: Target, request: Request) -> Answer:
    given = read_object(request.body, request.content_type, "Scale")
    return _rescale(api, target, request, lambda _: given)


def patch_scale(api: ResourceApi, target: Target, request: Request) -> Answer:
    return _rescale(api, target, request, patcher(request))


def _rescale(api: ResourceApi, target: Target, request: Request, change: Change) -> Answer:
    """Write the replicas that a change of the Scale leads to."""

    def scaled(item: JsonObject) -> JsonObject:
        return with_scale(target.resource, item, change(scale_of(target.resource, item)))

    by = by_whom(request, "UpdateOptions")
    made = api.change(target.resource, target.namespace, target.name, scaled, by)
    return Answer(200, scale_of(target.resource, made))


def scale_of(resource: KindSpec, item: JsonObject) -> JsonObject:
    """The Scale of a workload. Zero replicas are left out of its spec, as Go leaves them out."""
    metadata = {key: item["metadata"][key] for key in _SCALE_METADATA if key in item["metadata"]}
    paths, replicas = resource.scale, at(item, resource.scale.replicas)
    selector = _scale_selector(resource, item)
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": metadata,
        "spec": {"replicas": replicas} if replicas else {},
        "status": {"replicas": at(item, paths.current, 0), **({"selector": selector} if selector else {})},
    }


def _scale_selector(resource: KindSpec, item: JsonObject) -> str:
    """The selector of a workload as text, which custom kinds have in a field."""
    if resource.definition:
        return str(at(item, resource.scale.selector, ""))
    selector = item.get("spec", {}).get("selector")
    return selector_text({"matchLabels": selector or {}} if resource.has_plain_selector else selector)


def with_scale(resource: KindSpec, item: JsonObject, scale: JsonObject) -> JsonObject:
    """The workload with the replicas of a Scale, meant for the version that the Scale names."""
    check_typed("autoscaling.Scale", scale, "Scale", "v1")
    if scale.get("kind", "Scale") != "Scale":
        raise errors.bad_request("the object provided is unrecognized (must be of type Scale)")
    replicas = (scale.get("spec") or {}).get("replicas") or 0
    if replicas > _MOST_REPLICAS:
        raise errors.undecodable(replicas, "struct field ScaleSpec.spec.replicas of type int32")
    if replicas < 0:
        fault = errors.field_invalid("spec.replicas", replicas, "must be greater than or equal to 0")
        raise errors.invalid("Scale", item["metadata"]["name"], [fault], "autoscaling")
    metadata = {**item["metadata"]}
    expected = (scale.get("metadata") or {}).get("resourceVersion")
    if expected:
        metadata["resourceVersion"] = expected
    made = {**item, "metadata": metadata}
    outer = made
    *way, last = resource.scale.replicas.split(".")
    for name in way:
        outer[name] = {**outer.get(name, {})}
        outer = outer[name]
    outer[last] = replicas
    return made


# ---- logs and streams


def get_log(api: ResourceApi, target: Target, request: Request) -> Answer:
    """Simulated containers write nothing; the answer says so."""
    api.get(target.resource, target.namespace, target.name)
    return Answer(200, f"{_SIMULATED}: there is no log\n", "text/plain")


def refuse_stream(path: str) -> None:
    """kubectl exec, attach, cp, port-forward and proxy: there is no container to talk to."""
    found = _STREAMED.fullmatch(path)
    if found is not None:
        raise errors.bad_request(f"{_SIMULATED}: {found[1]} is not possible")
