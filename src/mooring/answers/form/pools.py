"""Zones and pools of nodes: the groups by which answers add up what nodes have."""

from mooring.model.node import Node
from mooring.model.well_known_labels import BETA_ZONE, ZONE

POOL_LABELS = (
    "karpenter.sh/nodepool",
    "cloud.google.com/gke-nodepool",
    "eks.amazonaws.com/nodegroup",
    "alpha.eksctl.io/nodegroup-name",
    "kubernetes.azure.com/agentpool",
    "agentpool",
    "doks.digitalocean.com/node-pool",
    "ibm-cloud.kubernetes.io/worker-pool-name",
    "k8s.scaleway.com/pool-name",
    "lke.linode.com/pool-id",
    "pool",
    "node.kubernetes.io/instance-type",
    "beta.kubernetes.io/instance-type",
)
"""The labels that name the pool of a node, the first that a node has. `pool` is what generated nodes have, and many that
people label themselves. The instance type is the last resort: a cluster without
pools has at least machines of some kinds."""


def zone_of(node: Node) -> str:
    """The zone of a node; empty if it has none."""
    return node.labels.get(ZONE) or node.labels.get(BETA_ZONE) or ""


def pool_of(node: Node) -> str:
    """The pool of a node; empty if no label names one."""
    labels = node.labels
    return next((labels[key] for key in POOL_LABELS if labels.get(key)), "")
