"""The objects of a cluster after the edits of a cure: what a cluster that is built anew begins with."""

from collections.abc import Iterable, Sequence

from mooring.answers.trial.counterfactual import ChangePod, Edit, MovePod, PlacePod, PutObject, RemovePod
from mooring.model.meta import KubeObject
from mooring.model.pod import Pod


def edited(objects: Iterable[KubeObject], edits: Sequence[Edit]) -> list[KubeObject]:
    """The objects after the edits, in their order."""
    after = {(type(item), item.key): item for item in objects}
    for edit in edits:
        match edit:
            case PutObject(item):
                after[type(item), item.key] = item
            case RemovePod(pod):
                after.pop((Pod, pod.key), None)
            case MovePod(pod, node):
                after[Pod, pod.key] = pod.with_node(node)
            case ChangePod(pod) | PlacePod(pod):
                after[Pod, pod.key] = pod
    return list(after.values())
