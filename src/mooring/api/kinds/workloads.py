"""Workloads: kinds that create pods from a template, and their revisions and autoscalers.

What the controllers do with them is in `controllers/workloads`; the pods that follow from a template are in
`rules/workload_pods.py`.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

from mooring.api.json_objects import JsonObject, at, fill
from mooring.api.kind_spec import (
    AGE,
    NAME,
    NONE,
    OF_METADATA,
    POD_SPEC,
    TEMPLATE,
    UNSET,
    Cell,
    Column,
    KindSpec,
    Watch,
    ago,
    conditions,
    count,
    field_cell,
    labels_at,
    labels_cell,
    number,
    ratio,
    since,
    template_columns,
    text_at,
    wide,
)
from mooring.api.validation import field_rules as rules
from mooring.api.validation.group_rules import job_changes, job_faults
from mooring.kit.clock import moment_ns
from mooring.model.workloads import ReplicaSet, ReplicationController, Service, StatefulSet, Workload

# ---- Services and other kinds of the network. The scheduler reads only Services: default spread constraints use
# their selectors.


_NETWORKING = ("networking.k8s.io", "v1")


def _complete_service(service: JsonObject) -> None:
    if service["spec"].get("type") != "ExternalName":
        fill(service["spec"], {"internalTrafficPolicy": "Cluster"})
    for port in service["spec"].get("ports", ()):
        fill(port, {"protocol": "TCP", "targetPort": port.get("port", 0)})


def _cluster_ip(service: JsonObject, _: int) -> Cell:
    address: str = (at(service, "spec.clusterIPs") or [at(service, "spec.clusterIP", NONE)])[0]
    return address


def _external_ip(service: JsonObject, _: int) -> Cell:
    """Upstream's getServiceExternalIP: names and load balancers by the type of the Service."""
    kind = at(service, "spec.type", "ClusterIP")
    if kind == "ExternalName":
        return str(at(service, "spec.externalName", ""))
    given = at(service, "status.loadBalancer.ingress", ()) if kind == "LoadBalancer" else ()
    balanced = sorted({line.get("ip") or line.get("hostname", "") for line in given})
    addresses = [*balanced, *at(service, "spec.externalIPs", ())]
    return ",".join(addresses) or ("<pending>" if kind == "LoadBalancer" else NONE)


def _ports(service: JsonObject, _: int) -> Cell:
    """`80:30080/TCP`: port, node port if any, and protocol."""
    shown = []
    for port in at(service, "spec.ports", ()):
        number = f"{port['port']}:{port['nodePort']}" if port.get("nodePort") else str(port["port"])
        shown.append(f"{number}/{port.get('protocol', 'TCP')}")
    return ",".join(shown) or NONE


SERVICE = KindSpec(
    *("", "v1", "services", "Service", True, ("svc",), ("all",), ("status",)),
    struct=Service,
    check=lambda owner: rules.labels("spec.selector", owner.spec.selector),
    watch=Watch(),
    spec_defaults={"type": "ClusterIP", "sessionAffinity": "None"},
    complete=_complete_service,
    new_status={"loadBalancer": {}},
    returns_deleted=True,
    field_labels={**OF_METADATA, **labels_at("spec.clusterIP", "spec.type")},
    columns=(
        *(NAME, Column("Type", field_cell("spec.type", "ClusterIP")), Column("Cluster-IP", _cluster_ip)),
        *(Column("External-IP", _external_ip), Column("Port(s)", _ports), AGE),
        wide("Selector", labels_cell("spec.selector")),
    ),
)


def _complete_network_policy(policy: JsonObject) -> None:
    """A policy is about what comes in, and about what goes out if it has rules for that."""
    spec = policy.setdefault("spec", {})
    if not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", *(["Egress"] if spec.get("egress") else [])]


ENDPOINTS = KindSpec("", "v1", "endpoints", "Endpoints", True, ("ep",))
ENDPOINT_SLICE = KindSpec("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice")
INGRESS = KindSpec(
    *(*_NETWORKING, "ingresses", "Ingress", True, ("ing",)),
    subresources=("status",),
    has_generation=True,
    new_status={"loadBalancer": {}},
)
INGRESS_CLASS = KindSpec(*_NETWORKING, "ingressclasses", "IngressClass", False)
NETWORK_POLICY = KindSpec(
    *(*_NETWORKING, "networkpolicies", "NetworkPolicy", True, ("netpol",)),
    has_generation=True,
    complete=_complete_network_policy,
)


