"""All controllers of an embedded cluster."""

from mooring.api.access import Api
from mooring.controllers.cluster_services import cluster_services
from mooring.controllers.manager import Controller


def all_controllers(api: Api) -> list[Controller]:
    return cluster_services(api)
