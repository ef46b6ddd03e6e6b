"""The kinds that controllers read and write, by short names."""

from mooring.api.kinds import RESOURCES

PODS = RESOURCES["", "v1", "pods"]
NODES = RESOURCES["", "v1", "nodes"]
NAMESPACES = RESOURCES["", "v1", "namespaces"]
EVENTS = RESOURCES["", "v1", "events"]
CONFIG_MAPS = RESOURCES["", "v1", "configmaps"]
SERVICE_ACCOUNTS = RESOURCES["", "v1", "serviceaccounts"]
VOLUMES = RESOURCES["", "v1", "persistentvolumes"]
CLAIMS = RESOURCES["", "v1", "persistentvolumeclaims"]
CLASSES = RESOURCES["storage.k8s.io", "v1", "storageclasses"]
LEASES = RESOURCES["coordination.k8s.io", "v1", "leases"]
BUDGETS = RESOURCES["policy", "v1", "poddisruptionbudgets"]

# Hot: a resource works out its storage each time it is asked, which the controllers would do several times a write.
POD_STORE, NODE_STORE, LEASE_STORE, EVENT_STORE = PODS.storage, NODES.storage, LEASES.storage, EVENTS.storage
CLAIM_STORE, VOLUME_STORE, CLASS_STORE, BUDGET_STORE = CLAIMS.storage, VOLUMES.storage, CLASSES.storage, BUDGETS.storage
