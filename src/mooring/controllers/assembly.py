"""All controllers of an embedded cluster."""

from mooring.apiserver.access import Api
from mooring.controllers.cluster_services import cluster_services
from mooring.controllers.control_loop import Controller
from mooring.controllers.workloads.workloads import workload_controllers


def all_controllers(api: Api) -> list[Controller]:
    return [*workload_controllers(api), *cluster_services(api)]
