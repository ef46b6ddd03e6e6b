"""Cells of nodes, jobs, services, volumes, claims and events."""

from collections.abc import Callable
from typing import Any

from mooring.apiserver.store import JsonObject
from mooring.apiserver.tables.table_cells import NONE, UNSET, Cell, at, conditions, since
from mooring.kit.rfc3339 import moment_ns


def node_status(node: JsonObject, _: int) -> Cell:
    ready = {None: "Unknown", "True": "Ready"}.get(conditions(node).get("Ready"), "NotReady")
    return f"{ready},SchedulingDisabled" if at(node, "spec.unschedulable") else ready


def node_roles(node: JsonObject, _: int) -> Cell:
    prefix = "node-role.kubernetes.io/"
    labels = at(node, "metadata.labels", {})
    roles = {label.removeprefix(prefix) for label in labels if label.startswith(prefix)} | {
        labels.get("kubernetes.io/role", "")
    }
    return ",".join(sorted(roles - {""})) or NONE


def node_address(type: str) -> Callable[[JsonObject, int], Cell]:
    def cell(node: JsonObject, _: int) -> Cell:
        return next((a["address"] for a in at(node, "status.addresses", ()) if a.get("type") == type), NONE)

    return cell


def job_status(job: JsonObject, _: int) -> Cell:
    held = {type for type, status in conditions(job).items() if status == "True"}
    if at(job, "metadata.deletionTimestamp"):
        held.add("Terminating")
    order = ("Complete", "Failed", "Terminating", "Suspended", "FailureTarget", "SuccessCriteriaMet")
    return next((type for type in order if type in held), "Running")


def job_completions(job: JsonObject, _: int) -> Cell:
    done, parallel = at(job, "status.succeeded", 0), at(job, "spec.parallelism", 0)
    work_queue = f"1 of {parallel}" if parallel > 1 else "1"
    return f"{done}/{at(job, 'spec.completions', work_queue)}"


def job_duration(job: JsonObject, now_ns: int) -> Cell:
    started, ended = at(job, "status.startTime"), at(job, "status.completionTime")
    if not started:
        return ""
    return since(started, moment_ns(ended) if ended else now_ns)


def suspended(cron: JsonObject, _: int) -> Cell:
    return {None: UNSET, True: "True"}.get(at(cron, "spec.suspend"), "False")


def cluster_ip(service: JsonObject, _: int) -> Cell:
    address: str = (at(service, "spec.clusterIPs") or [at(service, "spec.clusterIP", NONE)])[0]
    return address


def external_ip(service: JsonObject, _: int) -> Cell:
    type = at(service, "spec.type", "ClusterIP")
    if type == "ExternalName":
        return str(at(service, "spec.externalName", ""))
    given = at(service, "status.loadBalancer.ingress", ()) if type == "LoadBalancer" else ()
    balanced = sorted({line.get("ip") or line.get("hostname", "") for line in given})
    addresses = [*balanced, *at(service, "spec.externalIPs", ())]
    return ",".join(addresses) or ("<pending>" if type == "LoadBalancer" else NONE)


def ports_cell(service: JsonObject, _: int) -> Cell:
    shown = []
    for port in at(service, "spec.ports", ()):
        number = f"{port['port']}:{port['nodePort']}" if port.get("nodePort") else str(port["port"])
        shown.append(f"{number}/{port.get('protocol', 'TCP')}")
    return ",".join(shown) or NONE


_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}


def access_modes(path: str) -> Callable[[JsonObject, int], Cell]:
    return lambda item, _: ",".join(short for mode, short in _MODES.items() if mode in at(item, path, ()))


def if_bound(cell: Callable[[JsonObject, int], Cell]) -> Callable[[JsonObject, int], Cell]:
    """What a claim has only once a volume is found for it."""
    return lambda claim, now_ns: cell(claim, now_ns) if at(claim, "spec.volumeName") else ""


def storage_class(item: JsonObject, _: int) -> Cell:
    old = at(item, "metadata.annotations", {}).get("volume.beta.kubernetes.io/storage-class")
    return str(at(item, "spec.storageClassName", "") if old is None else old)


def claim(volume: JsonObject, _: int) -> Cell:
    claim = at(volume, "spec.claimRef")
    return f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else ""


def class_name(storage_class: JsonObject, _: int) -> Cell:
    annotations = at(storage_class, "metadata.annotations", {})
    prefixes = ("storageclass.kubernetes.io", "storageclass.beta.kubernetes.io")
    default = any(annotations.get(f"{prefix}/is-default-class") == "true" for prefix in prefixes)
    return f"{at(storage_class, 'metadata.name')}{' (default)' if default else ''}"


def claim_state(claim: JsonObject, _: int) -> Cell:
    deleted, allocated = at(claim, "metadata.deletionTimestamp"), at(claim, "status.allocation") is not None
    held = (
        ("deleted", deleted),
        ("pending", not allocated and not deleted),
        ("allocated", allocated),
        ("reserved", allocated and at(claim, "status.reservedFor")),
    )
    return ",".join(name for name, holds in held if holds)


def first(item: JsonObject, *paths: str, otherwise: Any = "") -> Any:
    return next((found for path in paths if (found := at(item, path))), otherwise)


FIRST_SEEN = ("firstTimestamp", "deprecatedFirstTimestamp", "eventTime")

LAST_SEEN = ("series.lastObservedTime", "lastTimestamp", "deprecatedLastTimestamp", *FIRST_SEEN)


def event_object(event: JsonObject, _: int) -> Cell:
    about = first(event, "involvedObject", "regarding", otherwise={})
    kind, name = about.get("kind", "").lower(), about.get("name", "")
    return f"{kind}/{name}" if name else kind


def event_source(event: JsonObject, _: int) -> Cell:
    component = first(
        event, "source.component", "deprecatedSource.component", "reportingComponent", "reportingController"
    )
    host = first(event, "source.host", "deprecatedSource.host", "reportingInstance")
    return f"{component}, {host}" if host else str(component)


def event_field(*paths: str, otherwise: Cell = "") -> Callable[[JsonObject, int], Cell]:
    def cell(event: JsonObject, _: int) -> Cell:
        found = first(event, *paths, otherwise=otherwise)
        return found.strip() if isinstance(found, str) else int(found)

    return cell
