"""A node table, and beside it the pods that it should count: for tests that compare both."""

from mooring.cluster.nodes.table import NodeTable
from mooring.model.pod import Pod


class PlacedPods:
    """Pods by number; one that is placed again leaves its node first."""

    def __init__(self) -> None:
        self.table = NodeTable()
        self.pods: dict[int, tuple[Pod, str]] = {}

    def put(self, number: int, pod: Pod, node: str) -> None:
        self.remove(number, None)
        self.table.place(pod, node)
        self.pods[number] = pod, node

    def remove(self, number: int, _: None) -> None:
        if number in self.pods:
            self.table.displace(self.pods.pop(number)[0].id)
