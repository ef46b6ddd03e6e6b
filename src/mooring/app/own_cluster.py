"""Finds out whether a kubeconfig leads to a cluster of `mooring up`, for commands that must not touch any other."""

from dataclasses import replace

from mooring.apiclient.client import ApiClient
from mooring.apiclient.connection_settings import ConnectionSettings
from mooring.apiclient.request_errors import Unreadable
from mooring.apiserver.identity import ROOT, id_in, prefix_of
from mooring.model.api_errors import ApiError

_UNAUTHORIZED = 401


class NotOurs(Exception):
    """The server is not one of `mooring up`."""

    def __init__(self, server: str) -> None:
        super().__init__(f"{server} is not a cluster that `mooring up` started: nothing was changed")


async def own_connection(access: ConnectionSettings, user_agent: str) -> ConnectionSettings:
    """Access to the same cluster below the path that only this cluster serves. It reads one document and writes nothing.

    Raises NotOurs; ApiError (401) where the server does not say, because it does not know the user.
    """
    async with ApiClient(access, user_agent, qps=-1) as client:
        try:
            cluster_id = id_in(await client.get(ROOT))
        except Unreadable:
            cluster_id = ""
        except ApiError as refused:
            if refused.code == _UNAUTHORIZED:
                raise
            cluster_id = ""
    if not cluster_id:
        raise NotOurs(access.server)
    return replace(access, server=access.server + prefix_of(cluster_id))
