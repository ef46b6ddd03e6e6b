"""Services and other kinds of the network. The scheduler reads only Services: default spread constraints use their
selectors.
"""

from mooring.api.json_objects import JsonObject, at, fill
from mooring.api.kind_spec import OF_METADATA, KindSpec, Watch, by, labels_at
from mooring.api.table_columns import AGE, NAME, NONE, Cell, Column, field_cell, labels_cell, wide
from mooring.api.validation import field_rules as rules
from mooring.api.validation.problem import Problems
from mooring.model.workloads import Service

_NETWORKING = ("networking.k8s.io", "v1")


def _complete_service(service: JsonObject) -> None:
    for port in service["spec"].get("ports", ()):
        fill(port, {"protocol": "TCP", "targetPort": port.get("port", 0)})


def _check_service(service: Service) -> Problems:
    yield from rules.labels("spec.selector", service.spec.selector)


def _cluster_ip(service: JsonObject, _: int) -> Cell:
    address: str = (at(service, "spec.clusterIPs") or [at(service, "spec.clusterIP", NONE)])[0]
    return address


def _external_ip(service: JsonObject, _: int) -> Cell:
    """Upstream's getServiceExternalIP: names and load balancers by the type of the Service."""
    type = at(service, "spec.type", "ClusterIP")
    if type == "ExternalName":
        return str(at(service, "spec.externalName", ""))
    given = at(service, "status.loadBalancer.ingress", ()) if type == "LoadBalancer" else ()
    balanced = sorted({line.get("ip") or line.get("hostname", "") for line in given})
    addresses = [*balanced, *at(service, "spec.externalIPs", ())]
    return ",".join(addresses) or ("<pending>" if type == "LoadBalancer" else NONE)


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
    check=_check_service,
    watch=Watch(),
    spec_defaults={"type": "ClusterIP", "sessionAffinity": "None"},
    complete=_complete_service,
    new_status={"loadBalancer": {}},
    returns_deleted=True,
    lists={"spec.ports": by("port", "protocol")},
    field_labels={**OF_METADATA, **labels_at("spec.clusterIP", "spec.type")},
    columns=(
        *(NAME, Column("Type", field_cell("spec.type", "ClusterIP")), Column("Cluster-IP", _cluster_ip)),
        *(Column("External-IP", _external_ip), Column("Port(s)", _ports), AGE),
        wide("Selector", labels_cell("spec.selector")),
    ),
)

ENDPOINTS = KindSpec("", "v1", "endpoints", "Endpoints", True, ("ep",))
ENDPOINT_SLICE = KindSpec("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice")
INGRESS = KindSpec(*_NETWORKING, "ingresses", "Ingress", True, ("ing",), subresources=("status",))
INGRESS_CLASS = KindSpec(*_NETWORKING, "ingressclasses", "IngressClass", False)
NETWORK_POLICY = KindSpec(*_NETWORKING, "networkpolicies", "NetworkPolicy", True, ("netpol",))
