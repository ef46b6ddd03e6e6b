"""Rules of workloads that kube-apiserver has and no decision depends on: templates, strategies, counts and schedules.

`api.validate` has the rules that every manifest is read with. These are for what clients write to the API server.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from mooring.api.api_errors import field_duplicate, field_forbidden, field_invalid, field_required, field_unsupported
from mooring.api.json_objects import JsonObject, at
from mooring.model.names import percent_faults
from mooring.rules.cron_schedule import ScheduleError, parse_schedule
from mooring.rules.pod_form import NO_ADDRESS, Causes, is_address, not_negative, pod_form_faults

_LONGEST_CRON_JOB = 52
"""Characters of the name of a CronJob: its Jobs have eleven more, and 63 at most."""
_TEMPLATE = "spec.template.spec"
_COUNTS = ("minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds")
_JOB_COUNTS = ("activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished", "backoffLimitPerIndex")
_CRON_COUNTS = ("startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit")
_JOB_MODES = ("NonIndexed", "Indexed")
_JOB_RESTARTS = ("OnFailure", "Never")
_CONCURRENCY = ("Allow", "Forbid", "Replace")


def _long_running(called: str, strategy: Callable[[JsonObject], Causes], item: JsonObject) -> Causes:
    """The faults that Deployments, ReplicaSets, StatefulSets and DaemonSets share. `called` is upstream's word for the kind
    in the message about an empty selector."""
    spec = item["spec"]
    selector = spec.get("selector")
    if called and selector is not None and not (selector.get("matchLabels") or selector.get("matchExpressions")):
        yield field_invalid("spec.selector", selector, f"empty selector is invalid for {called}")
    yield from not_negative("spec", spec, _COUNTS)
    yield from pod_form_faults(_TEMPLATE, _with_claims(item))
    restart = at(item, f"{_TEMPLATE}.restartPolicy", "Always")
    if restart != "Always":
        yield field_unsupported(f"{_TEMPLATE}.restartPolicy", restart, ("Always",))
    if at(item, f"{_TEMPLATE}.activeDeadlineSeconds") is not None:
        kind = "DaemonSet" if called == "daemonset" else "ReplicaSet"
        yield field_forbidden(f"{_TEMPLATE}.activeDeadlineSeconds", f"activeDeadlineSeconds in {kind} is not Supported")
    yield from strategy(spec)


def _with_claims(item: JsonObject) -> JsonObject:
    """The spec of the pods, with the volumes that a StatefulSet makes of its claim templates."""
    spec: JsonObject = at(item, _TEMPLATE, {})
    claims = [
        {"name": name}
        for claim in item["spec"].get("volumeClaimTemplates") or ()
        if (name := at(claim, "metadata.name"))
    ]
    return {**spec, "volumes": [*(spec.get("volumes") or ()), *claims]} if claims else spec


def _deployment_strategy(spec: JsonObject) -> Causes:
    strategy, path = spec.get("strategy") or {}, "spec.strategy"
    rolling, kind = strategy.get("rollingUpdate"), strategy.get("type")
    if kind == "Recreate" and rolling is not None:
        yield field_forbidden(f"{path}.rollingUpdate", "may not be specified when strategy `type` is 'Recreate'")
    elif kind == "RollingUpdate":
        yield from _rolling(f"{path}.rollingUpdate", rolling or {})
        if _number((rolling or {}).get("maxUnavailable")) == _number((rolling or {}).get("maxSurge")) == 0:
            shown = (rolling or {}).get("maxUnavailable")
            yield field_invalid(f"{path}.rollingUpdate.maxUnavailable", shown, "may not be 0 when `maxSurge` is 0")
    elif kind != "Recreate":
        shown = {"Type": kind, "RollingUpdate": rolling}
        yield field_unsupported(path, shown, ("Recreate", "RollingUpdate"))
    deadline = spec.get("progressDeadlineSeconds")
    if deadline is not None and deadline <= spec.get("minReadySeconds", 0):
        yield field_invalid("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds")


def _set_strategy(spec: JsonObject) -> Causes:
    """Of a StatefulSet."""
    policy, strategy = spec.get("podManagementPolicy"), spec.get("updateStrategy") or {}
    if policy not in ("OrderedReady", "Parallel"):
        yield field_invalid("spec.podManagementPolicy", policy, "must be 'OrderedReady' or 'Parallel'")
    if strategy.get("type") not in ("RollingUpdate", "OnDelete"):
        shown = {"Type": strategy.get("type"), "RollingUpdate": strategy.get("rollingUpdate")}
        yield field_invalid("spec.updateStrategy", shown, "must be 'RollingUpdate' or 'OnDelete'")
    rolling = strategy.get("rollingUpdate") or {}
    yield from not_negative("spec.updateStrategy.rollingUpdate", rolling, ("partition",))
    yield from _rolling("spec.updateStrategy.rollingUpdate", rolling)


def _daemon_strategy(spec: JsonObject) -> Causes:
    strategy, path = spec.get("updateStrategy") or {}, "spec.updateStrategy.rollingUpdate"
    if strategy.get("type") not in ("RollingUpdate", "OnDelete"):
        shown = {"Type": strategy.get("type"), "RollingUpdate": strategy.get("rollingUpdate")}
        yield field_unsupported("spec.updateStrategy", shown, ("RollingUpdate", "OnDelete"))
    rolling = strategy.get("rollingUpdate") or {}
    yield from _rolling(path, rolling)
    gone, more = _number(rolling.get("maxUnavailable")), _number(rolling.get("maxSurge"))
    if gone and more:
        yield field_invalid(f"{path}.maxSurge", rolling["maxSurge"], "may not be set when maxUnavailable is non-zero")
    elif gone == more == 0:
        yield field_required(f"{path}.maxUnavailable", "cannot be 0 when maxSurge is 0")


def _no_strategy(spec: JsonObject) -> Causes:
    yield from ()


def _rolling(path: str, rolling: JsonObject) -> Causes:
    for field in ("maxUnavailable", "maxSurge"):
        yield from _share(f"{path}.{field}", rolling.get(field))
    yield from _at_most_all(f"{path}.maxUnavailable", rolling.get("maxUnavailable"))


def _share(path: str, value: Any) -> Causes:
    """A number of pods, or a share of them."""
    if isinstance(value, str):
        yield from (field_invalid(path, value, why) for why in percent_faults(value))
    elif isinstance(value, int) and value < 0:
        yield field_invalid(path, value, "must be greater than or equal to 0")


def _at_most_all(path: str, value: Any) -> Causes:
    if isinstance(value, str) and (_number(value) or 0) > 100:
        yield field_invalid(path, value, "must not be greater than 100%")


def _number(value: Any) -> int | None:
    """The number in a number or a share; None for anything else."""
    if isinstance(value, str):
        digits = value.removesuffix("%")
        return int(digits) if digits.isdecimal() else None
    return value if isinstance(value, int) else None


# ---- Jobs


def job_spec_faults(path: str, spec: JsonObject) -> Causes:
    """The faults of a Job at `path`, also of one that a CronJob will make."""
    yield from not_negative(path, spec, _JOB_COUNTS)
    mode = spec.get("completionMode", _JOB_MODES[0])
    if mode not in _JOB_MODES:
        yield field_unsupported(f"{path}.completionMode", mode, _JOB_MODES)
    if mode == "Indexed" and spec.get("completions") is None:
        yield field_required(f"{path}.completions", "when completion mode is Indexed")
    if mode == "NonIndexed" and spec.get("backoffLimitPerIndex") is not None:
        yield field_invalid(
            f"{path}.backoffLimitPerIndex", spec["backoffLimitPerIndex"], "requires indexed completion mode"
        )
    template = at(spec, "template.spec", {})
    yield from pod_form_faults(f"{path}.template.spec", template)
    if template.get("restartPolicy", "Always") == "Always":
        yield field_required(f"{path}.template.spec.restartPolicy", 'valid values: "OnFailure", "Never"')
    elif template["restartPolicy"] not in _JOB_RESTARTS:
        yield field_unsupported(f"{path}.template.spec.restartPolicy", template["restartPolicy"], _JOB_RESTARTS)


def _job(job: JsonObject) -> Causes:
    yield from job_spec_faults("spec", job["spec"])


def _cron_job(job: JsonObject) -> Causes:
    spec = job["spec"]
    yield from _schedule(spec)
    yield from not_negative("spec", spec, _CRON_COUNTS)
    if spec.get("concurrencyPolicy") not in _CONCURRENCY:
        yield field_unsupported("spec.concurrencyPolicy", spec.get("concurrencyPolicy"), _CONCURRENCY)
    yield from job_spec_faults("spec.jobTemplate.spec", at(job, "spec.jobTemplate.spec", {}))


def _schedule(spec: JsonObject) -> Causes:
    text, zone = spec.get("schedule") or "", spec.get("timeZone")
    if not text:
        yield field_required("spec.schedule")
    elif "TZ" in text:
        why = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
        yield field_invalid("spec.schedule", text, why)
    elif not text.startswith("@every "):
        yield from _unparsed("spec.schedule", text, text)
    if zone is not None:
        yield from _unparsed("spec.timeZone", zone, "* * * * *", zone)


def _unparsed(path: str, shown: str, text: str, zone: str = "") -> Causes:
    try:
        parse_schedule(text, zone)
    except ScheduleError as fault:
        yield field_invalid(path, shown, str(fault))


def _new_cron_job(job: JsonObject) -> Causes:
    name = job["metadata"].get("name", "")
    if len(name) > _LONGEST_CRON_JOB:
        yield field_invalid("metadata.name", name, f"must be no more than {_LONGEST_CRON_JOB} characters")


# ---- Services

_SERVICE_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_PORT = "must be between 1 and 65535, inclusive"


def _service(service: JsonObject) -> Causes:
    spec = service["spec"]
    kind, ports = spec.get("type"), spec.get("ports") or []
    if not ports and kind != "ExternalName" and spec.get("clusterIP") != "None":
        yield field_required("spec.ports")
    if kind not in _SERVICE_TYPES:
        yield field_unsupported("spec.type", kind, _SERVICE_TYPES)
    if kind == "ExternalName" and not spec.get("externalName"):
        yield field_required("spec.externalName")
    if spec.get("sessionAffinity") not in ("None", "ClientIP"):
        yield field_unsupported("spec.sessionAffinity", spec.get("sessionAffinity"), ("ClientIP", "None"))
    address = spec.get("clusterIP") or "None"
    if address != "None" and not is_address(address):
        yield field_invalid("spec.clusterIPs[0]", address, NO_ADDRESS)
    yield from _service_ports(ports)


def _service_ports(ports: Sequence[JsonObject]) -> Causes:
    names, used = set[str](), set[tuple[Any, Any]]()
    for i, port in enumerate(ports):
        path, name = f"spec.ports[{i}]", port.get("name") or ""
        if not name and len(ports) > 1:
            yield field_required(f"{path}.name")
        elif name in names:
            yield field_duplicate(f"{path}.name", name)
        names |= {name} if name else set()
        number, target = port.get("port") or 0, port.get("targetPort") or 0
        if not 1 <= number <= 65535:
            yield field_invalid(f"{path}.port", number, _PORT)
        if isinstance(target, int) and not 1 <= target <= 65535:
            yield field_invalid(f"{path}.targetPort", target, _PORT)
        if port.get("protocol", "TCP") not in _PROTOCOLS:
            yield field_unsupported(f"{path}.protocol", port["protocol"], _PROTOCOLS)
        if (number, port.get("protocol")) in used:
            shown = {
                "Name": name,
                "Protocol": port.get("protocol"),
                "AppProtocol": port.get("appProtocol"),
                "Port": number,
                "TargetPort": target,
                "NodePort": port.get("nodePort", 0),
            }
            yield field_duplicate(path, shown)
        used.add((number, port.get("protocol")))


def _kept_address(old: JsonObject, new: JsonObject) -> Causes:
    """The address of a service stays, unless it becomes a name of elsewhere."""
    before, after = (at(service, "spec.clusterIP", "") for service in (old, new))
    types = {at(service, "spec.type") for service in (old, new)}
    if before and after and after != before and "ExternalName" not in types:
        yield field_invalid("spec.clusterIPs[0]", [after], "may not change once set")


# ---- disruption budgets


def _budget(budget: JsonObject) -> Causes:
    for field in ("minAvailable", "maxUnavailable"):
        yield from _at_most_all(f"spec.{field}", budget["spec"].get(field))


# ---- changes of Jobs

_UNSTARTED = ("nodeSelector", "affinity", "tolerations", "schedulingGates")
"""The fields of a template that may change while its Job is suspended and never started, beside resources of containers."""


def _job_change(old: JsonObject, new: JsonObject) -> Causes:
    before, after = old["spec"], new["spec"]
    mode = after.get("completionMode")
    if before.get("completions") != after.get("completions"):
        is_elastic = mode == "Indexed" and after.get("completions") == after.get("parallelism")
        if not is_elastic:
            yield field_invalid("spec.completions", after.get("completions"), "field is immutable")
    for field in ("selector", "completionMode", "podFailurePolicy", "backoffLimitPerIndex"):
        if before.get(field) != after.get(field):
            yield field_invalid(f"spec.{field}", after.get(field), "field is immutable")
    is_unstarted = before.get("suspend") and not at(old, "status.startTime")
    shapes = [_template(spec, is_unstarted) for spec in (before, after)]
    if shapes[0] != shapes[1]:
        yield field_invalid("spec.template", at(after, "template"), "field is immutable")


def _template(spec: JsonObject, is_unstarted: bool) -> object:
    """The part of the template that cannot change."""
    template = at(spec, "template.spec", {})
    if not is_unstarted:
        return template
    kept = {field: value for field, value in template.items() if field not in _UNSTARTED}
    for group in ("containers", "initContainers"):
        if group in kept:
            kept[group] = [{**container, "resources": None} for container in kept[group]]
    return kept


def _new_pod(pod: JsonObject) -> Causes:
    if pod["spec"].get("ephemeralContainers"):
        yield field_forbidden("spec.ephemeralContainers", "cannot be set on create")


FORM_FAULTS: Mapping[tuple[str, str], Callable[[JsonObject], Causes]] = {
    ("", "Pod"): lambda pod: pod_form_faults("spec", pod["spec"]),
    ("apps", "Deployment"): partial(_long_running, "deployment", _deployment_strategy),
    ("apps", "ReplicaSet"): partial(_long_running, "deployment", _no_strategy),
    ("apps", "StatefulSet"): partial(_long_running, "statefulset", _set_strategy),
    ("apps", "DaemonSet"): partial(_long_running, "daemonset", _daemon_strategy),
    ("", "ReplicationController"): partial(_long_running, "", _no_strategy),
    ("batch", "Job"): _job,
    ("batch", "CronJob"): _cron_job,
    ("", "Service"): _service,
    ("policy", "PodDisruptionBudget"): _budget,
}
"""By group and kind: the faults of an object after its defaults were set. Upstream says "deployment" of ReplicaSets, too."""
NEW_FAULTS: Mapping[tuple[str, str], Callable[[JsonObject], Causes]] = {
    ("", "Pod"): _new_pod,
    ("batch", "CronJob"): _new_cron_job,
}
"""By group and kind: the faults that only a new object has."""
CHANGE_FAULTS: Mapping[tuple[str, str], Callable[[JsonObject, JsonObject], Causes]] = {
    ("batch", "Job"): _job_change,
    ("", "Service"): _kept_address,
}
"""By group and kind: the changes that are refused."""
