"""The kinds that controllers read and write, by short names."""

from mooring.api.kinds import RESOURCES

PODS = RESOURCES["", "v1", "pods"]
NODES = RESOURCES["", "v1", "nodes"]
NAMESPACES = RESOURCES["", "v1", "namespaces"]
EVENTS = RESOURCES["", "v1", "events"]
CONFIG_MAPS = RESOURCES["", "v1", "configmaps"]
SERVICE_ACCOUNTS = RESOURCES["", "v1", "serviceaccounts"]
QUOTAS = RESOURCES["", "v1", "resourcequotas"]
VOLUMES = RESOURCES["", "v1", "persistentvolumes"]
CLAIMS = RESOURCES["", "v1", "persistentvolumeclaims"]
CLASSES = RESOURCES["storage.k8s.io", "v1", "storageclasses"]
DEVICE_CLAIMS = RESOURCES["resource.k8s.io", "v1", "resourceclaims"]
TEMPLATES = RESOURCES["resource.k8s.io", "v1", "resourceclaimtemplates"]
SLICES = RESOURCES["resource.k8s.io", "v1", "resourceslices"]
LEASES = RESOURCES["coordination.k8s.io", "v1", "leases"]
BUDGETS = RESOURCES["policy", "v1", "poddisruptionbudgets"]

DEPLOYMENTS = RESOURCES["apps", "v1", "deployments"]
REPLICA_SETS = RESOURCES["apps", "v1", "replicasets"]
REPLICATION_CONTROLLERS = RESOURCES["", "v1", "replicationcontrollers"]
STATEFUL_SETS = RESOURCES["apps", "v1", "statefulsets"]
DAEMON_SETS = RESOURCES["apps", "v1", "daemonsets"]
REVISIONS = RESOURCES["apps", "v1", "controllerrevisions"]
JOBS = RESOURCES["batch", "v1", "jobs"]
CRON_JOBS = RESOURCES["batch", "v1", "cronjobs"]

# Hot: a resource works out its storage each time it is asked, which the controllers would do several times a write.
POD_STORE, NODE_STORE, LEASE_STORE, EVENT_STORE = PODS.storage, NODES.storage, LEASES.storage, EVENTS.storage
CLAIM_STORE, VOLUME_STORE, CLASS_STORE, BUDGET_STORE = CLAIMS.storage, VOLUMES.storage, CLASSES.storage, BUDGETS.storage
