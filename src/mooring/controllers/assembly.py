"""All controllers of an embedded cluster."""

from mooring.apiserver.resource_api import ResourceApi
from mooring.controllers.cluster_services import cluster_services
from mooring.controllers.control_loop import Controller
from mooring.controllers.workloads.workloads import workload_controllers


def all_controllers(api: ResourceApi) -> list[Controller]:
    return [*workload_controllers(api), *cluster_services(api)]
