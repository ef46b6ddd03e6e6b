"""What several views say of a node."""

from mooring.model.node import Node
from mooring.rules.conditions import typed_condition


def is_ready(node: Node) -> bool:
    """A node without the condition counts as ready: manifests have none."""
    condition = typed_condition(node.status.conditions, "Ready")
    return condition is None or condition.status == "True"