_SCALED = ("status", "scale")
"""The subresources of workloads with replicas: `kubectl scale` uses the second."""


def _complete_update(where: str, rolling: Mapping[str, Any], workload: JsonObject) -> None:
    """Default the update strategy at spec.`where`: RollingUpdate with these numbers."""
    strategy = workload["spec"].setdefault(where, {})
    fill(strategy, {"type": "RollingUpdate"})
    if strategy["type"] == "RollingUpdate":
        fill(strategy.setdefault("rollingUpdate", {}), rolling)


def _complete_stateful_set(workload: JsonObject) -> None:
    _complete_update("updateStrategy", {"partition": 0, "maxUnavailable": 1}, workload)
    retention = workload["spec"].setdefault("persistentVolumeClaimRetentionPolicy", {})
    fill(retention, {"whenDeleted": "Retain", "whenScaled": "Retain"})


def _complete_replication_controller(controller: JsonObject) -> None:
    """A ReplicationController without a selector selects the labels of its template."""
    labels = controller["spec"]["template"]["metadata"].get("labels")
    if labels:
        controller["spec"].setdefault("selector", dict(labels))


def _complete_cron_job(cron_job: JsonObject) -> None:
    cron_job["spec"]["jobTemplate"].setdefault("metadata", {})


def _complete_job(job: JsonObject) -> None:
    """A job with parallelism but without completions is a work queue, so completions has a default only without both."""
    spec = job["spec"]
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    fill(spec, {"parallelism": 1})


def _job_status(job: JsonObject, _: int) -> Cell:
    """The first of these states that holds, in upstream's order."""
    held = {condition for condition, status in conditions(job).items() if status == "True"}
    if at(job, "metadata.deletionTimestamp"):
        held.add("Terminating")
    order = ("Complete", "Failed", "Terminating", "Suspended", "FailureTarget", "SuccessCriteriaMet")
    return next((state for state in order if state in held), "Running")


def _job_completions(job: JsonObject, _: int) -> Cell:
    """A work queue has no number of completions: `0/1 of 3` for a parallelism of 3."""
    done, parallel = at(job, "status.succeeded", 0), at(job, "spec.parallelism", 0)
    work_queue = f"1 of {parallel}" if parallel > 1 else "1"
    return f"{done}/{at(job, 'spec.completions', work_queue)}"


def _job_duration(job: JsonObject, now_ns: int) -> Cell:
    started, ended = at(job, "status.startTime"), at(job, "status.completionTime")
    if not started:
        return ""
    return since(started, moment_ns(ended) if ended else now_ns)


_READY = Column("Ready", ratio("status.readyReplicas", "spec.replicas"))
# The defaults below are those of upstream's pkg/apis/apps/v1/defaults.go and pkg/apis/batch/v1/defaults.go.

_REPLICAS = (
    *(NAME, number("Desired", "spec.replicas", 1), number("Current", "status.replicas")),
    *(number("Ready", "status.readyReplicas"), AGE),
)

DEPLOYMENT = KindSpec(
    *("apps", "v1", "deployments", "Deployment", True, ("deploy",), ("all",), _SCALED),
    struct=Workload,
    makes_pods=True,
    spec_defaults={"replicas": 1, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600},
    pod_template=TEMPLATE,
    complete=partial(_complete_update, "strategy", {"maxUnavailable": "25%", "maxSurge": "25%"}),
    has_generation=True,
    fixed=("spec.selector",),
    status_keeps=("labels",),
    columns=(
        *(NAME, _READY, Column("Up-to-date", field_cell("status.updatedReplicas", 0))),
        *(Column("Available", field_cell("status.availableReplicas", 0)), AGE),
        *template_columns(POD_SPEC, "spec.selector"),
    ),
)

REPLICA_SET = KindSpec(
    *("apps", "v1", "replicasets", "ReplicaSet", True, ("rs",), ("all",), _SCALED),
    struct=ReplicaSet,
    check=lambda owner: rules.label_selector("spec.selector", owner.spec.selector),
    makes_pods=True,
    watch=Watch(),
    spec_defaults={"replicas": 1},
    pod_template=TEMPLATE,
    new_status={"replicas": 0},
    has_generation=True,
    fixed=("spec.selector",),
    columns=(*_REPLICAS, *template_columns(POD_SPEC, "spec.selector")),
)

