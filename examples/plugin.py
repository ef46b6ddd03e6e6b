"""LimitPerNode: limits the pods of an application on one node, and prefers nodes that have none of them.

The application of a pod is the value of a label; pods without the label are not limited. Try it:

    mooring simulate examples/cluster.yaml --plugin examples/plugin.py --config examples/plugin.yaml
"""

from mooring.plugin import Handle, NodeView, PlainPlugin, Pod


class LimitPerNode(PlainPlugin):
    name = "LimitPerNode"

    def __init__(self, args: object, handle: Handle) -> None:
        written = args if isinstance(args, dict) else {}
        self.label: str = written.get("label", "app")
        self.most: int = written.get("maxPerNode", 1)
        if not isinstance(self.most, int) or self.most < 1:
            raise ValueError(f"maxPerNode: Invalid value: {self.most!r}: must be a whole number from 1")

    def filter(self, pod: Pod, node: NodeView) -> str | None:
        if self.count(pod, node) < self.most:
            return None
        return f"node(s) had {self.most} pod(s) of the same {self.label} already"

    def score(self, pod: Pod, node: NodeView) -> int:
        return 100 - 100 * self.count(pod, node) // self.most

    def count(self, pod: Pod, node: NodeView) -> int:
        """How many pods of the same application are on the node."""
        wanted = pod.labels.get(self.label)
        if wanted is None:
            return 0
        return sum(pod.namespace == other.namespace and other.labels.get(self.label) == wanted for other in node.pods)
