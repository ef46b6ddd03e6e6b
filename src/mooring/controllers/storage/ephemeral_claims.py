"""Makes the claims of generic ephemeral volumes: a pod brings the template, and owns the claim."""

from collections.abc import Iterable, Sequence

from mooring.apiserver.resource_api import ResourceApi
from mooring.apiserver.store import Key, StoreWrite
from mooring.controllers.cluster_kinds import CLAIMS, POD_STORE, PODS
from mooring.rules.pod_claims import volume_claim_for


class EphemeralClaims:
    """Schedulers wait for these claims before they look for a node."""

    name = "ephemeral-claims"
    storages: Sequence[str] = (POD_STORE,)
    rest_ns = 0

    def __init__(self, api: ResourceApi) -> None:
        self._api = api

    def concerned(self, write: StoreWrite) -> Iterable[Key]:
        volumes = write.object["spec"].get("volumes") if write.type == "ADDED" else None
        return (write.key,) if volumes and any("ephemeral" in volume for volume in volumes) else ()

    def sync(self, key: Key) -> int | None:
        pod = self._api.find(PODS, *key)
        if pod is None or pod["metadata"].get("deletionTimestamp"):
            return None
        for volume in pod["spec"].get("volumes", ()):
            name = f"{key[1]}-{volume['name']}"
            if "ephemeral" in volume and self._api.find(CLAIMS, key[0], name) is None:
                self._api.create(CLAIMS, key[0], volume_claim_for(pod, volume))
        return None