STATEFUL_SET = KindSpec(
    *("apps", "v1", "statefulsets", "StatefulSet", True, ("sts",), ("all",), _SCALED),
    struct=StatefulSet,
    check=lambda owner: rules.label_selector("spec.selector", owner.spec.selector),
    makes_pods=True,
    watch=Watch(),
    spec_defaults={"replicas": 1, "revisionHistoryLimit": 10, "podManagementPolicy": "OrderedReady"},
    pod_template=TEMPLATE,
    complete=_complete_stateful_set,
    new_status={"replicas": 0, "availableReplicas": 0},
    has_generation=True,
    fixed=("spec.selector", "spec.volumeClaimTemplates", "spec.serviceName", "spec.podManagementPolicy"),
    columns=(NAME, _READY, AGE, *template_columns(POD_SPEC)),
)

DAEMON_SET = KindSpec(
    *("apps", "v1", "daemonsets", "DaemonSet", True, ("ds",), ("all",), ("status",)),
    struct=Workload,
    makes_pods=True,
    spec_defaults={"revisionHistoryLimit": 10},
    pod_template=TEMPLATE,
    complete=partial(_complete_update, "updateStrategy", {"maxUnavailable": 1, "maxSurge": 0}),
    new_status={"currentNumberScheduled": 0, "numberMisscheduled": 0, "desiredNumberScheduled": 0, "numberReady": 0},
    has_generation=True,
    fixed=("spec.selector",),
    columns=(
        NAME,
        number("Desired", "status.desiredNumberScheduled"),
        number("Current", "status.currentNumberScheduled"),
        number("Ready", "status.numberReady"),
        number("Up-to-date", "status.updatedNumberScheduled"),
        number("Available", "status.numberAvailable"),
        Column("Node Selector", labels_cell(f"{POD_SPEC}.nodeSelector")),
        AGE,
        *template_columns(POD_SPEC, "spec.selector"),
    ),
)

CONTROLLER_REVISION = KindSpec("apps", "v1", "controllerrevisions", "ControllerRevision")

REPLICATION_CONTROLLER = KindSpec(
    *("", "v1", "replicationcontrollers", "ReplicationController", True, ("rc",), ("all",), _SCALED),
    struct=ReplicationController,
    check=lambda owner: rules.labels("spec.selector", owner.spec.selector),
    makes_pods=True,
    watch=Watch(),
    spec_defaults={"replicas": 1},
    pod_template=TEMPLATE,
    complete=_complete_replication_controller,
    new_status={"replicas": 0},
    has_generation=True,
    has_plain_selector=True,
    field_labels={**OF_METADATA, "status.replicas": text_at("status.replicas", otherwise="0")},
    columns=(*_REPLICAS, *template_columns(POD_SPEC), wide("Selector", labels_cell("spec.selector"))),
)

JOB = KindSpec(
    *("batch", "v1", "jobs", "Job", True, (), ("all",), ("status",)),
    struct=Workload,
    makes_pods=True,
    spec_defaults={
        "backoffLimit": 6,
        "completionMode": "NonIndexed",
        "suspend": False,
        "manualSelector": False,
        "podReplacementPolicy": "TerminatingOrFailed",
    },
    pod_template=TEMPLATE,
    complete=_complete_job,
    has_generation=True,
    faults=job_faults,
    change_faults=job_changes,
    columns=(
        *(NAME, Column("Status", _job_status), Column("Completions", _job_completions)),
        *(Column("Duration", _job_duration), AGE, *template_columns(POD_SPEC, "spec.selector")),
    ),
)

CRON_JOB = KindSpec(
    *("batch", "v1", "cronjobs", "CronJob", True, ("cj",), ("all",), ("status",)),
    spec_defaults={
        "concurrencyPolicy": "Allow",
        "suspend": False,
        "successfulJobsHistoryLimit": 3,
        "failedJobsHistoryLimit": 1,
    },
    pod_template=("spec", "jobTemplate", *TEMPLATE),
    complete=_complete_cron_job,
    has_generation=True,
    columns=(
        NAME,
        Column("Schedule", field_cell("spec.schedule")),
        Column("Timezone", field_cell("spec.timeZone", NONE)),
        Column("Suspend", lambda cron, _: {None: UNSET, True: "True"}.get(at(cron, "spec.suspend"), "False")),
        Column("Active", count("status.active"), type="integer"),
        Column("Last Schedule", ago("status.lastScheduleTime", NONE)),
        AGE,
        *template_columns(f"spec.jobTemplate.{POD_SPEC}", "spec.jobTemplate.spec.selector"),
    ),
)
