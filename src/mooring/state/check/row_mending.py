"""Puts right what turned out to be wrong in a cluster: rows, counts and files are made anew from objects and pods."""

from mooring.cluster.claims.volumes_on_nodes import VolumesOnNodes
from mooring.cluster.cluster import Cluster
from mooring.cluster.columns.facts import NO_FACTS, facts_of
from mooring.cluster.nodes.float_columns import FloatColumns
from mooring.cluster.nodes.table import NodeTable


def count_row_anew(nodes: NodeTable, name: str) -> None:
    """Make the columns of a row anew, from its node and the pods that are on it. Kept answers about the row become void.

    What can fail comes first. Labels and images are taken away before they are put: columns are written only where
    something changes. Tallies are left alone: to count them takes a pass over all pods.
    """
    row = nodes.row_book[name]
    node = nodes.nodes[row]
    facts = NO_FACTS if node is None else facts_of(node)
    nodes._put_facts(row, NO_FACTS)
    nodes._put_facts(row, facts)
    pods = {pod.id: pod for pod in nodes.pods_on[row]}
    nodes.pods_on[row][:] = pods.values()
    nodes._row_of_pod.update(dict.fromkeys(pods, row))
    nodes.alive[row], nodes.pod_count[row] = node is not None, len(pods)
    nodes.amounts.count_anew(row)
    nodes.ports.clear(row)
    for pod in pods.values():
        nodes.ports.occupy(row, pod.shape.host_ports)
    nodes.touches.note(row)


def count_nodes_anew(nodes: NodeTable) -> None:
    nodes.alive_count = sum(node is not None for node in nodes.nodes)
    nodes.touch_all()


def count_tallies_anew(nodes: NodeTable) -> None:
    """Count all tallies from the pods on nodes."""
    nodes.tallies.count_anew(nodes.pods_on)
    nodes.touch_all()


def work_out_columns_anew(cluster: Cluster) -> None:
    """Drop the columns that follow the table, and make those of volumes again when they are next read."""
    cluster._floats = FloatColumns(cluster.nodes)
    cluster._volumes = VolumesOnNodes(cluster.storage, cluster.nodes)


def file_volume_anew(cluster: Cluster, name: str) -> None:
    """File a volume under its class and its claim, whatever it is filed under now."""
    storage = cluster.storage
    for shelf in storage._shelves.values():
        shelf.remove(name)
    for key in [key for key, kept in storage._kept.items() if name in kept]:
        storage._let_go(key, name)
    storage._placed.pop(name, None)
    storage._place(name)


def nominate_anew(cluster: Cluster) -> None:
    """Add up again what nominated pods will take."""
    nominated = cluster.nominated
    promised = [(pod, nominated.node_of(pod_id)) for pod_id in nominated.pod_ids() if (pod := nominated.get(pod_id))]
    for pod, node_name in promised:
        nominated.promise(pod, node_name or "")
    nominated._loads.clear()
