"""Labels of nodes that Kubernetes itself gives a meaning (upstream: api/core/v1/well_known_labels.go)."""

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
TOPOLOGY = (ZONE, REGION)
"""What the API server copies from a node to its pods, so that containers can read them through the downward API, and
provisioners from a node to its volumes."""

BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
BETA_REGION = "failure-domain.beta.kubernetes.io/region"
"""Their names before Kubernetes 1.17; old manifests still have them."""
